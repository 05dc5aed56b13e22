/**
 * The layouts that were tried as rows of a table, the latest first: what each takes, with its difference against the
 * baseline, and the best of each column. A row's button loads it; its circle makes it the baseline.
 */
import { documentOf, showBeside } from "./beside.ts";
import type { Board } from "./board.ts";
import { h } from "./dom.ts";
import { bytes, exact, faster, percent, relative, seconds, signedBytes, signedPoints } from "./format.ts";
import type { Card, Totals, View } from "./types.ts";

type Change = { text: string; sign: number };
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

function baselineOf(view: View): Card | undefined {
  return view.comparison.cards.find((card) => card.baseline);
}

/**
 * How the present layout compares with the baseline, for each figure of the score line in words, with the sign of the
 * change; null where it is the baseline, or that is not known yet.
 */
export function againstBaseline(
  view: View,
): { name: string; arguments: Change; step: Change; peak: Change; sends: Change; work: Change } | null {
  const [base, now] = [baselineOf(view), view.comparison.cards.find((card) => card.now)];
  if (!base || !now || base === now || !base.totals || !now.totals) return null;
  const [before, after] = [base.totals, now.totals];
  const onMachine = view.machine.on !== "";
  if (onMachine && (!before.seconds || !after.seconds)) return null;
  const words = onMachine ? faster(Number(after.seconds), Number(before.seconds)) : "";
  const step = words === "as fast" ? `as fast as ${base.name}` : `${words} than ${base.name}`;
  const same = words === "as fast" || words === "";
  const by = (key: "bytes" | "peak" | "work") => Number(after[key]) - Number(before[key]);
  const percentage = !onMachine && before.bytes > 0;
  const sends = percentage
    ? `${relative(after.bytes, before.bytes)} bytes against ${base.name}`
    : signedBytes(by("bytes"));
  const holds = after.arguments - before.arguments;
  return {
    name: base.name,
    arguments: { text: holds ? signedBytes(holds) : "", sign: holds },
    step: { text: words && step, sign: same ? 0 : Number(after.seconds) - Number(before.seconds) },
    peak: { text: by("peak") ? signedBytes(by("peak")) : "", sign: by("peak") },
    sends: { text: by("bytes") || percentage ? sends : "", sign: by("bytes") },
    work: { text: by("work") ? signedPoints(by("work")) : "", sign: by("work") },
  };
}

/**
 * The best of each column, of layouts that fit; where none does, of all.
 * @returns null where fewer than two are known, or all are alike
 */
export function bestOf(column: Column, cards: Card[]): number | null {
  const known = cards.flatMap((card) => (card.totals && column.of(card.totals) !== null ? [card.totals] : []));
  const fitting = known.filter((totals) => totals.fits !== false);
  const able = fitting.length ? fitting : known;
  // Without a machine, bytes count among layouts that share the work alike: nothing is sent where all do all of it.
  const least = Math.min(...able.map((totals) => totals.work));
  const alike = able.filter((totals) => totals.seconds !== null || column === WORK || totals.work < least * 1.001);
  const values = alike.map((totals) => Number(column.of(totals)));
  if (known.length < 2 || new Set(known.map((totals) => column.of(totals))).size < 2) return null;
  return Math.min(...values);
}

export function drawCards(board: Board): HTMLElement {
  const { view } = board;
  const { cards } = view.comparison;
  const columns = columnsOf(view);
  const best = new Map(columns.map((column) => [column, bestOf(column, cards)]));
  const head = columns.map((column) => h("th", { scope: "col", "data-column": column.key }, column.title));
  const rows = [...cards].reverse().map((card) =>
    h(
      "tr",
      { key: card.key, "data-card": card.key, class: card.now ? "mlb-card-now" : "" },
      h("td", {}, drawBaseline(board, card)),
      h("th", { scope: "row" }, h("div", { class: "mlb-card-name" }, drawName(board, card), drawOther(board, card))),
      columns.map((column) => drawCell(board, card, column, best.get(column) ?? null)),
    ),
  );
  return h(
    "table",
    { class: "mlb-table mlb-cards" },
    h(
      "thead",
      {},
      h(
        "tr",
        {},
        h("th", { scope: "col" }, "vs"),
        h("th", { scope: "col" }, "layout ", h("small", { title: "the best of those that fit" }, "★ best")),
        head,
      ),
    ),
    h("tbody", {}, rows),
  );
}

function drawBaseline(board: Board, card: Card): HTMLElement {
  const choose = async () => {
    const answer = await board.send("baseline", { document: documentOf(board.view, card) });
    if (answer?.kind === "ack") board.say(`All layouts are compared with ${card.name}.`, "done");
  };
  return h("input", {
    type: "radio",
    name: `${board.stage.body("compare").id}-baseline`,
    checked: card.baseline,
    "aria-label": `compare with ${card.name}`,
    title: "compare all with this one",
    onchange: choose,
  });
}

function drawName(board: Board, card: Card): HTMLElement {
  const layout = [card.mesh, card.layout || "no layout"].filter(Boolean).join(": ");
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
      "aria-label": `show ${card.name} beside the layout on the board`,
      "aria-pressed": String(open),
      "data-beside": card.key,
      onclick: () => showBeside(board, open ? {} : { document: documentOf(view, card) }, card.name),
    },
    "◫ beside",
  );
}

function drawCell(
  { view }: Board,
  { totals, baseline, machine }: Card,
  column: Column,
  best: number | null,
): HTMLElement {
  const value = totals ? column.of(totals) : null;
  if (value === null) {
    // Step and peak come together: a step that is not there beside its peak never comes.
    const never = totals !== null && (!machine || totals.peak !== null);
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
