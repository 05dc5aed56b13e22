// @ts-check
/** The communication chart: bytes that each device sends in a step, by mesh axis and by source line. */
import { barRow, stack } from "./bars.js";
import { drawAccuracy } from "./disclosure.js";
import { h } from "./dom.js";
import { axisLabel } from "./marks.js";

/** @typedef {import("./board.js").Board} Board */

/**
 * @param {Board} board
 * @returns {(HTMLElement | null)[]}
 */
export function drawCommunication(board) {
  const { view } = board;
  const { accuracy } = view.machine;
  const { by_axis: byAxis, by_line: byLine, total, left_out: left } = view.communication;
  if (total === 0 && byLine.length === 0) {
    return [h("p", { class: "mlb-none" }, "Nothing is sent under this layout.")];
  }
  const mostAxis = Math.max(...byAxis.map((part) => part.bytes));
  const mostLine = Math.max(...byLine.map((line) => line.bytes));
  const axes = byAxis.map((part) =>
    barRow(axisLabel(view, part.key), stack(view, [part], mostAxis), part.bytes, { "data-axis": part.key }),
  );
  const lines = byLine.map((line) => {
    const label = h(
      "span",
      { class: "mlb-line", title: line.code },
      h("code", {}, line.line),
      h("code", {}, line.code),
    );
    return barRow(label, stack(view, line.parts, mostLine), line.bytes, { "data-line": line.line });
  });
  return [
    h("h4", {}, "by mesh axis"),
    h("ul", { class: "mlb-bars", "data-chart": "axes" }, axes),
    h("h4", {}, "by source line"),
    h(
      "ul",
      {
        class: "mlb-bars",
        "data-chart": "lines",
        "aria-label": "by source line",
      },
      lines,
    ),
    left ? h("p", { class: "mlb-none" }, `and ${left} more lines`) : null,
    h("p", { class: "mlb-foot" }, "Wire bytes that one device sends per step."),
    accuracy ? drawAccuracy(board, "communication", accuracy) : null,
  ];
}
