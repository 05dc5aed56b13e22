// @ts-check
/** The layout that the solver found, beside the one on the board: a table, and a chart on one scale. */
import { barRow, solid, stack } from "./bars.js";
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
  /** @type {(objective: string, label: string) => HTMLElement} */
  const button = (objective, label) =>
    h(
      "button",
      {
        type: "button",
        class: "mlb-button",
        "data-key": `auto:${objective}`,
        "data-auto": objective,
        disabled: comparison?.phase === "searching",
        onclick: () => board.send("auto", { objective }),
      },
      label,
    );
  const tools = h(
    "div",
    { class: "mlb-tools" },
    button("traffic", "Find least traffic"),
    button("memory", "Find least memory"),
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

const NOTHING_YET =
  "Auto finds the layout of dims on mesh axes that provably sends, or holds, the fewest bytes, and sets it beside yours.";

/**
 * @param {View} view
 * @returns {(HTMLElement | null)[]}
 */
function drawFound(view) {
  const { comparison } = view;
  if (!comparison) return [h("p", { class: "mlb-none" }, NOTHING_YET)];
  if (comparison.phase === "searching")
    return [h("p", { class: "mlb-none" }, `Searching for the least ${comparison.objective} …`)];
  if (!comparison.rows) return [h("p", { class: "mlb-error" }, "✕ ", prose(comparison.error))];
  return [
    drawTable(comparison.rows),
    ...drawChart(view, comparison.rows, comparison.objective),
    h("p", { class: "mlb-foot" }, prose(`Least ${comparison.objective}: ${comparison.proof}.`)),
  ];
}

/**
 * Draws what the objective minimises: the bytes sent, by mesh axis, or those held at most.
 * @param {View} view
 * @param {Row[]} rows
 * @param {string} objective
 * @returns {HTMLElement[]}
 */
function drawChart(view, rows, objective) {
  const held = objective === "memory";
  /** @type {(row: Row) => number} */
  const count = (row) => (held ? row.peak : row.bytes);
  const most = Math.max(1, ...rows.map(count));
  /** @type {(row: Row) => HTMLElement} */
  const bar = (row) => (held ? solid("mlb-argument", row.peak, most) : stack(view, row.by_axis, most));
  return [
    h("h4", {}, held ? "each device holds, at most" : "each device sends, per step"),
    h(
      "ul",
      { class: "mlb-bars", "data-chart": "comparison" },
      rows.map((row) => barRow(row.name, bar(row), count(row), { "data-row": row.key })),
    ),
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
      line("computes", (row) => `${percent(row.work)} of all products`),
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
        "holds, at most",
        (row) => bytes(row.peak),
        (row) => `${exact(row.peak)} bytes at the fullest moment, counted from the plan, not measured`,
      ),
    ),
  );
}
