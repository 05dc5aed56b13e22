// @ts-check
/**
 * The losses of several runs: steps across, the loss up. Runs of one training lie on each other, so the first is drawn
 * widest and each later one narrower above it; every run has its own shape, at steps of its own, and its number at the end.
 */
import { s } from "./dom.js";
import { exact } from "./format.js";
import { scaleOf } from "./scatter.js";

/**
 * @typedef {import("./types.js").RunRow} RunRow
 * @typedef {{run: RunRow, mark: number, points: [number, number][], marked: [number, number][]}} Line
 */

export const [WIDTH, HEIGHT] = [340, 170];
const FRAME = { left: 46, right: 300, top: 14, bottom: 138 };
// So many runs are drawn; what comes before them is in the table.
export const MOST = 5;
// Marks of a line.
const MARKED = 5;

/** The shape of each mark around a point, and its dashes. */
const SHAPES = [
  (/** @type {number} */ x, /** @type {number} */ y) => `M${x - 4} ${y}a4 4 0 1 0 8 0a4 4 0 1 0 -8 0z`,
  (/** @type {number} */ x, /** @type {number} */ y) => `M${x - 4} ${y - 4}h8v8h-8z`,
  (/** @type {number} */ x, /** @type {number} */ y) => `M${x} ${y - 5}l5 9h-10z`,
  (/** @type {number} */ x, /** @type {number} */ y) => `M${x} ${y - 5}l5 5l-5 5l-5 -5z`,
  (/** @type {number} */ x, /** @type {number} */ y) => `M${x - 4} ${y - 4}l8 8m0 -8l-8 8`,
];
const DASHES = ["", "7 3", "2 3", "9 3 2 3", "4 4"];

/**
 * @param {number} mark
 * @param {number} x
 * @param {number} y
 * @returns {SVGElement} the mark of a run
 */
export function shape(mark, x, y) {
  return s("path", { class: `mlb-run-mark mlb-mark-${mark}`, d: SHAPES[mark](x, y) });
}

/**
 * @param {number} most
 * @returns {number[]} whole steps to write below the axis, from the first to the last
 */
export function stepTicks(most) {
  if (most <= 5) return Array.from({ length: most }, (_, i) => i + 1);
  const unit = 10 ** Math.floor(Math.log10(most / 4));
  const stride = unit * ([1, 2, 5, 10].find((each) => most / (unit * each) <= 5) ?? 10);
  const whole = Math.max(1, Math.round(stride));
  return [1, ...Array.from({ length: Math.floor(most / whole) }, (_, i) => (i + 1) * whole)].filter(
    (tick, i, all) => i === 0 || tick - all[0] > whole / 2 || tick === all[0] + whole,
  );
}

/**
 * The runs that are drawn: the one that all are compared with and the latest, with a mark that a run keeps.
 * @param {RunRow[]} runs the latest first
 * @returns {{run: RunRow, mark: number}[]} the oldest first
 */
export function drawnRuns(runs) {
  const seen = runs.filter((run) => run.losses.some(Number.isFinite));
  const reference = seen.filter((run) => run.reference);
  const others = seen.filter((run) => !run.reference).slice(0, MOST - reference.length);
  const sorted = [...reference, ...others].sort((one, other) => one.number - other.number);
  return sorted.map((run, mark) => ({ run, mark }));
}

/**
 * @param {RunRow[]} runs the latest first
 * @returns {{lines: Line[], across: number[], up: number[], x: (step: number) => number, y: (loss: number) => number}}
 */
export function curvesOf(runs) {
  const drawn = drawnRuns(runs);
  const most = Math.max(2, ...drawn.map(({ run }) => run.taken));
  const scale = scaleOf(drawn.flatMap(({ run }) => run.losses.filter(Number.isFinite)));
  const x = (/** @type {number} */ step) => FRAME.left + ((step - 1) / (most - 1)) * (FRAME.right - FRAME.left);
  const y = (/** @type {number} */ loss) => FRAME.bottom - scale.at(loss) * (FRAME.bottom - FRAME.top);
  const lines = drawn.map(({ run, mark }) => {
    const points = run.losses.flatMap((loss, i) =>
      Number.isFinite(loss) ? [/** @type {[number, number]} */ ([x(1 + i * run.stride), y(loss)])] : [],
    );
    const every = points.length / MARKED;
    const at = Array.from({ length: MARKED }, (_, i) => Math.floor(every * (i + mark / drawn.length)));
    const marked = [...new Set(at)].filter((i) => i < points.length).map((i) => points[i]);
    return { run, mark, points, marked };
  });
  return { lines, across: stepTicks(most), up: scale.ticks, x, y };
}

