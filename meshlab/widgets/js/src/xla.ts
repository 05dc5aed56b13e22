/** The plan beside what XLA's own partitioner makes of the same shardings: line by line what each sends. */
import type { Board } from "./board.ts";
import { h, prose } from "./dom.ts";
import { bytes, exact } from "./format.ts";
import { axisLabel, markClass } from "./marks.ts";
import { spot } from "./spots.ts";
import type { View, Xla, XlaRow } from "./types.ts";

const ABOUT =
  "XLA's own partitioner is given the shardings of arguments, results and tags that have rules, and chooses the rest.";

export function drawXla(board: Board): (Node | null)[] {
  if (!board.can("xla") || board.readOnly) return [];
  return [h("h4", {}, "beside XLA's partitioner"), spot("xla", () => drawBeside(board))];
}

/** What stands in the place of XLA's program until it is compiled. */
export function drawUncompiled(board: Board): (HTMLElement | null)[] {
  const { xla } = board.view;
  if (xla?.phase === "working") return [drawWork(board, xla)];
  return [h("p", { class: "mlb-none" }, ABOUT), xla?.error ? refused(xla.error) : null, ask(board)];
}

/** Whether XLA's program is there. */
export const isCompiled = ({ view: { xla } }: Board): boolean => xla?.phase === "done" && !xla.error;

function drawBeside(board: Board): (HTMLElement | null)[] {
  const { xla } = board.view;
  if (!xla || !isCompiled(board)) return drawUncompiled(board);
  if (!xla.rows.length) return [h("p", { class: "mlb-none" }, "Neither sends anything.")];
  return [drawTable(board.view, xla), ...xla.notes.map((note) => h("p", { class: "mlb-foot" }, note))];
}

function refused(error: string): HTMLElement {
  return h("p", { class: "mlb-error", role: "alert" }, "✕ ", prose(error));
}

function ask(board: Board): HTMLElement {
  const onclick = () => board.send("xla");
  return h("button", { type: "button", class: "mlb-button", "data-op": "xla", onclick }, "Compile with XLA");
}

function drawWork(board: Board, { stage, seconds }: Xla): HTMLElement {
  const onclick = () => board.send("cancel_xla");
  return h(
    "p",
    { class: "mlb-xla-work", role: "status" },
    h("progress", { "aria-label": "compiling" }),
    h("span", {}, `${stage}, ${exact(Math.floor(seconds))} s`),
    h("button", { type: "button", class: "mlb-button", "data-op": "cancel_xla", onclick }, "Cancel"),
  );
}

function drawTable(view: View, xla: Xla): HTMLElement {
  const { rows, left_out: left, planned, inserted } = xla;
  const heads = ["kind and line", "over", "plan sends", "XLA sends"].map((text, i) =>
    h("th", { scope: "col", class: i > 1 ? "mlb-number" : "" }, text),
  );
  const total = h(
    "tr",
    { "data-total": true },
    h("th", { scope: "row", colspan: 2 }, left ? `in all, ${exact(left)} more lines among them` : "in all"),
    number(planned),
    number(inserted),
  );
  return h(
    "table",
    { class: "mlb-table mlb-collectives mlb-xla", "aria-label": "the plan beside XLA's program" },
    h("thead", {}, h("tr", {}, heads)),
    h(
      "tbody",
      {},
      rows.map((row) => drawRow(view, row)),
      total,
      drawBoth("peak memory, predicted", xla.planned_peak, xla.inserted_peak, "no prediction"),
      drawBoth("a step takes", xla.planned_step, xla.inserted_step, "no price"),
    ),
  );
}

/** What is predicted of both; XLA's program may have no prediction. */
function drawBoth(what: string, planned: string, inserted: string, none: string): HTMLElement | null {
  if (!planned) return null;
  const cells = [planned, inserted || none].map((text) => h("td", { class: "mlb-number" }, text));
  return h("tr", { "data-both": what }, h("th", { scope: "row", colspan: 2 }, what), cells);
}

function drawRow(view: View, { source, kind, key, planned, inserted, same, because }: XlaRow): HTMLElement {
  const why = because.map((text) => h("div", { class: "mlb-because" }, prose(text)));
  return h(
    "tr",
    { class: `mlb-collective ${markClass(view, key)}`, "data-same": String(same) },
    h(
      "td",
      { class: "mlb-collective-value" },
      h("div", {}, same ? "= " : "≠ ", h("b", {}, kind), h("code", { class: "mlb-collective-source" }, ` ${source}`)),
      why,
    ),
    h("td", {}, axisLabel(view, key)),
    number(planned),
    number(inserted),
  );
}

function number(count: number): HTMLElement {
  return h("td", { class: "mlb-number", title: `${exact(count)} bytes` }, bytes(count));
}
