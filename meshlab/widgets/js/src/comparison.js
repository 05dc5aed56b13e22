// @ts-check
/** The layout that the solver found, beside the one on the board: a table, and a chart on one scale. */
import { barRow, labelled, solid, stack } from "./bars.js";
import { h, prose } from "./dom.js";
import { bytes, exact, percent } from "./format.js";

/**
 * @typedef {import("./types.js").View} View
 * @typedef {import("./types.js").ComparisonRow} Row
 * @typedef {import("./board.js").Board} Board
 */

/**
 * @param {Board} board
 * @returns {(HTMLElement | null)[]}
 */
export function drawComparison(board) {
  const { comparison } = board.view;
  // Not disabled while it searches: what is asked for last counts, and the focus stays where Escape cancels.
  /** @type {(objective: string, label: string) => HTMLElement} */
  const button = (objective, label) =>
    h(
      "button",
      {
        type: "button",
        class: "mlb-button",
        "data-key": `auto:${objective}`,
        "data-auto": objective,
        onclick: () => board.send("auto", { objective }),
      },
      label,
    );
  const tools = h(
    "div",
    { class: "mlb-tools" },
    button("traffic", "Find least traffic"),
    button("memory", "Find least memory"),
    isSearching(board.view) &&
      h(
        "button",
        {
          type: "button",
          class: "mlb-button",
          "data-key": "cancel_auto",
          "data-op": "cancel_auto",
          title: "Escape",
          onclick: () => cancelSearch(board),
        },
        "◼ Cancel",
      ),
    comparison?.rows &&
      h(
        "button",
        {
          type: "button",
          class: "mlb-button mlb-primary",
          "data-key": "take",
          disabled: comparison.same,
          onclick: () => board.send("load", { layout: comparison.layout }),
        },
        comparison.same ? "Same as yours" : "Use Auto's layout",
      ),
  );
  return [tools, ...drawFound(board.view)];
}

/**
 * @param {View} view
 * @returns {boolean}
 */
export function isSearching(view) {
  return view.comparison?.phase === "searching";
}

/**
 * @param {Board} board
 */
export async function cancelSearch(board) {
  const answer = await board.send("cancel_auto");
  if (answer?.kind === "ack") board.say("The search was cancelled.");
}

const NOTHING_YET =
  "Auto finds the layout of dims on mesh axes that provably sends, or holds, the fewest bytes, and sets it beside yours.";

/**
 * @param {View} view
 * @returns {(HTMLElement | null)[]}
 */
function drawFound(view) {
  const { comparison } = view;
  if (!comparison) return [h("p", { class: "mlb-none" }, NOTHING_YET)];
  const { objective, phase } = comparison;
  if (phase === "searching") {
    const searching = `Searching for the least ${objective} …`;
    return [h("div", { class: "mlb-progress" }, h("progress", { "aria-label": searching }), h("span", {}, searching))];
  }
  if (phase === "cancelled")
    return [h("p", { class: "mlb-none" }, `The search for the least ${objective} was cancelled. ${comparison.error}`)];
  if (!comparison.rows) return [h("p", { class: "mlb-error" }, "✕ ", prose(comparison.error))];
  return [
    drawTable(comparison.rows),
    ...drawChart(view, comparison.rows, comparison.objective),
    h("p", { class: "mlb-foot" }, prose(`Least ${comparison.objective}: ${comparison.proof}.`)),
  ];
}

const FOLLOWS = "is being worked out";

/**
 * Draws what the objective minimises: the bytes sent, by mesh axis, or the peak of live bytes.
 * @param {View} view
 * @param {Row[]} rows
 * @param {string} objective
 * @returns {HTMLElement[]}
 */
function drawChart(view, rows, objective) {
  const live = objective === "memory";
  /** @type {(row: Row) => number} */
  const count = (row) => (live ? (row.live_bytes ?? 0) : row.bytes);
  const most = Math.max(1, ...rows.map(count));
  /** @type {(row: Row) => HTMLElement} */
  const bar = (row) => (live ? solid("mlb-argument", count(row), most) : stack(view, row.by_axis, most));
  /** @type {(row: Row) => HTMLElement} */
  const line = (row) =>
    live && row.live_bytes === null
      ? labelled(row.name, bar(row), "…", FOLLOWS, { "data-row": row.key })
      : barRow(row.name, bar(row), count(row), { "data-row": row.key });
  return [
    h("h4", {}, live ? "live bytes of each device, at the peak" : "each device sends, per step"),
    h("ul", { class: "mlb-bars", "data-chart": "comparison" }, rows.map(line)),
  ];
}

/**
 * @param {Row[]} rows
 * @returns {HTMLElement}
 */
function drawTable(rows) {
  /** @type {(label: string, cell: (row: Row) => Node | string, title?: (row: Row) => string) => HTMLElement} */
  const line = (label, cell, title) =>
    h(
      "tr",
      {},
      h("th", { scope: "row" }, label),
      rows.map((row) => h("td", { title: title?.(row) }, cell(row))),
    );
  return h(
    "table",
    { class: "mlb-table" },
    h(
      "thead",
      {},
      h(
        "tr",
        {},
        h("td"),
        rows.map((row) => h("th", { scope: "col" }, row.name)),
      ),
    ),
    h(
      "tbody",
      {},
      line("layout", (row) => h("code", {}, row.layout || "no layout")),
      line("computes", (row) => `${percent(row.work)} of the matmuls`),
      line(
        "sends",
        (row) => bytes(row.bytes),
        (row) => `${exact(row.bytes)} bytes`,
      ),
      line("collectives", (row) => exact(row.collectives)),
      line(
        "holds, of arguments",
        (row) => bytes(row.arguments),
        (row) => `${exact(row.arguments)} bytes`,
      ),
      line(
        "live bytes, at the peak",
        (row) => (row.live_bytes === null ? "…" : bytes(row.live_bytes)),
        (row) =>
          row.live_bytes === null
            ? FOLLOWS
            : `${exact(row.live_bytes)} live bytes at the peak, counted from the plan, not measured`,
      ),
    ),
  );
}
