/** The first line of the workbench: the model, the mesh, the machine; undo, redo, Reset, Export, what is seldom asked for, and help. */

import type { Board } from "./board.ts";
import { h } from "./dom.ts";
import { openAxis } from "./edit.ts";
import { drawExport } from "./export.ts";
import { exact } from "./format.ts";
import { drawHelp } from "./help.ts";
import { drawPicker } from "./machine.ts";
import { swatch } from "./marks.ts";
import { drawTitle } from "./models.ts";
import { drawMore } from "./more.ts";
import type { Axis } from "./types.ts";

export function drawHeader(board: Board): HTMLElement[] {
  const { undo, redo } = board.view.history;
  return [
    h("div", { class: "mlb-what" }, drawTitle(board), drawMesh(board), drawPicker(board)),
    h(
      "div",
      { class: "mlb-tools" },
      drawStep(board, "undo", "↶", "Undo: Ctrl+Z", undo === 0),
      drawStep(board, "redo", "↷", "Redo: Ctrl+Shift+Z", redo === 0),
      drawStep(board, "reset", "Reset", "Reset: back to the layout that the Explorer was opened with", false),
      drawExport(board),
      drawMore(board),
      drawHelp(board),
    ),
  ];
}

/** The mesh: a button for each axis, which opens what can be changed of it. */
function drawMesh(board: Board): HTMLElement {
  const { axes, size } = board.view.mesh;
  const name = `${exact(size)} device${size === 1 ? "" : "s"}`;
  const times = (axis: Axis) => h("span", { key: `× ${axis.name}`, "aria-hidden": "true" }, "×");
  const chips = axes.flatMap((axis, i) => [i > 0 && times(axis), drawAxis(board, axis)]);
  return h(
    "div",
    { class: "mlb-axes", role: "group", "aria-label": `mesh of ${name}`, title: name },
    chips,
    h("span", { class: "mlb-mesh-size" }, `= ${name}`),
  );
}

function drawAxis(board: Board, axis: Axis): HTMLElement {
  const text = `${axis.name} ${exact(axis.size)}${axis.unit ? ` ${axis.unit}` : ""}`;
  const said = [swatch(board.view, axis.name), text];
  if (!board.can("resize_axis")) return h("span", { key: axis.name, class: "mlb-mesh-axis" }, said);
  return h(
    "button",
    {
      type: "button",
      key: axis.name,
      class: "mlb-button mlb-mesh-axis",
      "aria-haspopup": "dialog",
      "aria-label": `${text}: change this mesh axis`,
      title: `${text}: change this mesh axis`,
      onclick: ({ currentTarget }) => openAxis(board, axis, currentTarget),
    },
    said,
  );
}

function drawStep(board: Board, op: string, word: string, about: string, off: boolean): HTMLElement {
  const said = { "data-op": op, title: about, "aria-label": about.split(":")[0], disabled: off };
  return h("button", { type: "button", class: "mlb-button", ...said, onclick: () => board.send(op) }, word);
}
