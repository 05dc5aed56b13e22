/**
 * The layouts that were tried as rows of a table, to sort and to filter: what each takes, with its difference against the
 * baseline, and the best of each column. A row's button loads it; its circle makes it the baseline. What people say of a
 * layout, and what deletes it, is `card_marks.ts`.
 */
import { baselineOf, compareWith } from "./baseline.ts";
import { documentOf, showBeside } from "./beside.ts";
import type { Board } from "./board.ts";
import { drawDelete, drawDraft, drawEdit, drawNote, onCard } from "./card_marks.ts";
import { drawCardTools, drawSort, matches, sorted } from "./card_tools.ts";
import { h } from "./dom.ts";
import { bytes, exact, percent, relative, seconds } from "./format.ts";
import { EMPTY } from "./model.ts";
import type { Card, Totals, View } from "./types.ts";

export type Column = {
  key: string;
  title: string;
  of: (totals: Totals) => number | null;
  text: (value: number) => string;
  long: (value: number) => string;
};

const inBytes = (key: string, title: string, of: Column["of"]): Column => ({
  key,
  title,
  of,
  text: bytes,
  long: (value) => `${exact(value)} bytes`,
});

const STEP: Column = { key: "step", title: "step", of: (totals) => totals.seconds, text: seconds, long: seconds };
const PEAK = inBytes("peak", "peak", (totals) => totals.peak);
const SENDS = inBytes("sends", "sends", (totals) => totals.bytes);
const HOLDS = inBytes("arguments", "arguments", (totals) => totals.arguments);
const WORK: Column = {
  key: "work",
  title: "computes",
  of: (totals) => totals.work,
  text: percent,
  long: (value) => `${percent(value)} of a step's matmul FLOPs`,
};

/** @returns what layouts are compared by */
export function columnsOf(view: View): Column[] {
  return view.machine.on === "" ? [WORK, SENDS, HOLDS] : [STEP, PEAK, SENDS, WORK];
}

/**
 * The best of each column, of layouts that fit; where none does, of all.
 * @returns null where fewer than two are known, one is being worked out, or all are alike
 */
export function bestOf(column: Column, cards: Card[]): number | null {
  const known = cards.flatMap((card) => (card.totals && column.of(card.totals) !== null ? [card.totals] : []));
  const fitting = known.filter((totals) => totals.fits !== false);
  const able = fitting.length ? fitting : known;
  // Without a machine, bytes count among layouts that share the work alike: nothing is sent where all do all of it.
  const least = Math.min(...able.map((totals) => totals.work));
  const alike = able.filter((totals) => totals.seconds !== null || column === WORK || totals.work < least * 1.001);
  const values = alike.map((totals) => Number(column.of(totals)));
  if (cards.some((card) => isPending(column, card))) return null;
  if (known.length < 2 || new Set(known.map((totals) => column.of(totals))).size < 2) return null;
  return Math.min(...values);
}

export function drawCards(board: Board): HTMLElement {
  const { view, chosen } = board;
  const { cards } = view.comparison;
  const columns = columnsOf(view);
  const best = new Map(columns.map((column) => [column, bestOf(column, cards)]));
  const found = sorted(cards, columns, chosen.cards).filter((card) => matches(card, chosen.cards.filter));
  const rows = found.map((card) =>
    h(
      "tr",
      {
        key: card.key,
        "data-card": card.key,
        class: card.now ? "mlb-card-now" : "",
        onkeydown: (event) => onCard(board, card, event),
      },
      h("td", {}, drawBaseline(board, card), h("small", { class: "mlb-card-number" }, `#${card.key}`)),
      h("th", { scope: "row" }, drawLayout(board, card)),
      columns.map((column) => drawCell(board, card, column, best.get(column) ?? null)),
    ),
  );
  const star = h("small", { title: "the best of those that fit" }, "★ best");
  const head = [
    drawSort(board, "", "#", "by number, as they were tried"),
    drawSort(board, "name", "layout", "by name", star),
    columns.map(({ key, title }) => drawSort(board, key, title, `by ${title}`)),
  ];
  return h(
    "div",
    { class: "mlb-cards-box" },
    drawCardTools(board, found),
    h(
      "table",
      { class: "mlb-table mlb-cards", "aria-label": "layouts that were tried" },
      h("thead", {}, h("tr", {}, head.flat())),
      h("tbody", {}, rows),
    ),
  );
}

