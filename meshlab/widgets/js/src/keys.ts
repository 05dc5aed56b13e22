/**
 * The keys of the board: as a table behind "?" of the header, for those who look for them, and as the help that screen
 * readers have of a chip.
 */
import type { Board } from "./board.ts";
import { h } from "./dom.ts";

/** By what an intent is called, which a board without Python may not take; "" for what every board takes. */
const KEYS: [op: string, keys: string, does: string][] = [
  ["place", "Space or Enter", "pick a dim up; arrows choose a zone that takes it; drop it"],
  ["place", "A, Delete", "add the axis to those it has; take it off its axis"],
  ["resize_dim", "F2", "size and name of a dim, held or not"],
  ["pin", "P, N; S on a mesh axis", "pin a dim, keep it off an axis; keep an axis silent"],
  ["undo", "Ctrl+Z, Ctrl+Shift+Z", "undo, redo"],
  ["", "Shift+P", "the presenter"],
  ["", "Enter, Escape", "select a device or a collective; release it, cancel"],
  ["", "H; then ← →, Space", "step through the collective, hop by hop; play"],
  ["", "W A S D, F, /", "the step: zoom and pan, fit, find"],
];

const keysOf = (board: Board) => KEYS.filter(([op]) => !op || board.can(op));

export const keysText = (board: Board): string =>
  keysOf(board)
    .map(([, keys, does]) => `${keys}: ${does}.`)
    .join(" ");

export function drawKeys(board: Board): HTMLElement {
  const rows = keysOf(board).flatMap(([, keys, does]) => [h("dt", {}, h("kbd", {}, keys)), h("dd", {}, does)]);
  return h("dl", { class: "mlb-keys", "aria-label": "keys" }, rows);
}
