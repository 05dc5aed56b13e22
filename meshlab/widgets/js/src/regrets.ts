/**
 * What each decision of Auto's layout costs otherwise, all else chosen anew (`views/reasons.regrets_view`): a bracket from
 * what it costs at least to the best that was met, the greatest first. On demand each is searched for.
 */

import type { Board } from "./board.ts";
import { h, prose } from "./dom.ts";
import { percent, seconds } from "./format.ts";
import { button, cancelSearch, takeButton } from "./search.ts";
import type { Regret, Regrets } from "./types.ts";

export function drawRegrets(board: Board): (Node | null | false)[] {
  const { data, error, fresh } = board.reads.of("regrets");
  if (error) return [h("p", { class: "mlb-error" }, `✕ ${error}`)];
  if (!data) return [!board.readOnly && h("p", { class: "mlb-none mlb-reading" }, "Regrets are being worked out …")];
  const { rows, binds } = data;
  return [
    h(
      "ul",
      { class: "mlb-binds", "aria-label": "what binds Auto's layout" },
      binds.map((line) => h("li", {}, prose(line))),
    ),
    rows.length > 0
      ? h("div", { class: "mlb-way-box", "data-fresh": String(fresh) }, drawRows(board, rows))
      : h("p", { class: "mlb-none" }, "There is no other choice to compare with."),
    rows.length > 0 && drawExact(board, data),
  ];
}

/** The right end of the brackets, as a share of the step. */
export function endOf(rows: Pick<Regret, "share" | "least">[]): number {
  return Math.max(0.01, ...rows.map(({ share, least }) => share ?? (least ?? 0) * 1.25));
}

function drawRows(board: Board, rows: Regret[]): HTMLElement {
  const end = endOf(rows);
  const heads = ["change", "step longer by", ""];
  const head = h("tr", {}, ...heads.map((each) => (each ? h("th", { scope: "col" }, each) : h("td", {}))));
  return h(
    "table",
    { class: "mlb-table mlb-regrets", "aria-label": "regret of each decision" },
    h("thead", {}, head),
    h(
      "tbody",
      {},
      rows.map((row) => drawRow(board, row, end)),
    ),
  );
}

/** @returns by how much the step gets longer: from what at least, to what was met */
export function rangeText({ share, least }: Pick<Regret, "share" | "least">): string {
  const from = `+${percent(least ?? 0)}`;
  if (share === null) return `at least ${from}: no layout evaluated fits`;
  return share - (least ?? 0) < 0.0005 ? `+${percent(share)}` : `${from} to +${percent(share)}`;
}

function drawRow(board: Board, regret: Regret, end: number): HTMLElement {
  const { change, share, load, layout, exact } = regret;
  const least = regret.least ?? 0;
  const [from, to] = [(100 * Math.min(least, end)) / end, (100 * (share ?? end)) / end];
  const bar = h(
    "div",
    { class: `mlb-regret-bar ${exact ? "mlb-regret-exact" : ""}`, "aria-hidden": "true" },
    h("span", { style: `left:${from.toFixed(2)}%;width:${Math.max(0, to - from).toFixed(2)}%` }),
  );
  const said = rangeText(regret);
  const name = change.replaceAll("`", "");
  return h(
    "tr",
    { key: name, "data-regret": name, title: layout },
    h("th", { scope: "row" }, prose(change), exact && h("small", {}, "searched for")),
    h("td", { title: regret.seconds === null ? null : seconds(regret.seconds) }, bar, said),
    h("td", {}, load && takeButton(board, "Try it", { layout, load }, `put the best layout with ${name} on the board`)),
  );
}

/** The search for each of them. */
function drawExact(board: Board, { rows, phase, searched, error }: Regrets): HTMLElement {
  const of = `${searched} of ${rows.length} searched for`;
  if (phase === "searching")
    return h(
      "div",
      { class: "mlb-progress mlb-exact" },
      h("progress", { max: rows.length, value: searched, "aria-label": "Searching for each decision …" }),
      h("span", {}, of),
      button("◼ Cancel", () => cancelSearch(board), { "data-op": "cancel_auto", title: "Escape" }),
    );
  const done = searched === rows.length;
  const ended = phase === "cancelled" ? `Cancelled: ${of}.` : phase === "failed" ? `✕ ${error}` : "";
  const what = done ? "Each was searched for, with all else optimised again." : "From the layouts evaluated so far. ";
  return h(
    "p",
    { class: "mlb-foot mlb-exact" },
    ended || what,
    " ",
    !done &&
      board.can("exact_regrets") &&
      button("Search for each", () => board.send("exact_regrets"), { "data-op": "exact_regrets" }),
  );
}
