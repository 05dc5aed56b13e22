// @ts-check
/**
 * The memory of a device over the steps of the program, on an axis of bytes, with the phases and the limit. It is a
 * slider: a click, or arrow keys, choose a moment, and the panel lists what is alive then.
 */
import { h, prose, s } from "./dom.js";
import { bytes, exact } from "./format.js";

/**
 * @typedef {import("./types.js").PeakMemory} PeakMemory
 * @typedef {import("./board.js").Board} Board
 * @typedef {PeakMemory["timeline"][number]} Point
 */

// A limit that is further above than this would leave the curve flat: it is named, and not drawn.
const NEAR = 1.6;
const KEYS = /** @type {Record<string, number>} */ ({
  ArrowRight: 1,
  ArrowUp: 1,
  ArrowLeft: -1,
  ArrowDown: -1,
  PageUp: 10,
  PageDown: -10,
  Home: -Infinity,
  End: Infinity,
});

/**
 * Round values from 0 to the most, at most five.
 * @param {number} most
 * @returns {number[]}
 */
export function ticksTo(most) {
  if (!(most > 0)) return [0];
  const unit = 10 ** Math.floor(Math.log10(most / 4));
  const step = unit * ([1, 2, 2.5, 5, 10].find((each) => most / (unit * each) <= 4) ?? 10);
  return Array.from({ length: Math.floor(most / step + 1e-9) + 1 }, (_, i) => i * step);
}

/**
 * Whether what is alive can be asked for: of the layout on the board, while Python is there.
 * @param {Board} board
 * @returns {boolean}
 */
export function canAsk(board) {
  return !board.readOnly && !("isOther" in board);
}

/**
 * The moment that is chosen; of none the peak.
 * @param {Pick<Board, "chosen">} board
 * @param {Pick<PeakMemory, "timeline">} peak
 * @returns {Point | undefined}
 */
export function momentOf(board, { timeline }) {
  const chosen = timeline.find((point) => point.at === board.chosen.instant);
  if (chosen || timeline.length === 0) return chosen;
  return timeline.reduce((best, point) => (point.bytes > best.bytes ? point : best));
}

/**
 * Chooses the drawn moment at a position.
 * @param {Board} board
 * @param {Point[]} timeline
 * @param {number} position
 */
function choose(board, timeline, position) {
  const point = timeline[Math.max(0, Math.min(timeline.length - 1, position))];
  if (board.chosen.instant === point.at) return;
  board.chosen.instant = point.at;
  board.stage.again("memory");
}

/**
 * @param {Board} board
 * @param {PeakMemory} peak
 * @returns {HTMLElement | null}
 */
export function drawMoments(board, peak) {
  const { timeline, limit, steps, phases, gaps } = peak;
  if (timeline.length < 2) return null;
  const most = Math.max(...timeline.map((point) => point.bytes));
  const near = limit < NEAR * most;
  const top = 1.06 * Math.max(most, near ? limit : 0);
  const position = timeline.indexOf(/** @type {Point} */ (momentOf(board, peak)));
  const ticks = ticksTo(top).map((tick) =>
    h("span", { class: "mlb-tick", style: `bottom:${((100 * tick) / top).toFixed(2)}%` }, bytes(tick)),
  );
  const names = phases.map(({ name, begin, end }) => {
    const style = `left:${(100 * begin) / steps}%;width:${(100 * (end - begin)) / steps}%`;
    const title = `${name}: steps ${exact(begin)} to ${exact(end - 1)}`;
    return h("span", { class: "mlb-phase", style, title }, h("span", {}, name));
  });
  const note = gaps ? ` Gaps in the heap, ${bytes(gaps)}, count at the peak above and are not drawn.` : "";
  const far = near ? "" : ` The limit, ${bytes(limit)}, is far above.`;
  const hint = canAsk(board) ? " Click, or use arrow keys: what is alive then." : "";
  const text = `Memory of a device while each of ${exact(steps)} steps runs.${far}${note}${hint}`;
  return h(
    "figure",
    { class: "mlb-moments" },
    h("div", { class: "mlb-moment-ticks", "aria-hidden": "true" }, ticks),
    drawPlot(board, peak, top, position),
    h("div", { class: "mlb-phases" }, names),
    h("figcaption", { class: "mlb-foot" }, prose(text)),
  );
}

/**
 * The curve, with the limit and the moment that is chosen.
 * @param {Board} board
 * @param {PeakMemory} peak
 * @param {number} top the bytes at the upper edge
 * @param {number} position
 * @returns {HTMLElement}
 */
function drawPlot(board, { timeline, limit, steps }, top, position) {
  const up = (/** @type {number} */ count) => (100 - (100 * count) / top).toFixed(2);
  const x = (/** @type {number} */ i) => ((100 * i) / timeline.length).toFixed(3);
  const outline = timeline.map((point, i) => `L${x(i)} ${up(point.bytes)}H${x(i + 1)}`).join("");
  const near = limit <= top;
  const point = timeline[position];
  const where = point.source ? ` at ${point.source}` : "";
  const text = `step ${exact(point.at)}, ${point.step}${where}: ${bytes(point.bytes)}`;
  const lines = ticksTo(top).map((tick) => `M0 ${up(tick)}H100`);
  const drawing = s(
    "svg",
    { viewBox: "0 0 100 100", preserveAspectRatio: "none", "aria-hidden": "true" },
    s("path", { class: "mlb-moment-lines", d: lines.join("") }),
    s("path", { class: "mlb-moment-area", d: `M0 100${outline}V100Z` }),
    near && s("path", { class: "mlb-timeline-ground", d: `M0 ${up(limit)}H100` }),
    near && s("path", { class: "mlb-timeline-limit", d: `M0 ${up(limit)}H100` }),
  );
  const marks = [
    near && h("span", { class: "mlb-moment-limit", style: `top:${up(limit)}%` }, `a device holds ${bytes(limit)}`),
    h("span", {
      class: "mlb-moment-at",
      style: `left:${x(position)}%;width:${(100 / timeline.length).toFixed(3)}%`,
    }),
  ];
  const shown = [drawing, ...marks];
  if (!canAsk(board)) {
    const label = `memory over the step; peak in ${text}`;
    return h("div", { class: "mlb-moment-plot", role: "img", "aria-label": label }, shown);
  }
  const plot = h(
    "div",
    {
      class: "mlb-moment-plot",
      role: "slider",
      tabindex: "0",
      "data-key": "moments",
      "aria-label": "moment of the step",
      "aria-valuemin": 0,
      "aria-valuemax": steps - 1,
      "aria-valuenow": point.at,
      "aria-valuetext": text,
      title: text,
    },
    shown,
  );
  plot.addEventListener("click", (event) => {
    const box = plot.getBoundingClientRect();
    choose(board, timeline, Math.floor(((event.clientX - box.left) / box.width) * timeline.length));
  });
  plot.addEventListener("keydown", (event) => {
    if (!(event.key in KEYS)) return;
    choose(board, timeline, position + KEYS[event.key]);
    event.preventDefault();
    event.stopPropagation();
  });
  return plot;
}
