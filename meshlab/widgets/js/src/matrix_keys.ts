/**
 * The matrix of devices by keyboard: arrow keys go from cell to cell, which says what its title says, and Enter selects
 * the device that sends. Only cells with bytes are gone to.
 */

import type { Board } from "./board.ts";
import type { Properties } from "./dom.ts";
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
 * What lets a matrix be gone through by keys.
 * @param cells in the order in which they are drawn
 */
export function cellKeys(board: Board, cells: MatrixCell[]): Properties<SVGElement> {
  const go = (matrix: Element, to: number | null) => {
    board.chosen.cell = to ?? board.chosen.cell;
    for (const [i, cell] of matrix.querySelectorAll(".mlb-cell").entries()) {
      cell.toggleAttribute("data-cursor", i === to);
      if (i === to) board.say(`${cell.querySelector("title")?.textContent}.`);
    }
  };
  const onkeydown = (event: KeyboardEvent & { currentTarget: Element }) => {
    const { key, currentTarget } = event;
    const to = cellAt(cells, board.chosen.cell, key);
    if (to !== null) go(currentTarget, to);
    else if (key === "Enter") chooseDevice(board, cells[board.chosen.cell][0]);
    else return;
    event.preventDefault();
    event.stopPropagation();
  };
  // Of another layout there may be fewer.
  board.chosen.cell = Math.min(board.chosen.cell, cells.length - 1);
  return {
    onfocus: ({ currentTarget }) => go(currentTarget, board.chosen.cell),
    onblur: ({ currentTarget }) => go(currentTarget, null),
    onkeydown,
  };
}
