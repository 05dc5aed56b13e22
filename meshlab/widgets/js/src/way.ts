/**
 * The way from the layout on the board to Auto's, one change at a time (`views/reasons.way_view`): what the step takes
 * after each as a bar, what the change has saved or added as its hatched end, and a button that goes as far as that.
 * Once Auto's is on the board it is the way from the layout before, which leads back as well.
 */

import type { Board } from "./board.ts";
import { h, prose } from "./dom.ts";
import { bytes, exact, seconds, signedSeconds } from "./format.ts";
import { EMPTY } from "./model.ts";
import { beforeOf, takeButton } from "./search.ts";
import type { WayStep } from "./types.ts";

export function drawWay(board: Board): (Node | null | false)[] {
  const before = beforeOf(board.view);
  const { data, error, fresh } = board.reads.of("way", before ? { begins: before.key } : {});
  if (error) return [h("p", { class: "mlb-error" }, `✕ ${error}`)];
  if (!data) return [!board.readOnly && h("p", { class: "mlb-none mlb-reading" }, "The way is being worked out …")];
  const { steps, order, rank, refused } = data;
  const yours = before ? `${before.name}, the layout before` : "Your layout";
  if (refused) return [h("p", { class: "mlb-error" }, `✕ The search cannot plan ${yours}: `, prose(refused))];
  if (!steps.length) return [];
  const alone = steps.length === 1;
  return [
    h("p", { class: "mlb-rank" }, `${alone ? "Yours is Auto's layout" : yours}: ${rank}.`),
    order !== "" && h("p", { class: "mlb-foot" }, order),
    !alone && h("div", { class: "mlb-way-box", "data-fresh": String(fresh) }, drawSteps(board, steps, yours)),
  ];
}

/**
 * Where the two parts of a step's bar end, in percent of the longest step: what it takes, and what was saved or added.
 */
export function barOf(
  { seconds: after, by }: Pick<WayStep, "seconds" | "by">,
  most: number,
): { solid: number; change: number } {
  const before = after - by;
  return { solid: (100 * Math.min(before, after)) / most, change: (100 * Math.abs(by)) / most };
}

function drawSteps(board: Board, steps: WayStep[], yours: string): HTMLElement {
  const most = Math.max(...steps.map((step) => Math.max(step.seconds, step.seconds - step.by)));
  const heads = ["change", "step", "sends", "peak", ""];
  const head = h("tr", {}, ...heads.map((each) => (each ? h("th", { scope: "col" }, each) : h("td", {}))));
  const rows = steps.map((step, i) => drawStep(board, step, i, i === steps.length - 1, most));
  return h(
    "table",
    { class: "mlb-table mlb-way", "aria-label": `${yours} to Auto's, one change at a time` },
    h("thead", {}, head),
    h("tbody", {}, rows),
  );
}

function drawStep(board: Board, step: WayStep, i: number, last: boolean, most: number): HTMLElement {
  const { change, by, peak, fits, layout } = step;
  const { solid, change: part } = barOf(step, most);
  const sign = by < 0 ? "less" : by > 0 ? "more" : "same";
  const arrow = { less: "▼ ", more: "▲ ", same: "" }[sign];
  const bar = h(
    "div",
    { class: "mlb-way-bar", "aria-hidden": "true" },
    h("span", { class: "mlb-way-solid", style: `width:${solid.toFixed(2)}%` }),
    part > 0 && h("span", { class: `mlb-way-change mlb-way-${sign}`, style: `width:${part.toFixed(2)}%` }),
  );
  const label = last ? "Use Auto's" : i ? "Up to here" : "← Back";
  const take = takeButton(board, label, step, `change your layout up to here: ${change}`);
  return h(
    "tr",
    { key: layout, "data-step": i, title: layout || EMPTY },
    h("th", { scope: "row" }, h("span", { class: "mlb-way-name" }, change), bar),
    h(
      "td",
      {},
      seconds(step.seconds),
      h("small", {}, i ? h("span", { class: `mlb-change mlb-${sign}` }, `${arrow}${signedSeconds(by)}`) : ""),
    ),
    h("td", { title: `${exact(Math.round(step.bytes))} bytes` }, bytes(step.bytes)),
    h(
      "td",
      { title: `${exact(peak)} bytes` },
      bytes(peak),
      h("small", {}, !fits && h("span", { class: "mlb-card-over" }, "✕ OOM")),
    ),
    h("td", {}, take),
  );
}
