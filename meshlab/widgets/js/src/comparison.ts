/**
 * The layouts that were tried beside each other, and the search for a better one. Once the fastest is found, two more
 * views say why: the way there from the layout on the board, and what each decision otherwise costs.
 */

import { drawChoice } from "./beside.ts";
import type { Board } from "./board.ts";
import { drawCards } from "./cards.ts";
import { h } from "./dom.ts";
import { drawRegrets } from "./regrets.ts";
import { drawScatter } from "./scatter.ts";
import { button, drawSearches, isSearching } from "./search.ts";
import { spot } from "./spots.ts";
import type { Drawing } from "./stage.ts";
import { drawWay } from "./way.ts";

type Reason = "layouts" | "way" | "regrets";

const REASONS: [Reason, string][] = [
  ["layouts", "Layouts"],
  ["way", "Step by step"],
  ["regrets", "What if not"],
];

export function drawComparison(board: Board): (Node | null)[] {
  const told = board.view.search?.reasons === true;
  const shown = told ? board.chosen.reason : "layouts";
  return [...drawSearches(board), told ? drawReasons(board, shown) : null, ...DRAWS[shown](board)];
}

const DRAWS: Record<Reason, (board: Board) => Node[]> = {
  layouts: (board) => [
    spot("met", () => [drawScatter(board)]),
    h("label", { class: "mlb-field mlb-choice" }, "compare side by side with", drawChoice(board)),
    drawCards(board),
  ],
  way: (board) => [spot("way", () => drawWay(board))],
  regrets: (board) => [spot("regrets", () => drawRegrets(board))],
};

function drawReasons(board: Board, shown: Reason): HTMLElement {
  const choices = REASONS.map(([name, title]) => {
    const choose = () => {
      board.chosen.reason = name;
      board.stage.again("compare");
    };
    return button(title, choose, {
      key: name,
      class: "mlb-button mlb-reason",
      "data-reason": name,
      "aria-pressed": String(name === shown),
    });
  });
  return h("div", { class: "mlb-reasons", role: "group", "aria-label": "what is compared" }, choices);
}

export const panel: Drawing = { draw: drawComparison, busy: (board) => isSearching(board.view) };
