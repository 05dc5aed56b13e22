/** Details that open on demand, and stay open when their panel is redrawn. */

import type { Board } from "./board.ts";
import { h, prose } from "./dom.ts";
import type { Accuracy } from "./types.ts";

export function disclosure(
  board: Board,
  key: string,
  summary: string,
  children: (Node | string | null)[],
): HTMLElement {
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

/** The error of a figure, where it was measured. */
export function drawAccuracy(board: Board, key: string, accuracy: Accuracy): HTMLElement {
  const summary = accuracy.measured ? "How far off is this?" : "How far off is this? Not measured yet";
  const where = ["More on a page of the project: ", h("code", {}, accuracy.where)];
  const text = h("p", {}, prose(`${accuracy.text} `), where);
  return disclosure(board, `accuracy:${key}`, summary, [text]);
}
