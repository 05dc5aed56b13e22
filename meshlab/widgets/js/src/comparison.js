// @ts-check
/** The layouts that were tried beside each other, and the search for a better one. */
import { drawChoice } from "./beside.js";
import { drawCards } from "./cards.js";
import { h, prose } from "./dom.js";
import { drawScatter } from "./scatter.js";
import { searchText } from "./sentences.js";

/**
 * @typedef {import("./types.js").View} View
 * @typedef {import("./board.js").Board} Board
 */

/**
 * @param {Board} board
 * @returns {(HTMLElement | null)[]}
 */
export function drawComparison(board) {
  const { search } = board.view.comparison;
  const proof = search?.proof ? `Least ${search.objective}: ${search.proof}.` : "";
  return [
    h("div", { class: "mlb-compare-top" }, drawScatter(board), drawAuto(board)),
    h("label", { class: "mlb-field mlb-choice" }, "beside the board", drawChoice(board)),
    drawCards(board),
    proof ? h("p", { class: "mlb-foot" }, prose(proof)) : null,
  ];
}

/**
 * The searches, each with its condition, and how far the latest one is.
 * @param {Board} board
 * @returns {HTMLElement}
 */
function drawAuto(board) {
  const { objectives } = board.view.comparison;
  // Not disabled while it searches: what is asked for last counts, and the focus stays where Escape cancels.
  const buttons = objectives.map(({ name, condition }) => [
    button(`auto:${name}`, `Find least ${name}`, () => board.send("auto", { objective: name }), { "data-auto": name }),
    h("p", { class: "mlb-condition" }, prose(condition)),
  ]);
  return h("div", { class: "mlb-auto" }, buttons.flat(), drawSearch(board));
}

/**
 * @param {string} key
 * @param {string} label
 * @param {() => unknown} onclick
 * @param {Record<string, unknown>} [more]
 * @returns {HTMLElement}
 */
function button(key, label, onclick, more = {}) {
  return h("button", { type: "button", class: "mlb-button", "data-key": key, onclick, ...more }, label);
}

/**
 * @param {Board} board
 * @returns {HTMLElement | null}
 */
function drawSearch(board) {
  const { search } = board.view.comparison;
  if (!search) return null;
  const { objective, phase, error } = search;
  if (phase === "searching") {
    const searching = `Searching for the least ${objective} …`;
    const cancel = { "data-op": "cancel_auto", title: "Escape" };
    return h(
      "div",
      { class: "mlb-searching" },
      h("progress", { "aria-label": searching }),
      h("span", {}, searching),
      button("cancel_auto", "◼ Cancel", () => cancelSearch(board), cancel),
    );
  }
  if (phase === "cancelled")
    return h("p", { class: "mlb-none" }, `The search for the least ${objective} was cancelled. ${error}`);
  return search.proof ? null : h("p", { class: "mlb-error" }, "✕ ", prose(error));
}

/**
 * @param {View} view
 * @returns {boolean}
 */
export function isSearching(view) {
  return view.comparison.search?.phase === "searching";
}

/** @param {Board} board */
export function cancelSearch(board) {
  board.send("cancel_auto");
}

/**
 * Says how a search has ended.
 * @param {Board} board
 */
export function followSearch(board) {
  const searching = isSearching(board.view);
  if (board.searching && !searching) board.say(searchText(board.view.comparison.search), "done");
  board.searching = searching;
}
