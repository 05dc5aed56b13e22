// @ts-check
/** Details that open on demand, and stay open when their panel is redrawn. */
import { h, prose } from "./dom.js";

/**
 * @typedef {import("./types.js").Accuracy} Accuracy
 * @typedef {import("./board.js").Board} Board
 */

/**
 * @param {Board} board
 * @param {string} key
 * @param {string} summary
 * @param {(Node | string | null)[]} children
 * @returns {HTMLElement}
 */
export function disclosure(board, key, summary, children) {
  const head = h("summary", { "data-key": `more:${key}` }, summary);
  const details = h(
    "details",
    { class: "mlb-disclosure", "data-disclosure": key, open: board.opened.has(key) },
    head,
    children,
  );
  details.addEventListener("toggle", () => board.opened[details.open ? "add" : "delete"](key));
  return details;
}

/**
 * The error of a figure, where it was measured.
 * @param {Board} board
 * @param {string} key
 * @param {Accuracy} accuracy
 * @returns {HTMLElement}
 */
export function drawAccuracy(board, key, accuracy) {
  const summary = accuracy.measured ? "How far off is this?" : "How far off is this? Not measured yet";
  const where = ["More on a page of the project: ", h("code", {}, accuracy.where)];
  const text = h("p", {}, prose(`${accuracy.text} `), where);
  return disclosure(board, `accuracy:${key}`, summary, [text]);
}
