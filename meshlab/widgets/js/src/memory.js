// @ts-check
/** What one device holds, against what it can hold; and of the arguments and outputs, exactly. */
import { barRow, solid } from "./bars.js";
import { drawAccuracy } from "./disclosure.js";
import { h } from "./dom.js";
import { bytes, exact } from "./format.js";
import { mark } from "./machine.js";

/**
 * @typedef {import("./types.js").View} View
 * @typedef {import("./types.js").Held} Held
 * @typedef {import("./board.js").Board} Board
 */

/**
 * @param {Board} board
 * @returns {(HTMLElement | null)[]}
 */
export function drawMemory(board) {
  const { view } = board;
  const { parts, arguments: held, outputs } = view.memory;
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
    view.held && drawVerdict(view.held),
    h("h4", {}, `arguments: ${bytes(held)}`),
    list(false),
    h("h4", {}, `outputs: ${bytes(outputs)}`),
    list(true),
    h("p", { class: "mlb-foot" }, "Exact bytes on one device."),
    view.held && drawAccuracy(board, "memory", view.held.accuracy),
  ];
}

/**
 * Whether it fits, in words and as a bar up to the limit.
 * @param {Held} held
 * @returns {HTMLElement}
 */
function drawVerdict(held) {
  const whole = Math.max(held.bytes, held.limit);
  const limit = `a device has ${exact(held.limit)} bytes: ${held.source}`;
  return h(
    "div",
    { class: "mlb-verdict", "data-fits": String(held.fits) },
    h("p", { title: limit }, held.fits === false && "✕ ", `${held.text} `, mark(held)),
    h(
      "div",
      { class: "mlb-meter", "aria-hidden": "true", title: limit },
      h("span", { class: "mlb-meter-held", style: `width:${(100 * held.bytes) / whole}%` }),
      h("span", { class: "mlb-meter-limit", style: `left:${(100 * held.limit) / whole}%` }),
    ),
  );
}
