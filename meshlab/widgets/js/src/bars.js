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
 * A part of a bar.
 * @param {string} mark its class
 * @param {string} width as CSS has it
 * @param {string} title
 * @returns {HTMLElement}
 */
export function portion(mark, width, title) {
  return h("span", { class: `mlb-part ${mark}`, style: `width:${width}`, title: title || null });
}

/**
 * A labelled bar with its number of bytes.
 * @param {Node | string} label
 * @param {HTMLElement} bar
 * @param {number} count
 * @param {Record<string, string>} [attributes]
 * @returns {HTMLElement}
 */
export function barRow(label, bar, count, attributes = {}) {
  return labelled(label, bar, bytes(count), `${exact(count)} bytes`, attributes);
}

/**
 * A labelled bar with what it says.
 * @param {Node | string} label
 * @param {HTMLElement} bar
 * @param {string} value
 * @param {string} title
 * @param {Record<string, string>} attributes
 * @returns {HTMLElement}
 */
export function labelled(label, bar, value, title, attributes) {
  return h(
    "li",
    { class: "mlb-bar-row", ...attributes },
    h("span", { class: "mlb-bar-label" }, label),
    bar,
    h("span", { class: "mlb-bar-value", title }, value),
  );
}