/**
 * @param {RunRow[]} runs the latest first
 * @returns {SVGElement | null} nothing where no run has two losses
 */
export function drawCurves(runs) {
  if (!runs.some((run) => run.losses.length > 1)) return null;
  const { lines, across, up, x, y } = curvesOf(runs);
  const label = lines.map(({ run }) => `run ${run.number}: from ${number(run.first_loss)} to ${number(run.loss)}`);
  const [left, bottom] = [FRAME.left, FRAME.bottom];
  return s(
    "svg",
    { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, role: "img", "aria-label": `loss by step. ${label.join("; ")}` },
    s("path", { class: "mlb-scatter-frame", d: `M${left} ${FRAME.top}V${bottom}H${FRAME.right}` }),
    across.flatMap((tick) => [
      s("path", { class: "mlb-scatter-frame", d: `M${x(tick).toFixed(1)} ${bottom}v4` }),
      s("text", { x: x(tick).toFixed(1), y: bottom + 15, "text-anchor": "middle", "data-tick": "step" }, exact(tick)),
    ]),
    up.flatMap((tick) => [
      s("path", { class: "mlb-scatter-frame", d: `M${left} ${y(tick).toFixed(1)}h-4` }),
      s("text", { x: left - 7, y: (y(tick) + 4).toFixed(1), "text-anchor": "end", "data-tick": "loss" }, number(tick)),
    ]),
    s("text", { x: FRAME.right, y: bottom + 29, "text-anchor": "end" }, "step →"),
    s("text", { x: left - 7, y: 9, "text-anchor": "end" }, "loss ↑"),
    lines.map((line, i) => drawLine(line, lines.length - i)),
    ends(lines),
  );
}

/**
 * @param {Line} line
 * @param {number} above how many are drawn on it, itself counted
 * @returns {SVGElement}
 */
function drawLine({ run, mark, points, marked }, above) {
  const d = points.map(([px, py], i) => `${i ? "L" : "M"}${px.toFixed(1)} ${py.toFixed(1)}`).join("");
  return s(
    "g",
    { class: `mlb-run-line mlb-mark-${mark}`, "data-curve": run.number },
    s("title", {}, `run ${run.number}: ${run.layout || "no layout"}`),
    s("path", { d, "stroke-width": (0.7 + 1.1 * above).toFixed(1), "stroke-dasharray": DASHES[mark] || null }),
    marked.map(([px, py]) => shape(mark, px, py)),
  );
}

/**
 * The numbers of the runs at the ends of their lines, each below the last where they would meet.
 * @param {Line[]} lines
 * @returns {SVGElement[]}
 */
function ends(lines) {
  const at = lines.flatMap((line) => {
    const last = line.points[line.points.length - 1];
    // A run that was shorter has its number above its end, where the lines of the others are not.
    return last ? [{ line, px: last[0], py: last[1] - (last[0] < FRAME.right - 1 ? 14 : 0) }] : [];
  });
  at.sort((one, other) => one.py - other.py);
  let free = 0;
  for (const each of at) {
    each.py = Math.max(each.py + 4, free);
    free = each.py + 12;
  }
  const over = Math.max(0, free - 12 - (FRAME.bottom + 2));
  return at.map(({ line, px, py }) =>
    s("text", { class: "mlb-run-name", x: px + 7, y: py - over }, `run ${line.run.number}`),
  );
}

/**
 * @param {number | null} value
 * @returns {string} three digits
 */
const number = (value) => (value === null ? "none" : `${Number(value.toPrecision(3))}`);
