// @ts-check
/** The first line of the board: the layout as it is written in Python, undo and redo; below it the totals. */
import { h } from "./dom.js";
import { bytes, exact, percent, signedBytes, signedPoints, signedSeconds } from "./format.js";

/**
 * @typedef {import("./types.js").View} View
 * @typedef {import("./board.js").Board} Board
 */

/**
 * @param {Board} board
 * @returns {HTMLElement[]}
 */
export function drawHeader(board) {
  const { view } = board;
  const { undo, redo } = view.history;
  /** @type {(op: string, label: string, keys: string, off: boolean) => HTMLElement} */
  const button = (op, label, keys, off) =>
    h(
      "button",
      {
        type: "button",
        class: "mlb-button",
        "data-key": op,
        "data-op": op,
        disabled: off,
        title: keys,
        onclick: () => board.send(op),
      },
      label,
    );
  const adding = h("input", { type: "checkbox", checked: board.adding, "data-key": "adding" });
  adding.addEventListener("change", () => board.setAdding(adding.checked));
  const mesh = view.mesh.axes.map((axis) => `${axis.name} × ${axis.size}`).join(", ");
  return [
    h(
      "div",
      { class: "mlb-title" },
      h("code", { class: "mlb-layout-text" }, view.layout.text || "no layout"),
      h("span", { class: "mlb-mesh-text" }, `${exact(view.mesh.size)} devices: ${mesh}`),
    ),
    h(
      "div",
      { class: "mlb-tools" },
      h("label", { class: "mlb-switch", title: "or hold Shift while dropping" }, adding, "add axis, keep others"),
      button("undo", "↶ Undo", "Ctrl+Z", undo === 0),
      button("redo", "↷ Redo", "Ctrl+Shift+Z", redo === 0),
      button("reset", "Reset", "back to the layout that the Explorer was opened with", false),
    ),
  ];
}

/**
 * @param {string} label
 * @param {string} value
 * @param {string} title
 * @param {string} change
 * @param {number} sign
 * @returns {HTMLElement}
 */
function total(label, value, title, change, sign) {
  const direction = sign > 0 ? "mlb-more" : sign < 0 ? "mlb-less" : "mlb-same";
  return h(
    "div",
    { class: "mlb-total", title },
    h("div", { class: "mlb-total-label" }, label),
    h("div", { class: "mlb-total-value" }, value),
    h(
      "div",
      { class: "mlb-total-more" },
      change && h("span", { class: `mlb-change ${direction}` }, `${sign > 0 ? "▲" : sign < 0 ? "▼" : ""} ${change}`),
    ),
  );
}

/**
 * @param {View} view
 * @returns {HTMLElement[]}
 */
export function drawTotals(view) {
  const { change, work, communication, collectives, time, peak_memory: peakMemory } = view;
  const counted = change?.collectives ?? 0;
  return [
    ...drawStep(time, change?.seconds ?? 0),
    total(
      "each device computes, of the matmuls",
      percent(work),
      "the share of a step's matmul FLOPs that one device computes: 100% where nothing is sharded",
      change?.work ? signedPoints(change.work) : "",
      change?.work ?? 0,
    ),
    total(
      "each device sends, per step",
      bytes(communication.total),
      `${exact(communication.total)} bytes`,
      change?.bytes ? signedBytes(change.bytes) : "",
      change?.bytes ?? 0,
    ),
    total(
      "collectives, per step",
      exact(collectives.count),
      "",
      counted ? `${counted > 0 ? "+" : "−"}${Math.abs(counted)}` : "",
      counted,
    ),
    ...(peakMemory ? [drawPeak(peakMemory, change?.peak ?? 0)] : [drawArguments(view)]),
  ];
}

/**
 * @param {import("./types.js").Time | null} time
 * @param {number} change
 * @returns {HTMLElement[]}
 */
function drawStep(time, change) {
  if (!time || time.missing) return [];
  const { texts, estimate } = time;
  const title = `between ${texts.lower} and ${texts.upper}. ${time.limit.text}`;
  // What is below a thousandth is nothing that a reader would act on.
  const moved = Math.abs(change) > 1e-3 * estimate;
  const step = total("predicted step", texts.estimate, title, moved ? signedSeconds(change) : "", moved ? change : 0);
  step.classList.add("mlb-predicted");
  return [step];
}

/**
 * Bytes of the arguments, where there is no machine and so no predicted peak.
 * @param {View} view
 * @returns {HTMLElement}
 */
function drawArguments({ memory, change }) {
  const inputs = memory.arguments;
  return total(
    "each device holds, of the arguments",
    bytes(inputs),
    `${exact(inputs)} bytes`,
    change?.arguments ? signedBytes(change.arguments) : "",
    change?.arguments ?? 0,
  );
}

/**
 * @param {import("./types.js").PeakMemory} memory
 * @param {number} change
 * @returns {HTMLElement}
 */
function drawPeak(memory, change) {
  const label = memory.fits ? "predicted peak, fits" : "✕ predicted peak, does not fit";
  const peak = total(
    label,
    bytes(memory.bytes),
    `${exact(memory.bytes)} bytes. ${memory.text}`,
    change ? signedBytes(change) : "",
    change,
  );
  peak.classList.add("mlb-predicted");
  peak.classList.toggle("mlb-over", !memory.fits);
  peak.lastElementChild?.prepend(h("span", { class: "mlb-total-limit" }, `of ${bytes(memory.limit)}`));
  return peak;
}
