// @ts-check
/**
 * The step over time: a lane of kernels, one for each set of mesh axes that something is sent over, and the memory of a
 * device below, on one scale of seconds. Where the lane of kernels is empty, communication is exposed. A click on a
 * segment tells what it is, why it is there, and what would remove it.
 */
import { h, prose, s } from "./dom.js";
import { bytes, exact, seconds } from "./format.js";
import { axisLabel, markClass } from "./marks.js";

/**
 * @typedef {import("./types.js").View} View
 * @typedef {import("./types.js").Timeline} Timeline
 * @typedef {import("./types.js").Segment} Segment
 * @typedef {import("./board.js").Board} Board
 */

/**
 * @param {number} time
 * @param {Timeline} timeline
 * @returns {number} hundredths of the width
 */
function x(time, timeline) {
  return timeline.seconds ? (100 * time) / timeline.seconds : 0;
}

/**
 * @param {Segment} segment
 * @param {string} key
 * @returns {string} what a segment is, in a line
 */
export function titleOf(segment, key) {
  const often = segment.times > 1 ? ` × ${exact(segment.times)}` : "";
  const what = segment.kind === "compute" ? segment.name : `${segment.kind} over ${key}${often}: ${segment.name}`;
  const dims = segment.dims.length ? ` [${segment.dims.join(" ")}]` : "";
  return `${what}${dims}, ${seconds(segment.end - segment.begin)}`;
}

/**
 * The collective of the plan that a segment draws.
 * @param {View} view
 * @param {Segment} segment
 * @param {string} key
 * @returns {import("./types.js").Collective | undefined}
 */
export function collectiveOf(view, segment, key) {
  const alike = view.collectives.rows.filter((row) => row.kind === segment.kind && row.key === key);
  const dims = segment.dims.join();
  return (
    alike.find((row) => row.value === segment.name) ??
    alike.find((row) => row.dims.join() === dims && row.times === segment.times) ??
    alike.find((row) => row.dims.join() === dims)
  );
}

/**
 * @param {Board} board
 * @returns {(HTMLElement | null | false)[]}
 */
export function drawTimeline(board) {
  const { view } = board;
  const { timeline, peak_memory: peak } = view;
  if (!timeline) return [];
  const lanes = timeline.lanes.map((lane, number) => drawLane(board, timeline, lane, number));
  return [
    h(
      "div",
      { class: "mlb-lanes" },
      h("span", { class: "mlb-lane-name" }, "one step ", h("b", { class: "mlb-lane-end" }, seconds(timeline.seconds))),
      drawPhases(timeline),
      ...lanes.flat(),
      h("span", { class: "mlb-lane-name" }, "memory"),
      drawMemory(timeline, peak),
    ),
    drawDetail(board),
  ];
}

/**
 * @param {Timeline} timeline
 * @returns {HTMLElement}
 */
function drawPhases(timeline) {
  const phases = timeline.phases.map((phase) => {
    const loop = timeline.loops.find((each) => each.begin < phase.end && each.end > phase.begin);
    const left = x(phase.begin, timeline);
    const name = `${phase.name}${loop ? ` × ${exact(loop.times)}` : ""}`;
    return h(
      "span",
      {
        class: "mlb-phase",
        style: `left:${left}%;width:${x(phase.end, timeline) - left}%`,
        title: `${name}: ${seconds(phase.end - phase.begin)}`,
      },
      h("span", {}, name),
    );
  });
  return h("div", { class: "mlb-phases" }, phases);
}

/**
 * @param {Board} board
 * @param {Timeline} timeline
 * @param {Timeline["lanes"][number]} lane
 * @param {number} number
 * @returns {HTMLElement[]}
 */
function drawLane(board, timeline, lane, number) {
  const { view } = board;
  const name = lane.key ? axisLabel(view, lane.key) : "compute";
  const segments = lane.segments.map((segment, i) => {
    const left = x(segment.begin, timeline);
    const id = `${number}:${i}`;
    const title = `${titleOf(segment, lane.key)}${segment.source && `, ${segment.source}`}`;
    return h("button", {
      type: "button",
      class: `mlb-segment ${lane.key ? markClass(view, lane.key) : "mlb-kernel"}`,
      style: `left:${left.toFixed(3)}%;width:${Math.max(0.12, x(segment.end, timeline) - left).toFixed(3)}%`,
      title,
      "aria-label": title,
      "aria-pressed": String(board.moment === id),
      "data-key": `segment:${id}`,
      "data-segment": id,
      tabindex: i === 0 ? "0" : "-1",
      onclick: () => board.selectMoment(id),
    });
  });
  const busy = lane.segments.reduce((sum, each) => sum + each.end - each.begin, 0);
  const label = `${lane.key || "compute"}: busy for ${seconds(busy)} of ${seconds(timeline.seconds)}`;
  return [
    h("span", { class: "mlb-lane-name" }, name),
    h("div", { class: "mlb-lane", role: "group", "aria-label": label, "data-lane": lane.key || "compute" }, segments),
  ];
}

/**
 * @param {Timeline} timeline
 * @param {View["peak_memory"]} peak
 * @returns {HTMLElement}
 */
function drawMemory(timeline, peak) {
  const most = Math.max(peak?.limit ?? 0, ...timeline.memory.map(([, count]) => count), 1);
  const height = (/** @type {number} */ count) => 100 - (100 * count) / most;
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
 * What the segment that is selected is; of none, what communication is exposed.
 * @param {Board} board
 * @returns {HTMLElement}
 */
function drawDetail(board) {
  const { view } = board;
  const { timeline, time } = view;
  const [number, position] = (board.moment ?? "").split(":");
  const lane = timeline?.lanes[Number(number)];
  const segment = board.moment ? lane?.segments[Number(position)] : undefined;
  if (!segment || !lane) {
    const exposed = time?.exposed
      ? `${time.texts.exposed} of communication are exposed: no kernel runs meanwhile.`
      : "No communication is exposed.";
    const known = time && !time.missing;
    return h("p", { class: "mlb-detail" }, known && `${exposed} `, "Click a segment: what it is, and why it is there.");
  }
  const row = lane.key ? collectiveOf(view, segment, lane.key) : undefined;
  const source = row?.source || segment.source;
  return h(
    "p",
    { class: `mlb-detail ${lane.key ? markClass(view, lane.key) : ""}` },
    h("b", {}, titleOf(segment, lane.key)),
    row && [". ", ...prose(row.because)],
    row?.remedy && [h("span", { class: "mlb-remedy" }, " To remove it: ", prose(row.remedy))],
    source && [" ", h("code", {}, source)],
  );
}
