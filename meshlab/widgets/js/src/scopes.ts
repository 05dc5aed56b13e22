/**
 * Columns of scopes: how what runs in a `jax.named_scope` is computed. One with rules is always there; another is opened
 * by hand, from the list beside the presets, and stays open on this page.
 */

import type { Board } from "./board.ts";
import { h } from "./dom.ts";
import type { Column, View } from "./types.ts";

/** What is drawn: what Python sends, and the scopes that may be opened. */
export type Shown = View & { scopes: string[] };

/**
 * @param columns all that Python knows
 * @param opened what was opened by hand
 * @returns the columns that are shown, and the scopes that may be opened
 */
export function split(columns: Column[], opened: Set<string>): { columns: Column[]; scopes: string[] } {
  const shown = columns.filter(({ at, open }) => open !== false || opened.has(`scope:${at}`));
  return { columns: shown, scopes: columns.flatMap(({ at }) => (shown.some((each) => each.at === at) ? [] : [at])) };
}

/** The list of scopes without a column. */
export function drawScopes(board: Board): HTMLElement | null {
  const { scopes } = board.view;
  if (scopes.length === 0) return null;
  const choices = scopes.map((at) => h("option", { value: at }, at));
  const add = ({ currentTarget: { value } }: { currentTarget: HTMLSelectElement }) => {
    board.opened.add(`scope:${value}`);
    board.draw(["board"]);
    board.say(`${value} has a column: its rules say how operations in that scope are computed.`);
  };
  return h(
    "select",
    {
      class: "mlb-scopes",
      onchange: add,
      "aria-label": "add a column: rules for a scope",
      title: "Add a column for a scope (jax.named_scope): rules for its operations",
    },
    h("option", { value: "" }, "+ scope"),
    choices,
  );
}
