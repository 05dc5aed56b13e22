// @ts-check
/**
 * The mark of a mesh axis: one colour and one pattern, the same in zones, chips, grid and charts. The pattern and the
 * axis's name say what the colour says, for those who do not see it. Sets of several axes get marks of their own.
 */
import { h } from "./dom.js";

const MARKS = 6;

/** @typedef {import("./types.js").View} View */

/**
 * The class that colours an element in the mark of an axis or a set of axes.
 * @param {View} view
 * @param {string} key
 * @returns {string}
 */
export function markClass(view, key) {
  const index = view.groups.findIndex((group) => group.key === key);
  return `mlb-mark-${Math.max(index, 0) % MARKS}`;
}

/**
 * A small square in the mark of an axis.
 * @param {View} view
 * @param {string} key
 * @returns {HTMLElement}
 */
export function swatch(view, key) {
  return h("span", { class: `mlb-swatch ${markClass(view, key)}`, "aria-hidden": "true" });
}

/**
 * The name of an axis or a set of axes after its swatch.
 * @param {View} view
 * @param {string} key
 * @returns {HTMLElement}
 */
export function axisLabel(view, key) {
  return h("span", { class: "mlb-axis-label" }, swatch(view, key), key.replaceAll("+", " + "));
}
