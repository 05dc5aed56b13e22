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
  const proof = search?.proof ? `The ${search.label}: ${search.proof}.` : "";
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
  const buttons = objectives.map(({ name, label, condition }) => [
    button(`auto:${name}`, `Find the ${label}`, () => board.send("auto", { objective: name }), { "data-auto": name }),
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
  const { label, phase, error } = search;
  if (phase === "searching") {
    const searching = `Searching for the ${label} …`;
    const cancel = { "data-op": "cancel_auto", title: "Escape" };
    return h(
      "div",
      { class: "mlb-searching" },
      h("progress", { "aria-label": searching }),
      h("span", {}, searching),
      button("cancel_auto", "◼ Cancel", () => cancelSearch(board), cancel),
      drawSoFar(board, search),
    );
  }
  if (phase === "cancelled") {
    const said = h("p", { class: "mlb-none" }, `The search for the ${label} was cancelled. ${error}`);
    return h("div", {}, said, drawSoFar(board, search));
  }
  return search.proof ? null : h("p", { class: "mlb-error" }, "✕ ", prose(error));
}

/**
 * The best layout that a search has met so far, which a click takes over.
 * @param {Board} board
 * @param {import("./types.js").Search} search
 * @returns {HTMLElement | null}
 */
function drawSoFar(board, search) {
  const { so_far: soFar, load, layout } = search;
  if (!soFar || !load) return null;
  const take = () => board.send(load.op, load.args);
  const label = button("auto:so-far", "Take it", take, { title: layout, "aria-label": `Take ${layout}` });
  return h("p", { class: "mlb-so-far" }, `So far: ${soFar} `, label);
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
