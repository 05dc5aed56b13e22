/**
 * The schedule of a pipeline, a lane for each stage (`views/stages.py`): forward cells are hollow, backward ones filled,
 * with the number of their micro-batch where it has room; every second chunk is less high, and what stages send is a thin
 * bar in the mark of their axis. Where a lane is hatched, its stage waits. A click looks at a cell, and says what it is;
 * by keyboard the drawing is a slider: left and right go through the cells of a stage, up and down to other stages.
 */
import type { Board } from "./board.ts";
import { h, s } from "./dom.ts";
import { exact, seconds } from "./format.ts";
import { axisLabel, markClass } from "./marks.ts";
import { predicted } from "./model.ts";
import { SLIDER_KEYS } from "./slider.ts";
import { spot } from "./spots.ts";
import type { Cells, Stages } from "./types.ts";

// A lane is drawn so wide and so high, and stretched; of more cells than these none has room for a number.
const [WIDE, HIGH, MOST] = [10_000, 12, 900];
// How far from above cells begin: of even chunks, and of odd ones; and where what is sent begins and ends.
const TOP = [0, 4];
const [SENT, SENT_END] = [4, 8];

export function drawSchedule(board: Board): (Node | null | false)[] {
  return predicted(board.view.time)?.schedule ? [spot("stages", () => drawLanes(board))] : [];
}

function drawLanes(board: Board): (Node | null | false)[] {
  const { free } = board.chosen.schedule;
  const head = h("h4", {}, "the schedule of the pipeline");
  const { data, error, fresh } = board.reads.of("stages", free ? { free_running: true } : {});
  if (error) return [head, h("p", { class: "mlb-error" }, `✕ ${error}`)];
  if (data && !data.lanes) return [];
  if (!data) return [head, drawSwitch(board), h("p", { class: "mlb-none" }, "The schedule is being worked out …")];
  return [
    head,
    h(
      "div",
      { class: "mlb-schedule", "data-fresh": String(fresh) },
      h("p", {}, h("b", {}, data.schedule), `. ${data.said}`),
      drawPicture(board, data),
      drawKey(board, data),
      h(
        "p",
        { class: "mlb-looked-cell" },
        saidAt(board, data) || "Click a cell, or use the arrow keys, to see what it is.",
      ),
      drawSwitch(board),
    ),
  ];
}

/** In lockstep, as the plan runs, or each stage by itself. */
function drawSwitch(board: Board): HTMLElement {
  const { schedule } = board.chosen;
  const change = ({ currentTarget: { checked } }: { currentTarget: HTMLInputElement }) => {
    board.chosen.schedule = { ...board.chosen.schedule, free: checked };
    board.stage.answered("stages");
  };
  const title = "a stage begins a cell as soon as its inputs have arrived, as separate processes would";
  const box = h("input", { type: "checkbox", checked: schedule.free, onchange: change });
  return h("label", { class: "mlb-switch", title }, box, "as if each stage ran by itself");
}

function drawPicture(board: Board, data: Stages): HTMLElement {
  const waits = data.lanes.map((lane, i) => `stage ${i} waits for ${lane.text}`).join(", ");
  const picture = { class: "mlb-schedule-lanes", role: "img", "aria-label": `${data.schedule}: ${waits}` };
  const few = data.lanes.reduce((sum, { cells }) => sum + cells.begin.length, 0) <= MOST;
  const lanes = data.lanes.flatMap(({ cells, text }, stage) => [
    h("span", { class: "mlb-lane-name" }, `stage ${stage}`),
    drawLane(board, data, stage, few ? numbersOf(cells, data, stage) : []),
    h("span", { class: "mlb-schedule-waits", title: `how long stage ${stage} waits` }, text),
  ]);
  const heads = [h("span"), h("span"), h("span", { class: "mlb-schedule-waits" }, "waits")];
  return h("div", { class: "mlb-schedule-box" }, h("div", picture, heads, lanes), drawSlider(board, data));
}

/** Rectangles as one path. */
function boxes(begin: number[], end: number[], whole: number, top: (i: number) => number, bottom: number): string {
  const x = (time: number) => ((WIDE * time) / whole).toFixed(1);
  return begin.map((time, i) => `M${x(time)} ${top(i)}V${bottom}H${x(end[i])}V${top(i)}Z`).join("");
}

/** The rectangles of the cells of one kind. */
export function cellsPath({ begin, end, backward, chunk }: Cells, whole: number, kind: boolean): string {
  const those = begin.map((_, i) => i).filter((i) => backward[i] === kind);
  const of = (values: number[]) => those.map((i) => values[i]);
  return boxes(of(begin), of(end), whole, (n) => TOP[chunk[those[n]] % 2], HIGH);
}

function drawLane(board: Board, data: Stages, stage: number, numbers: HTMLElement[]): HTMLElement {
  const { cells } = data.lanes[stage];
  const { sends, hop, seconds: whole } = data;
  const ends = sends.map((time) => time + hop);
  const { schedule } = board.chosen;
  const at = schedule.stage === stage ? schedule.at : -1;
  const click = ({ clientX, currentTarget }: MouseEvent & { currentTarget: HTMLElement }) => {
    const { left, width } = currentTarget.getBoundingClientRect();
    look(board, stage, nearest(cells, (whole * (clientX - left)) / width));
  };
  const chosen = at in cells.begin && h("span", { class: "mlb-cell-chosen", style: place(cells, whole, at) });
  return h(
    "div",
    { class: "mlb-schedule-lane", "data-stage": stage, onclick: click },
    s(
      "svg",
      { viewBox: `0 0 ${WIDE} ${HIGH}`, preserveAspectRatio: "none", "aria-hidden": "true" },
      s("path", {
        class: `mlb-cells-sent ${markClass(board.view, data.axis)}`,
        d: boxes(sends, ends, whole, () => SENT, SENT_END),
      }),
      s("path", { class: "mlb-cells-forward", d: cellsPath(cells, whole, false) }),
      s("path", { class: "mlb-cells-backward", d: cellsPath(cells, whole, true) }),
    ),
    numbers,
    chosen,
  );
}

