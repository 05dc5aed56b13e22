/** Details that open on demand, and are open again where their panel is drawn again. */

import type { Board } from "./board.ts";
import { type Child, h, prose } from "./dom.ts";
import { pageLink } from "./pages.ts";
import type { Accuracy } from "./types.ts";

/** Details by a name: what is unfolded of a layout is unfolded of the one that stands beside it. */
export function fold(
  { root, opened }: Board,
  key: string,
  look: string,
  summary: HTMLElement,
  ...children: (Child | Child[])[]
): HTMLElement {
  const follow = ({ currentTarget: { open } }: { currentTarget: HTMLDetailsElement }) => {
    opened[open ? "add" : "delete"](key);
    for (const each of root.querySelectorAll("details")) if (each.dataset.disclosure === key) each.open = open;
  };
  const more = { key, class: look, "data-disclosure": key, open: opened.has(key), ontoggle: follow };
  return h("details", more, summary, ...children);
}

export function disclosure(board: Board, key: string, summary: string, children: Child[]): HTMLElement {
  return fold(board, key, "mlb-disclosure", h("summary", {}, summary), children);
}

/** The error of a figure, where it was measured. */
export function drawAccuracy(board: Board, key: string, accuracy: Accuracy): HTMLElement {
  const summary = accuracy.measured ? "How far off is this?" : "How far off is this? Not measured yet";
  const text = h("p", {}, prose(`${accuracy.text} `), "More on a page of the project: ", pageLink(accuracy.where));
  return disclosure(board, `accuracy:${key}`, summary, [text]);
}
