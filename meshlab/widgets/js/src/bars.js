// @ts-check
/** Horizontal bars of stacked parts, each part in the mark of its mesh axis. */
import { h } from "./dom.js";
import { bytes, exact } from "./format.js";
import { markClass } from "./marks.js";

/**
 * @typedef {import("./types.js").View} View
 * @typedef {import("./types.js").Part} Part
 */

/**
 * @param {View} view
 * @param {Part[]} parts
 * @param {number} most the bytes of a bar of full width
 * @returns {HTMLElement}
 */
export function stack(view, parts, most) {
  return h(
    "div",
    { class: "mlb-bar", "aria-hidden": "true" },
    parts.map((part) =>
      h("span", {
        class: `mlb-part ${markClass(view, part.key)}`,
        style: `width:${most ? (100 * part.bytes) / most : 0}%`,
        title: `${part.key}: ${exact(part.bytes)} bytes`,
      }),
    ),
  );
}

/**
 * A bar of one part that belongs to no mesh axis.
 * @param {string} mark its class
 * @param {number} count
 * @param {number} most the bytes of a bar of full width
 * @returns {HTMLElement}
 */
export function solid(mark, count, most) {
  const part = h("span", { class: `mlb-part ${mark}`, style: `width:${(100 * count) / most}%` });
  return h("div", { class: "mlb-bar", "aria-hidden": "true" }, part);
}

/**
 * A labelled bar with its number.
 * @param {Node | string} label
 * @param {HTMLElement} bar
 * @param {number} count
 * @param {Record<string, string>} [attributes]
 * @returns {HTMLElement}
 */
export function barRow(label, bar, count, attributes = {}) {
  return h(
    "li",
    { class: "mlb-bar-row", ...attributes },
    h("span", { class: "mlb-bar-label" }, label),
    bar,
    h("span", { class: "mlb-bar-value", title: `${exact(count)} bytes` }, bytes(count)),
  );
}
