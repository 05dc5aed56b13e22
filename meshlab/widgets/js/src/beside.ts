/**
 * Two layouts side by side in one tab: the one on the board and another one that was chosen in Compare. Above them the
 * numbers of both with their difference, below them the panel twice, drawn by the same functions.
 */

import type { Board } from "./board.ts";
import { differenceOf, type Row } from "./differences.ts";
import { h } from "./dom.ts";
import { EMPTY } from "./model.ts";
import type { Panel } from "./stage.ts";
import type { Card, View } from "./types.ts";

/** A board that shows the other layout, for functions that draw. */
function otherBoard(board: Board): Board {
  const { view } = board;
  const shown = { ...view, ...view.beside, ...view.beside_devices };
  return Object.create(board, { view: { value: shown }, isOther: { value: true } });
}

/** A panel of the stage for both layouts. */
export function drawBeside(board: Board, panel: Panel): (Node | null | false)[] {
  const other = otherBoard(board);
  const rows = panel.rows?.(board.view, other.view) ?? [];
  const columns = [section("mine", panel.draw?.(board) ?? []), section("other", panel.draw?.(other) ?? [])];
  return [
    drawHeads(board),
    ...(panel.tools?.(board) ?? []),
    rows.length > 0 && drawRows(board, rows),
    h("div", { class: "mlb-pair" }, columns),
    ...(panel.foot?.(board) ?? []),
  ];
}

function section(which: "mine" | "other", children: (Node | null | false)[]): HTMLElement {
  const label = which === "mine" ? "the layout on the board" : "the layout beside it";
  return h("section", { "data-beside": which, "aria-label": label }, children);
}

/** The names of both, the other one to choose, and what closes it. */
function drawHeads(board: Board): HTMLElement {
  const { layout, beside, comparison } = board.view;
  const mine = comparison.cards.find((card) => card.now);
  const close = h(
    "button",
    {
      type: "button",
      class: "mlb-button",
      title: "show the layout on the board alone",
      onclick: () => showBeside(board, {}, ""),
    },
    "✕ Close",
  );
  return h(
    "div",
    { class: "mlb-heads" },
    h("div", {}, h("b", {}, "on the board"), mine && ` ${mine.name}`, layoutText(layout.text)),
    h("div", {}, h("div", { class: "mlb-other" }, drawChoice(board), close), layoutText(beside?.layout.text ?? "")),
  );
}

function layoutText(text: string): HTMLElement {
  return h("code", { title: text || EMPTY }, text || EMPTY);
}

function drawRows({ view }: Board, rows: Row[]): HTMLElement {
  const head = ["", "mine", view.beside?.name ?? "", "difference"];
  return h(
    "table",
    { class: "mlb-table mlb-differences" },
    h(
      "thead",
      {},
      h(
        "tr",
        {},
        head.map((each) => (each ? h("th", { scope: "col", title: each }, each) : h("td", {}))),
      ),
    ),
    h("tbody", {}, rows.map(drawRow)),
  );
}

function drawRow(row: Row): HTMLElement {
  const { key, label, mine, other, text, signed } = row;
  const by = differenceOf(row);
  const sign = !by ? "same" : by > 0 ? "more" : "less";
  const arrow = { same: "", more: "▲ ", less: "▼ " }[sign];
  return h(
    "tr",
    { "data-row": key },
    h("th", { scope: "row" }, label),
    [mine, other].map((value) => h("td", {}, value === null ? "…" : text(value))),
    h("td", { class: `mlb-change mlb-${sign}` }, by === null ? "…" : `${arrow}${signed(by)}`),
  );
}

/** The layouts that can be shown beside the one on the board: those that were tried, and presets. */
export function drawChoice(board: Board): HTMLElement {
  const { comparison, presets, beside } = board.view;
  const cards = comparison.cards.filter((card) => !card.now || card.key === beside?.card);
  const tried = cards.map((card) =>
    h("option", { value: `card:${card.key}`, selected: card.key === beside?.card }, card.name),
  );
  const ready = presets
    .filter((preset) => !preset.why && !preset.choices.length)
    .map((preset) => {
      const selected = beside !== null && !beside.card && beside.name === preset.label;
      return h("option", { value: `preset:${preset.name}`, selected }, preset.label);
    });
  const chosen = beside !== null && [...tried, ...ready].some((option) => option.hasAttribute("selected"));
  const none = h("option", { value: "", selected: !chosen }, chosen ? "none" : (beside?.name ?? "choose a layout …"));
  const choose = ({ currentTarget: { value, selectedOptions } }: { currentTarget: HTMLSelectElement }) => {
    const [kind, key] = value.split(":");
    const card = comparison.cards.find((each) => kind === "card" && each.key === key);
    const name = selectedOptions[0].text;
    if (card) showBeside(board, { document: documentOf(board.view, card) }, name);
    else showBeside(board, kind ? { preset: key } : {}, name);
  };
  return h(
    "select",
    { class: "mlb-select", "aria-label": "layout beside the one on the board", onchange: choose },
    [
      none,
      tried.length > 0 && h("optgroup", { label: "tried" }, tried),
      ready.length > 0 && h("optgroup", { label: "presets" }, ready),
    ].filter((each) => each !== false),
  );
}

/** The document that has a card's layout, as JSON. */
export function documentOf(view: View, card: Card): string {
  if (card.load.op === "restore") return String(card.load.args.document);
  return JSON.stringify({ ...JSON.parse(view.document), layout: card.load.args.layout });
}

/** Shows a layout beside the one on the board, or none where nothing is asked for. */
export async function showBeside(board: Board, asked: { document?: string; preset?: string }, name: string) {
  const answer = await board.send("beside", asked);
  if (answer?.kind !== "ack") return;
  const open = Boolean(asked.document || asked.preset);
  const where = "Devices, Traffic, Memory and Time show both";
  board.say(
    open ? `${name} is beside the layout on the board: ${where}.` : "The layout on the board is shown alone.",
    "done",
  );
  board.stage.showPair();
}
