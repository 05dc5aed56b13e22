/**
 * The matrix of devices by keyboard: arrow keys go from cell to cell, which says what its title says, and Enter selects
 * the device that sends. Only cells with bytes are gone to.
 */

import type { Board } from "./board.ts";

import { chooseDevice } from "./selection.ts";
import type { MatrixCell } from "./types.ts";

/**
 * The cell that a key goes to.
 * @param cells row by row
 * @param at the cell that is left
 * @returns null for a key that goes nowhere
 */
export function cellAt(cells: MatrixCell[], at: number, key: string): number | null {
  const last = cells.length - 1;
  if (key === "Home" || key === "End") return key === "Home" ? 0 : last;
  if (key === "ArrowLeft" || key === "ArrowRight")
    return Math.max(0, Math.min(last, at + (key === "ArrowRight" ? 1 : -1)));
  if (key !== "ArrowUp" && key !== "ArrowDown") return null;
  const [row, column] = cells[at];
  const rows = [...new Set(cells.map(([from]) => from))];
  const next = rows[rows.indexOf(row) + (key === "ArrowDown" ? 1 : -1)];
  const away = (i: number) => Math.abs(cells[i][1] - column);
  const there = [...cells.keys()].filter((i) => cells[i][0] === next).sort((one, other) => away(one) - away(other));
  return there[0] ?? at;
}

/**
 * Lets a drawn matrix be gone through by keys.
 * @param cells in the order in which they are drawn
 */
export function listenToCells(board: Board, drawing: SVGElement, cells: MatrixCell[]) {
  const drawn = [...drawing.querySelectorAll(".mlb-cell")];
  let at = 0;
  const go = (to: number) => {
    drawn[at].removeAttribute("data-cursor");
    at = to;
    drawn[at].setAttribute("data-cursor", "");
    board.say(`${drawn[at].querySelector("title")?.textContent}.`);
  };
  drawing.addEventListener("focus", () => go(at));
  drawing.addEventListener("blur", () => drawn[at].removeAttribute("data-cursor"));
  drawing.addEventListener("keydown", (event) => {
    const { key } = event as KeyboardEvent;
    const to = cellAt(cells, at, key);
    if (to !== null) go(to);
    else if (key === "Enter") chooseDevice(board, cells[at][0]);
    else return;
    event.preventDefault();
    event.stopPropagation();
  });
}
