// @ts-check
/**
 * What each decision of Auto's layout costs otherwise, all else chosen anew (`views/reasons.regrets_view`): a bracket from
 * what it costs at least to the best that was met, the greatest first. On demand each is searched for.
 */
import { h, prose } from "./dom.js";
import { percent, seconds } from "./format.js";
import { button, cancelSearch, takeButton } from "./search.js";

/**
 * @typedef {import("./board.js").Board} Board
 * @typedef {import("./types.js").Taken} Taken
 * @typedef {Taken & {change: string, share: number | null, least: number | null, seconds: number | null, exact: boolean}} Regret
 * @typedef {{rows: Regret[], binds: string[], phase: string, searched: number, error: string}} Regrets
 */

/**
 * @param {Board} board
 * @returns {(Node | null | false)[]}
 */
export function drawRegrets(board) {
  const { data, error, fresh } = board.reads.of("regrets");
  if (error) return [h("p", { class: "mlb-error" }, `✕ ${error}`)];
  if (!data) return [!board.readOnly && h("p", { class: "mlb-none mlb-reading" }, "Regrets are being worked out …")];
  const { rows, binds } = /** @type {Regrets} */ (data);
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

/**
 * The right end of the brackets, as a share of the step.
 * @param {Pick<Regret, "share" | "least">[]} rows
 * @returns {number}
 */
export function endOf(rows) {
  return Math.max(0.01, ...rows.map(({ share, least }) => share ?? (least ?? 0) * 1.25));
}

/**
 * @param {Board} board
 * @param {Regret[]} rows
 * @returns {HTMLElement}
 */
function drawRows(board, rows) {
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
      rows.map((row, i) => drawRow(board, row, i, end)),
    ),
  );
}

/**
 * @param {Pick<Regret, "share" | "least">} regret
 * @returns {string} by how much the step gets longer: from what at least, to what was met
 */
export function rangeText({ share, least }) {
  const from = `+${percent(least ?? 0)}`;
  if (share === null) return `at least ${from}: no layout evaluated fits`;
  return share - (least ?? 0) < 0.0005 ? `+${percent(share)}` : `${from} to +${percent(share)}`;
}

/**
 * @param {Board} board
 * @param {Regret} regret
 * @param {number} i
 * @param {number} end
 * @returns {HTMLElement}
 */
function drawRow(board, regret, i, end) {
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
    { "data-regret": name, title: layout },
    h("th", { scope: "row" }, prose(change), exact && h("small", {}, "searched for")),
    h("td", { title: regret.seconds === null ? null : seconds(regret.seconds) }, bar, said),
    h(
      "td",
      {},
      load && takeButton(board, `regret:${i}`, "Try it", regret, `put the best layout with ${name} on the board`),
    ),
  );
}

/**
 * The search for each of them.
 * @param {Board} board
 * @param {Regrets} data
 * @returns {HTMLElement}
 */
function drawExact(board, { rows, phase, searched, error }) {
  const of = `${searched} of ${rows.length} searched for`;
  if (phase === "searching")
    return h(
      "div",
      { class: "mlb-progress mlb-exact" },
      h("progress", { max: rows.length, value: searched, "aria-label": "Searching for each decision …" }),
      h("span", {}, of),
      button("cancel_auto", "◼ Cancel", () => cancelSearch(board), { "data-op": "cancel_auto", title: "Escape" }),
    );
  const done = searched === rows.length;
  const ended = phase === "cancelled" ? `Cancelled: ${of}.` : phase === "failed" ? `✕ ${error}` : "";
  const what = done ? "Each was searched for, with all else optimised again." : "From the layouts evaluated so far. ";
  return h(
    "p",
    { class: "mlb-foot mlb-exact" },
    ended || what,
    " ",
    !done && button("exact", "Search for each", () => board.send("exact_regrets"), { "data-op": "exact_regrets" }),
  );
}