/** The layout: its name, which loads it, its note, and what can be done with it; or the fields in which it is named. */
function drawLayout(board: Board, card: Card): HTMLElement {
  if (board.chosen.cards.draft?.key === card.key) return drawDraft(board, card);
  return h(
    "div",
    { class: "mlb-card-name" },
    drawName(board, card),
    drawNote(card),
    h(
      "div",
      { class: "mlb-card-does" },
      drawOther(board, card),
      board.can("label") && drawEdit(board, card),
      board.can("forget") && drawDelete(board, card),
    ),
  );
}

function drawBaseline(board: Board, card: Card): HTMLElement {
  return h("input", {
    type: "radio",
    name: `${board.stage.body("compare").id}-baseline`,
    checked: card.baseline,
    "aria-label": `compare with ${card.name}`,
    title: "compare all with this one",
    onchange: () => compareWith(board, card),
  });
}

function drawName(board: Board, card: Card): HTMLElement {
  const layout = [card.mesh, card.layout || EMPTY].filter(Boolean).join(": ");
  return h(
    "button",
    {
      type: "button",
      class: "mlb-card",
      title: card.now ? `${layout}: it is on the board` : `${layout}: put it on the board`,
      "aria-current": card.now ? "true" : null,
      "data-load": card.key,
      onclick: () => card.now || board.send(card.load.op, card.load.args),
    },
    h("b", {}, card.name),
    card.now && h("span", { class: "mlb-card-tag" }, " on the board"),
    h("code", {}, layout),
  );
}

/** What shows a layout beside the one on the board, or it alone again. */
function drawOther(board: Board, card: Card): HTMLElement | false {
  const { view } = board;
  const open = view.beside?.card === card.key;
  if (card.now && !open) return false;
  return h(
    "button",
    {
      type: "button",
      class: "mlb-button mlb-beside-button",
      title: open ? "show the layout on the board alone" : "show it beside the layout on the board",
      "aria-label": `Compare: show ${card.name} beside the layout on the board`,
      "aria-pressed": String(open),
      "data-beside": card.key,
      onclick: () => showBeside(board, open ? {} : { document: documentOf(view, card) }, card.name),
    },
    "◫ Compare",
  );
}

/** Whether a figure is being worked out. Step and peak come together: a step that is not there beside its peak never comes. */
function isPending(column: Column, { totals, machine }: Card): boolean {
  return totals === null || (column.of(totals) === null && machine && totals.peak === null);
}

function drawCell({ view }: Board, card: Card, column: Column, best: number | null): HTMLElement {
  const { totals, baseline } = card;
  const value = totals ? column.of(totals) : null;
  if (value === null) {
    const never = !isPending(column, card);
    const title = never ? "unknown: no machine, or a figure of it is missing" : "is being worked out";
    return h("td", { title, "data-total": column.key }, never ? "–" : "…");
  }
  const before = baselineOf(view)?.totals;
  const base = before ? column.of(before) : null;
  const changed =
    baseline || base === null ? "" : base > 0 ? relative(value, base) : value > 0 ? `+${column.text(value)}` : "±0";
  const sign = base === null || changed === "±0" ? "mlb-same" : value > base ? "mlb-more" : "mlb-less";
  const won = value === best && totals?.fits !== false;
  const over = column === PEAK && totals?.fits === false;
  return h(
    "td",
    { title: column.long(value), "data-total": column.key },
    h("span", { class: over ? "mlb-card-over" : "" }, column.text(value)),
    won && h("span", { class: "mlb-best", role: "img", "aria-label": "best" }, " ★"),
    h(
      "small",
      {},
      baseline ? "baseline" : changed && h("span", { class: `mlb-change ${sign}` }, changed),
      over && h("span", { class: "mlb-card-over", title: "out of memory: does not fit a device" }, " ✕ OOM"),
    ),
  );
}
