// @ts-check
/** Memory of one device: its peak against its capacity, and the exact bytes of arguments and outputs. */
import { barRow, solid } from "./bars.js";
import { disclosure, drawAccuracy } from "./disclosure.js";
import { h, prose, s } from "./dom.js";
import { bytes, exact } from "./format.js";
import { mark, sourceOf } from "./machine.js";

/**
 * @typedef {import("./types.js").View} View
 * @typedef {import("./types.js").PeakMemory} PeakMemory
 * @typedef {import("./types.js").Alive} Alive
 * @typedef {import("./board.js").Board} Board
 */

/**
 * @param {Board} board
 * @returns {(HTMLElement | null)[]}
 */
export function drawMemory(board) {
  const { peak_memory: peak, pending } = board.view;
  const stored = drawStored(board.view);
  if (!peak) return [pending ? h("p", { class: "mlb-none" }, "The peak is being worked out …") : null, ...stored];
  return [
    drawVerdict(peak),
    drawParts(peak),
    peak.note ? h("p", { class: "mlb-foot" }, prose(peak.note)) : null,
    drawTimeline(peak),
    disclosure(board, "alive", "Values in memory at the peak", [drawAlive(peak)]),
    disclosure(board, "stored", "Arguments and outputs, exactly", stored),
    drawAccuracy(board, "memory", peak.accuracy),
  ];
}

/**
 * Arguments and outputs.
 * @param {View} view
 * @returns {HTMLElement[]}
 */
function drawStored(view) {
  const { parts, arguments: inputs, outputs } = view.memory;
  const most = Math.max(1, ...parts.map((part) => part.bytes));
  /** @type {(output: boolean) => HTMLElement} */
  const list = (output) =>
    h(
      "ul",
      { class: "mlb-bars" },
      parts
        .filter((part) => part.output === output)
        .map((part) => {
          const bar = solid(output ? "mlb-output" : "mlb-argument", part.bytes, most);
          return barRow(h("code", {}, part.name), bar, part.bytes, { "data-part": part.name });
        }),
    );
  return [
    h("h4", {}, `arguments: ${bytes(inputs)}`),
    list(false),
    h("h4", {}, `outputs: ${bytes(outputs)}`),
    list(true),
    h("p", { class: "mlb-foot" }, "Exact bytes on one device."),
  ];
}

/**
 * Whether the peak fits, in words and as a bar up to the capacity.
 * @param {PeakMemory} peak
 * @returns {HTMLElement}
 */
function drawVerdict(peak) {
  const longest = Math.max(peak.bytes, peak.limit);
  const limit = `capacity of a device: ${exact(peak.limit)} bytes: ${sourceOf(peak)}`;
  return h(
    "div",
    { class: "mlb-verdict", "data-fits": String(peak.fits) },
    h(
      "p",
      { title: limit },
      peak.fits ? "✓ " : "✕ ",
      prose(`${peak.text} `),
      mark([{ ...peak, text: "capacity of a device" }], "memory"),
    ),
    h(
      "div",
      { class: "mlb-meter", "aria-hidden": "true", title: limit },
      h("span", { class: "mlb-meter-used", style: `width:${(100 * peak.bytes) / longest}%` }),
      h("span", { class: "mlb-meter-limit", style: `left:${(100 * peak.limit) / longest}%` }),
    ),
  );
}

/**
 * The bytes at the peak, by role.
 * @param {PeakMemory} peak
 * @returns {HTMLElement}
 */
function drawParts(peak) {
  const most = Math.max(1, ...peak.parts.map((part) => part.bytes));
  const rows = peak.parts.map((part) =>
    barRow(part.name, solid("mlb-argument", part.bytes, most), part.bytes, { "data-role": part.name }),
  );
  return h("ul", { class: "mlb-bars", "data-chart": "peak" }, rows);
}

/**
 * Memory at each step of the program, below the line of the capacity if that is near.
 * @param {PeakMemory} peak
 * @returns {HTMLElement | null}
 */
function drawTimeline(peak) {
  const { timeline, limit } = peak;
  if (timeline.length < 2) return null;
  const [width, height] = [300, 70];
  const most = Math.max(...timeline.map((point) => point.bytes));
  const top = limit < 1.5 * most ? Math.max(most, limit) : most;
  /** @type {(count: number) => string} */
  const up = (count) => (height - 1 - (count / (top || 1)) * (height - 4)).toFixed(1);
  const step = width / timeline.length;
  const outline = timeline
    .map((point, i) => `L${(i * step).toFixed(1)} ${up(point.bytes)}h${step.toFixed(2)}`)
    .join("");
  const fullest = timeline.reduce((best, point) => (point.bytes > best.bytes ? point : best));
  const when = `${fullest.step}${fullest.source ? ` at ${fullest.source}` : ""}`;
  const label = `memory at each step of the program: peak of ${bytes(most)} in ${when}`;
  return h(
    "figure",
    { class: "mlb-timeline" },
    s(
      "svg",
      { viewBox: `0 0 ${width} ${height}`, preserveAspectRatio: "none", role: "img", "aria-label": label },
      s("path", { class: "mlb-timeline-area", d: `M0 ${height}${outline}V${height}Z` }),
      limit <= top && s("path", { class: "mlb-timeline-ground", d: `M0 ${up(limit)}H${width}` }),
      limit <= top && s("path", { class: "mlb-timeline-limit", d: `M0 ${up(limit)}H${width}` }),
    ),
    h("figcaption", { class: "mlb-none" }, "at each step of the program; peak in ", h("code", {}, when)),
  );
}

/**
 * The largest values in memory at the peak.
 * @param {PeakMemory} peak
 * @returns {HTMLElement}
 */
function drawAlive(peak) {
  /** @type {(each: Alive) => HTMLElement} */
  const row = (each) => {
    const axes = each.dims.map((dim, i) => `${dim} ${exact(each.shape[i])}`).join(" · ");
    return h(
      "li",
      {},
      h("b", {}, bytes(each.bytes)),
      ` ${each.name} `,
      h("span", { class: "mlb-alive-axes" }, `${each.dtype}${axes ? ` [${axes}]` : ""}, ${each.role} `),
      each.source && h("code", {}, each.source),
    );
  };
  const more = peak.left_out ? h("li", {}, `and ${exact(peak.left_out)} smaller ones`) : null;
  const scrolls = {
    "data-scroll": "alive",
    tabindex: "0",
    role: "list",
    "aria-label": "values in memory, largest first",
  };
  return h("ul", { class: "mlb-figures mlb-alive", ...scrolls }, peak.alive.map(row), more);
}
