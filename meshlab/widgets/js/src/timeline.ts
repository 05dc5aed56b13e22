/**
 * The step over time: a lane of kernels, one for each set of mesh axes that something is sent over, and the memory of a
 * device below, on one scale of seconds. Where the lane of kernels is empty, communication is exposed. A click on a
 * segment tells what it is, why it is there, and what would remove it.
 */

import type { Board } from "./board.ts";
import { h, prose, s } from "./dom.ts";
import { bytes, exact, seconds } from "./format.ts";
import { axisLabel, markClass } from "./marks.ts";
import { predicted } from "./model.ts";
import { drawRemedies } from "./remedies.ts";
import { bringIntoPanel, select } from "./selection.ts";
import { drawTicks } from "./ticks.ts";
import type { Segment, Timeline, View } from "./types.ts";

/** @returns hundredths of the width */
function x(time: number, timeline: Timeline): number {
  return timeline.seconds ? (100 * time) / timeline.seconds : 0;
}

/** @returns what a segment is, in a line */
export function titleOf(segment: Segment, key: string): string {
  const often = segment.times > 1 ? ` × ${exact(segment.times)}` : "";
  const what = segment.kind === "compute" ? segment.name : `${segment.kind} over ${key}${often}: ${segment.name}`;
  const dims = segment.dims.length ? ` [${segment.dims.join(" ")}]` : "";
  return `${what}${dims}, ${seconds(segment.seconds)}`;
}

/** @param zoom how many times as wide; then there is room for the lane of what is exposed, and for the sum of each lane */
export function drawTimeline(board: Board, zoom: number = 0): (HTMLElement | null | false)[] {
  const { view } = board;
  const enlarged = zoom > 0;
  const { timeline, peak_memory: peak } = view;
  if (!timeline) return [];
  const lanes = timeline.lanes.map((lane) => drawLane(board, timeline, lane, enlarged));
  return [
    h("span", { class: "mlb-lane-name" }),
    h("div", { class: "mlb-scale", "aria-hidden": "true" }, drawTicks(timeline.seconds, zoom || 1)),
    h("span", { class: "mlb-lane-name" }, "one step ", h("b", { class: "mlb-lane-end" }, seconds(timeline.seconds))),
    drawPhases(timeline),
    ...lanes.flat(),
    ...(enlarged ? drawExposed(timeline) : []),
    h("span", { class: "mlb-lane-name" }, "memory"),
    drawMemory(timeline, peak),
  ];
}

function drawPhases(timeline: Timeline): HTMLElement {
  const phases = timeline.phases.map((phase) => {
    const loop = timeline.loops.find((each) => each.begin < phase.end && each.end > phase.begin);
    const left = x(phase.begin, timeline);
    const name = `${phase.name}${loop ? ` × ${exact(loop.times)}` : ""}`;
    return h(
      "span",
      {
        class: "mlb-phase",
        style: `left:${left}%;width:${x(phase.end, timeline) - left}%`,
        title: `${name}: ${seconds(phase.end - phase.begin)}${loop ? "; a loop is drawn as one iteration, stretched over the time of all" : ""}`,
      },
      h("span", {}, name),
    );
  });
  return h("div", { class: "mlb-phases" }, phases);
}

function drawLane(board: Board, timeline: Timeline, lane: Timeline["lanes"][number], enlarged: boolean): HTMLElement[] {
  const { view } = board;
  const name = lane.key ? axisLabel(view, lane.key) : "compute";
  const segments = momentsOf(lane).map(({ segment, id, collective }, i) => {
    const left = x(segment.begin, timeline);
    const title = `${titleOf(segment, lane.key)}${segment.source && `, ${segment.source}`}`;
    return h("button", {
      type: "button",
      key: id,
      class: `mlb-segment ${lane.key ? markClass(view, lane.key) : "mlb-kernel"}`,
      style: `left:${left.toFixed(3)}%;width:${Math.max(0.12, x(segment.end, timeline) - left).toFixed(3)}%`,
      title,
      "aria-label": title,
      "aria-pressed": "false",
      "data-collective": collective,
      "data-segment": id,
      tabindex: i === 0 ? "0" : "-1",
      onclick: () => selectMoment(board, id, collective),
    });
  });
  const busy = secondsOf(lane.segments);
  const label = `${lane.key || "compute"}: busy for ${seconds(busy)} of ${seconds(timeline.seconds)}`;
  return [
    h("span", { key: `${lane.key}:name`, class: "mlb-lane-name", title: label }, name, enlarged && drawSum(busy)),
    h(
      "div",
      { key: lane.key, class: "mlb-lane", role: "group", "aria-label": label, "data-lane": lane.key || "compute" },
      segments,
    ),
  ];
}

/** The seconds in which something runs: of all segments of a lane together those of `plan.time`. */
function secondsOf(segments: Segment[]): number {
  return segments.reduce((sum, each) => sum + each.seconds, 0);
}

function drawSum(count: number): HTMLElement {
  return h("b", { class: "mlb-lane-sum" }, seconds(count));
}

