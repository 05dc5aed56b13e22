/** What a device sends in a step, in totals: by mesh axis, by kind and by source line, each as payload and wire bytes. */
import { solid, stack } from "./bars.ts";
import type { Board } from "./board.ts";
import { drawAccuracy } from "./disclosure.ts";
import { h } from "./dom.ts";
import { bytes, exact } from "./format.ts";
import { axisLabel } from "./marks.ts";

/** A chart of bars, each with wire bytes and payload. */
function chart(name: string, title: string, rows: HTMLElement[]): HTMLElement {
  const heads = [`${title}, total`, "sends", "payload"].map((text, i) =>
    h("span", { class: i ? "mlb-bar-value" : "" }, text),
  );
  return h(
    "section",
    { class: "mlb-total-chart" },
    h("h4", { class: "mlb-bar-heads" }, heads),
    h("ul", { class: "mlb-bars", "data-chart": name, "aria-label": title }, rows),
  );
}

function row(
  label: Node,
  bar: HTMLElement,
  { bytes: wire, payload }: { bytes: number; payload: number },
  attributes: Record<string, string>,
): HTMLElement {
  return h(
    "li",
    { class: "mlb-bar-row", ...attributes },
    h("span", { class: "mlb-bar-label" }, label),
    bar,
    h("span", { class: "mlb-bar-value", title: `wire ${exact(wire)} bytes` }, bytes(wire)),
    h("span", { class: "mlb-bar-value mlb-payload", title: `payload ${exact(payload)} bytes` }, bytes(payload)),
  );
}

/** Totals by mesh axis and by kind. */
export function drawCommunication(board: Board): (HTMLElement | null)[] {
  const { view } = board;
  const { by_axis: byAxis, by_kind: byKind, total, by_line: byLine } = view.communication;
  if (total === 0 && byLine.length === 0) {
    return [h("p", { class: "mlb-none" }, "Nothing is sent under this layout.")];
  }
  const mostAxis = Math.max(...byAxis.map((part) => part.bytes));
  const mostKind = Math.max(1, ...byKind.map((part) => part.bytes));
  const axes = byAxis.map((part) =>
    row(axisLabel(view, part.key), stack(view, [part], mostAxis), part, { "data-axis": part.key }),
  );
  const kinds = byKind.map((part) => {
    const often = h("span", { class: "mlb-times" }, `×\u00a0${exact(part.count)}`);
    return row(h("span", {}, part.kind, " ", often), solid("mlb-argument", part.bytes, mostKind), part, {
      "data-sum": part.kind,
    });
  });
  return [
    h("div", { class: "mlb-total-charts" }, chart("axes", "by mesh axis", axes), chart("kinds", "by kind", kinds)),
    h("p", { class: "mlb-foot" }, "Totals per device and step. Sends: wire bytes. Payload: bytes of the operands."),
  ];
}

/** Totals by source line. */
export function drawLines(board: Board): (HTMLElement | null)[] {
  const { view } = board;
  const { accuracy } = view.machine;
  const { by_line: byLine, left_out: left } = view.communication;
  if (byLine.length === 0) return [];
  const most = Math.max(...byLine.map((line) => line.bytes));
  const lines = byLine.map((line) => {
    const label = h(
      "span",
      { class: "mlb-line", title: line.code },
      h("code", {}, line.line),
      h("code", {}, line.code),
    );
    return row(label, stack(view, line.parts, most), line, { "data-line": line.line });
  });
  return [
    chart("lines", "by source line", lines),
    left ? h("p", { class: "mlb-none" }, `and ${exact(left)} more lines`) : null,
    accuracy ? drawAccuracy(board, "communication", accuracy) : null,
  ];
}
