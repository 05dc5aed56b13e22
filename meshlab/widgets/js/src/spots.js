// @ts-check
/**
 * Parts of a panel that follow an answer of Python's: when it comes, they alone are drawn again, and what stands around
 * them stays. A step's lanes are laid out for as long as it takes to draw the roofline below them.
 */
import { h, redraw } from "./dom.js";

/** @typedef {() => (Node | null | false)[]} Draw */

/** @type {WeakMap<Element, Draw>} */
const DRAWS = new WeakMap();

/**
 * A part of a panel.
 * @param {string} what the answer that it follows, as `views/reads.READS` has it
 * @param {Draw} draw what stands in it
 * @returns {HTMLElement}
 */
export function spot(what, draw) {
  const element = h("div", { class: "mlb-spot", "data-read": what }, draw());
  DRAWS.set(element, draw);
  return element;
}

/**
 * Draws again the parts of a panel that follow an answer.
 * @param {Element} panel
 * @param {string} what the answer
 * @returns {boolean} whether there are such parts
 */
export function drawSpots(panel, what) {
  const spots = [...panel.querySelectorAll(`[data-read="${what}"]`)];
  for (const each of spots) redraw(each, ...(DRAWS.get(each)?.() ?? []));
  return spots.length > 0;
}
