/**
 * What stands above the table of the layouts that were tried: a filter, what deletes all that it leaves, and the file of
 * the board. The heads of its columns sort it; a figure that is not known is last either way.
 */

import type { Board } from "./board.ts";
import { drawFile } from "./board_file.ts";
import { forget, isHeld } from "./card_marks.ts";
import type { Column } from "./cards.ts";
import type { CardsChosen } from "./chosen.ts";
import { type Child, h, prose } from "./dom.ts";
import { plural } from "./format.ts";
import { refusalOf } from "./model.ts";
import type { Card } from "./types.ts";

// Below so many layouts there is nothing to look for.
const FEW = 4;

/** Whether a layout has all the words of a filter, in whatever is said of it. */
export function matches(card: Card, filter: string): boolean {
  const { key, name, note = "", layout, mesh, totals } = card;
  const fits = totals?.fits === false ? "oom does not fit" : "";
  const all = `#${key} ${name} ${note} ${layout} ${mesh} ${fits}`.toLowerCase();
  return filter
    .toLowerCase()
    .split(/\s+/)
    .every((word) => all.includes(word));
}

/** The layouts in the order that is asked for. */
export function sorted(cards: Card[], columns: Column[], { by, down }: Pick<CardsChosen, "by" | "down">): Card[] {
  const sign = down ? -1 : 1;
  if (by === "name")
    return [...cards].sort((one, other) => sign * one.name.localeCompare(other.name, undefined, { numeric: true }));
  // A column that went with the machine sorts nothing.
  const column = columns.find(({ key }) => key === by);
  const figureOf = (card: Card) => (column ? card.totals && column.of(card.totals) : Number(card.key));
  const latest = [...cards].reverse();
  return latest.sort((one, other) => {
    const [a, b] = [figureOf(one), figureOf(other)];
    if (a === null || b === null) return Number(a === null) - Number(b === null);
    return sign * (a - b);
  });
}

/** The head of a column, which sorts by it; twice, the other way. */
export function drawSort(board: Board, key: string, label: string, title: string, more?: Child): HTMLElement {
  const { cards } = board.chosen;
  const sort = () => {
    // Of numbers the least is the best; of those of the layouts themselves the latest is looked for.
    const down = cards.by === key ? !cards.down : key === "";
    Object.assign(cards, { by: key, down });
    board.stage.again("compare");
  };
  const order = cards.by === key && (cards.down ? "descending" : "ascending");
  const button = h("button", { type: "button", class: "mlb-sort", title: `sort ${title}`, onclick: sort }, label);
  return h("th", { key, scope: "col", "data-column": key || "number", "aria-sort": order }, button, " ", more);
}

/** @param found the layouts that the filter leaves */
export function drawCardTools(board: Board, found: Card[]): HTMLElement {
  const { view, chosen } = board;
  const { cards } = view.comparison;
  const filter = h("input", {
    type: "search",
    class: "mlb-find",
    placeholder: "filter: label, note, dim:axis …",
    "aria-label": "filter the layouts that were tried",
    value: chosen.cards.filter,
    oninput: ({ currentTarget: { value } }) => {
      chosen.cards.filter = value.trim();
      board.stage.again("compare");
    },
  });
  const filtered = chosen.cards.filter !== "";
  const free = found.filter((card) => !isHeld(card));
  const count = filtered ? `${found.length} of ${plural(cards.length, "layout")}` : plural(cards.length, "layout");
  const clear = { type: "button", class: "mlb-button", "data-op": "forget", onclick: () => forget(board, free) };
  const refuse = (why: string) => {
    chosen.cards.refused = why;
    board.stage.again("compare");
  };
  return h(
    "div",
    { class: "mlb-card-tools" },
    (cards.length >= FEW || filtered) && filter,
    h("span", { class: "mlb-none", "aria-live": "polite" }, count),
    filtered && free.length > 0 && board.can("forget") && h("button", clear, `Delete these ${free.length}`),
    drawFile(board, (answer) => refuse(refusalOf(answer))),
    chosen.cards.refused && h("p", { class: "mlb-error mlb-refused-file", role: "alert" }, prose(chosen.cards.refused)),
  );
}
