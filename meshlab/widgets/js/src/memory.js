// @ts-check
/** What one device holds of the arguments and outputs, exactly. */
import { barRow, solid } from "./bars.js";
import { h } from "./dom.js";
import { bytes } from "./format.js";

/** @typedef {import("./types.js").View} View */

/**
 * @param {View} view
 * @returns {HTMLElement[]}
 */
export function drawMemory(view) {
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
    h("h4", {}, `arguments: ${bytes(held)}`),
    list(false),
    h("h4", {}, `outputs: ${bytes(outputs)}`),
    list(true),
    h("p", { class: "mlb-foot" }, "Exact bytes on one device."),
  ];
}