/** The lane of the stretches in which no kernel runs. */
function drawExposed(timeline: Timeline): HTMLElement[] {
  const parts = timeline.exposed.map((segment) => {
    const left = x(segment.begin, timeline);
    const width = Math.max(0.12, x(segment.end, timeline) - left);
    const title = `no kernel runs for ${seconds(segment.seconds)}`;
    return h("span", {
      class: "mlb-exposed-part mlb-exposed",
      style: `left:${left.toFixed(3)}%;width:${width.toFixed(3)}%`,
      title,
    });
  });
  const whole = secondsOf(timeline.exposed);
  const label = `exposed: no kernel runs for ${seconds(whole)} of ${seconds(timeline.seconds)}`;
  return [
    h("span", { class: "mlb-lane-name" }, "exposed", drawSum(whole)),
    h("div", { class: "mlb-lane", role: "img", "aria-label": label, "data-lane": "exposed" }, parts),
  ];
}

function drawMemory(timeline: Timeline, peak: View["peak_memory"]): HTMLElement {
  const most = Math.max(peak?.limit ?? 0, ...timeline.memory.map(([, count]) => count), 1);
  const height = (count: number) => 100 - (100 * count) / most;
  const points = timeline.memory.flatMap(([time, count], i) => {
    const next = timeline.memory[i + 1]?.[0] ?? timeline.seconds;
    return [
      `${x(time, timeline).toFixed(2)},${height(count).toFixed(2)}`,
      `${x(next, timeline).toFixed(2)},${height(count).toFixed(2)}`,
    ];
  });
  const limit = peak ? height(peak.limit) : 0;
  const text = peak ? `peak ${bytes(peak.bytes)} of ${bytes(peak.limit)}` : "";
  const drawing = s(
    "svg",
    { viewBox: "0 0 100 100", preserveAspectRatio: "none", role: "img", "aria-label": `memory of a device: ${text}` },
    s("polygon", { points: `0,100 ${points.join(" ")} 100,100`, class: peak?.fits === false ? "mlb-too-much" : "" }),
    s("line", { x1: 0, x2: 100, y1: limit, y2: limit, "vector-effect": "non-scaling-stroke" }),
  );
  return h("div", { class: "mlb-lane mlb-lane-memory", title: text }, drawing);
}

/**
 * The segments of a lane, each with its name and the collective that it draws. A name is that of the collective, so
 * that a segment is known again when the step has changed and its collective has not.
 */
export function momentsOf(
  lane: Timeline["lanes"][number],
): { segment: Segment; id: string; collective: string | null }[] {
  const seen: Map<string, number> = new Map();
  return lane.segments.map((segment) => {
    const { collective } = segment;
    const of = collective ?? (lane.key || "compute");
    seen.set(of, (seen.get(of) ?? 0) + 1);
    return { segment, id: `${of}#${seen.get(of)}`, collective };
  });
}

/** Selects a segment with its collective; once more releases both. */
function selectMoment(board: Board, id: string, collective: string | null) {
  const again = board.selection.moment === id;
  select(board, again ? { moment: null, collective: null } : { moment: id, collective });
  bringIntoPanel(board.root);
  board.say(again ? "No moment is selected." : (board.panels.detail.querySelector("b")?.textContent ?? ""));
}

/** What is selected of the step: a segment, or a collective; of none, what communication is exposed. */
export function drawDetail(board: Board): (Node | string | null | false)[] {
  const { view, selection, panels } = board;
  const { timeline, time } = view;
  const all = timeline?.lanes.flatMap((lane) => momentsOf(lane).map((each) => ({ ...each, key: lane.key }))) ?? [];
  const moment = all.find((each) => each.id === selection.moment);
  for (const segment of board.root.querySelectorAll(".mlb-segment"))
    segment.setAttribute("aria-pressed", String(segment.getAttribute("data-segment") === moment?.id));
  const wanted = moment ? moment.collective : selection.collective;
  const row = view.collectives.rows.find((each) => each.id === wanted);
  panels.detail.className = `mlb-detail ${row ? markClass(view, row.key) : ""}`;
  if (!timeline) return [];
  if (!moment && !row) {
    const known = predicted(time);
    const exposed = known?.exposed
      ? `${known.texts.exposed} of communication are exposed: no kernel runs meanwhile.`
      : "No communication is exposed.";
    return [known && `${exposed} `, "Click a segment: what it is, and why it is there."];
  }
  const title = moment ? titleOf(moment.segment, moment.key) : `${row?.kind} over ${row?.key}: ${row?.value}`;
  const often = row && row.times > 1 ? ` × ${exact(row.times)}` : "";
  const source = row?.source || moment?.segment.source;
  return [
    h("b", {}, title),
    row ? `, sends ${bytes(row.wire)}${often}. ` : " ",
    ...(row ? prose(`${row.because} `) : []),
    source ? h("code", {}, source) : null,
    row ? " " : null,
    row ? drawRemedies(board, row) : null,
  ];
}