function place({ begin, end }: Cells, whole: number, i: number): string {
  return `left:${((100 * begin[i]) / whole).toFixed(3)}%;width:${((100 * (end[i] - begin[i])) / whole).toFixed(3)}%`;
}

/** The numbers of micro-batches on their cells, which are hidden where there is no room. */
function numbersOf(cells: Cells, data: Stages, stage: number): HTMLElement[] {
  return cells.begin.map((_, i) => {
    const kind = cells.backward[i] ? "mlb-cell mlb-cell-backward" : "mlb-cell";
    const title = titleOf(data, stage, i);
    const look = { class: kind, style: place(cells, data.seconds, i), title, "data-long": cells.micro[i] > 9 };
    return h("span", look, h("span", {}, cells.micro[i]));
  });
}

/** @returns the cell at a time, or the one that is nearest */
export function nearest({ begin, end }: Cells, time: number): number {
  const away = begin.map((first, i) => Math.max(first - time, time - end[i], 0));
  return away.indexOf(Math.min(...away));
}

/** @returns how many micro-batches, or chunks of them, a stage holds while a cell runs */
export function inFlight({ begin, end, backward }: Cells, at: number): number {
  const forward = begin.filter((time, i) => !backward[i] && time <= begin[at]).length;
  return forward - end.filter((time, i) => backward[i] && i !== at && time <= begin[at]).length;
}

function titleOf({ lanes, chunks }: Stages, stage: number, i: number): string {
  const { cells } = lanes[stage];
  const what = `${cells.backward[i] ? "backward" : "forward"} of micro-batch ${cells.micro[i]}`;
  const where = chunks > 1 ? `${what} in chunk ${cells.chunk[i]}` : what;
  const held = inFlight(cells, i);
  const those = `${exact(held)} ${chunks > 1 ? "chunk" : "micro-batch"}${held === 1 ? "" : chunks > 1 ? "s" : "es"}`;
  const when = `${seconds(cells.begin[i])} to ${seconds(cells.end[i])}`;
  return `stage ${stage}: ${where}, ${when}; in flight: ${those}`;
}

/** What is looked at; "" where nothing is. */
function saidAt(board: Board, data: Stages): string {
  const { stage, at } = board.chosen.schedule;
  return at in (data.lanes[stage]?.cells.begin ?? []) ? titleOf(data, stage, at) : "";
}

function look(board: Board, stage: number, at: number) {
  board.chosen.schedule = { ...board.chosen.schedule, stage, at };
  board.stage.answered("stages");
}

/** @returns the stage and the cell to which a key leads; null where it leads nowhere */
export function moved(lanes: Stages["lanes"], stage: number, at: number, key: string): [number, number] | null {
  const here = lanes[stage]?.cells;
  if (!here || !(at in here.begin)) return [0, 0];
  const up = { ArrowUp: -1, ArrowDown: 1 }[key];
  if (up !== undefined) {
    const there = lanes[stage + up]?.cells;
    return there ? [stage + up, nearest(there, (here.begin[at] + here.end[at]) / 2)] : null;
  }
  return [stage, Math.max(0, Math.min(here.begin.length - 1, at + SLIDER_KEYS[key]))];
}

/** The cells for the keyboard. */
function drawSlider(board: Board, data: Stages): HTMLElement {
  const { stage, at } = board.chosen.schedule;
  const turn = (event: KeyboardEvent) => {
    if (!(event.key in SLIDER_KEYS)) return;
    const { schedule } = board.chosen;
    const goal = moved(data.lanes, schedule.stage, schedule.at, event.key);
    if (goal) look(board, ...goal);
    event.preventDefault();
    event.stopPropagation();
  };
  const count = data.lanes[stage]?.cells.begin.length ?? 0;
  return h("div", {
    class: "mlb-schedule-slider",
    role: "slider",
    tabindex: "0",
    "aria-label": "cells of the schedule: left and right in time, up and down by stage",
    "aria-valuemin": 0,
    "aria-valuemax": count,
    "aria-valuenow": Math.min(count, at + 1),
    "aria-valuetext": saidAt(board, data) || "no cell is selected",
    onkeydown: turn,
  });
}

/** What is drawn how. */
function drawKey({ view }: Board, { axis, chunks, sends }: Stages): HTMLElement {
  const sign = (kind: string, text: string) =>
    h("span", {}, h("span", { class: `mlb-sign ${kind}`, "aria-hidden": "true" }), ` ${text}`);
  return h(
    "p",
    { class: "mlb-foot mlb-schedule-key" },
    sign("mlb-sign-forward", "forward"),
    sign("mlb-sign-backward", "backward"),
    sign("mlb-waiting", "waits"),
    sends.length > 0 && h("span", {}, "thin: sends over ", axisLabel(view, axis)),
    chunks > 1 && h("span", {}, "lower bars: every second chunk"),
  );
}
