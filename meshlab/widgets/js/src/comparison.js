// @ts-check
/**
 * The layouts that were tried beside each other, and the search for a better one. Once the fastest is found, two more
 * views say why: the way there from the layout on the board, and what each decision otherwise costs.
 */
import { drawChoice } from "./beside.js";
import { drawCards } from "./cards.js";
import { h } from "./dom.js";
import { drawRegrets } from "./regrets.js";
import { drawScatter } from "./scatter.js";
import { button, drawSearches } from "./search.js";
import { spot } from "./spots.js";
import { drawWay } from "./way.js";

/** @typedef {import("./board.js").Board} Board */
/** @typedef {"layouts" | "way" | "regrets"} Reason */

/** @type {[Reason, string][]} */
const REASONS = [
  ["layouts", "Layouts"],
  ["way", "From yours to Auto's"],
  ["regrets", "Regrets"],
];

/**
 * @param {Board} board
 * @returns {(Node | null)[]}
 */
export function drawComparison(board) {
  const told = board.view.search?.reasons === true;
  const shown = told ? board.chosen.reason : "layouts";
  return [...drawSearches(board), told ? drawReasons(board, shown) : null, ...DRAWS[shown](board)];
}

/** @type {Record<Reason, (board: Board) => Node[]>} */
const DRAWS = {
  layouts: (board) => [
    spot("met", () => [drawScatter(board)]),
    h("label", { class: "mlb-field mlb-choice" }, "beside the board", drawChoice(board)),
    drawCards(board),
  ],
  way: (board) => [spot("way", () => drawWay(board))],
  regrets: (board) => [spot("regrets", () => drawRegrets(board))],
};

/**
 * @param {Board} board
 * @param {Reason} shown
 * @returns {HTMLElement}
 */
function drawReasons(board, shown) {
  const choices = REASONS.map(([name, title]) => {
    const choose = () => {
      board.chosen.reason = name;
      board.stage.again("compare");
    };
    return button(`reason:${name}`, title, choose, {
      class: "mlb-button mlb-reason",
      "data-reason": name,
      "aria-pressed": String(name === shown),
    });
  });
  return h("div", { class: "mlb-reasons", role: "group", "aria-label": "what is compared" }, choices);
}
