/**
 * The roofline, as Python draws it (meshlab/widgets/views/charts/kernels.py): groups of kernels as dots under what the
 * machine's matrix units and memory let them reach. The table has the same numbers, and kernels without matmuls as well.
 */

import type { Board } from "./board.ts";
import { drawNoChart } from "./charts.ts";
import { disclosure } from "./disclosure.ts";
import { h, prose } from "./dom.ts";
import { exact, flops, seconds, threeDigits } from "./format.ts";
import { predicted } from "./model.ts";
import { spot } from "./spots.ts";
import type { Dot, Roofline } from "./types.ts";

function titleOf({ name, dims, source, count, seconds: time, intensity, rate, bound }: Dot): string {
  const of = dims.length ? ` [${dims.join(" ")}]` : "";
  const where = source ? `, ${source}` : "";
  const at = intensity === null ? "no matmul" : `${threeDigits(intensity)} FLOP/B, ${flops(rate)}`;
  return `${name}${of}${where}: ${seconds(time)} in ${exact(count)}, ${at}, ${bound}-bound`;
}

export function drawRoofline(board: Board): (Node | null | false)[] {
  const { time } = board.view;
  return predicted(time) === null ? [] : [spot("roofline", () => drawGroups(board))];
}

/** What takes most of the step, and why: found by the same groups. */
export function drawBecause(board: Board): HTMLElement {
  return spot("roofline", () => {
    const { data, fresh } = board.reads.of("roofline");
    return data?.dots ? [h("p", { "data-fresh": String(fresh) }, prose(data.because))] : [];
  });
}

function drawGroups(board: Board): (Node | null | false)[] {
  const title = h("h4", {}, "roofline");
  const { data, error, fresh } = board.reads.of("roofline");
  if (error) return [title, h("p", { class: "mlb-error" }, `✕ ${error}`)];
  if (!data) return board.readOnly ? [] : [title, h("p", { class: "mlb-none" }, "The roofline is being worked out …")];
  if (!data.dots?.length) return [];
  return [title, h("div", { class: "mlb-roofline", "data-fresh": String(fresh) }, drawKernels(board, data))];
}

function drawKernels(board: Board, data: Roofline): (Node | null)[] {
  const text = "Area is time. Filled: compute-bound. Hollow: memory- or launch-bound. Drag to zoom.";
  return [
    h("p", { class: "mlb-roofline-said" }, data.said),
    board.can("library") ? data.chart && board.charts.of("roofline", data.chart) : drawNoChart("The roofline"),
    data.chart && h("p", { class: "mlb-foot" }, text),
    disclosure(board, "kernels", "Kernels by time", [drawTable(data.dots ?? [], data)]),
  ];
}

function drawTable(dots: Dot[], { left_out: left, left_seconds: leftSeconds, compute }: Roofline): HTMLElement {
  const heads = ["kernels", "time", "×", "FLOP/B", "bound by"];
  const rows = dots.map((dot) =>
    h(
      "tr",
      { title: titleOf(dot) },
      h("td", { class: "mlb-kernel-name" }, h("div", {}, `${dot.name} `, h("code", {}, dot.source))),
      h("td", {}, seconds(dot.seconds)),
      h("td", {}, exact(dot.count)),
      h("td", {}, dot.intensity === null ? "–" : threeDigits(dot.intensity)),
      h("td", {}, dot.bound),
    ),
  );
  const more = left ? h("tr", {}, h("td", {}, `${exact(left)} more groups`), h("td", {}, seconds(leftSeconds))) : null;
  const whole = h("tr", {}, h("th", { scope: "row" }, "all kernels"), h("td", {}, seconds(compute)));
  const head = h(
    "thead",
    {},
    h(
      "tr",
      {},
      heads.map((each) => h("th", { scope: "col" }, each)),
    ),
  );
  return h("table", { class: "mlb-table" }, head, h("tbody", {}, rows, more, whole));
}
