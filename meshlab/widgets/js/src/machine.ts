/** The machine: which one, the shape of its slice, how the mesh is placed on it and could be, and its figures. */

import type { Board } from "./board.ts";
import { disclosure } from "./disclosure.ts";
import { h, prose } from "./dom.ts";
import { exact } from "./format.ts";
import { badge } from "./hint.ts";
import { swatch } from "./marks.ts";
import type { Intent, PlacedAxis } from "./types.ts";

/** What is said where no machine is chosen. */
export function noMachine(board: Board): string {
  const then = "a step's time is then predicted, and its peak memory is compared with a device's capacity.";
  return board.can("on") ? `Choose a machine: ${then}` : "No machine was chosen: no time is predicted.";
}

// Before the source of such a figure, which does not say it as far as anyone has looked.
const NOT_THERE = "recalled, not looked up in its source:";

export function drawPlacement(board: Board): (HTMLElement | null)[] {
  const { view } = board;
  const { machine } = view;
  if (!machine.on) return [h("p", { class: "mlb-none" }, noMachine(board))];
  return [drawAxes(board), drawFigures(board)];
}

/** The machine and its slice, to choose from. */
export function drawPicker(board: Board): (HTMLElement | null)[] {
  const { title, slice } = board.view.machine;
  if (!board.can("on")) return [title ? h("span", { class: "mlb-slice-text" }, `${title} ${slice}`) : null];
  return [drawMachines(board), drawSlices(board)];
}

/** A select that sends what is chosen; where that is not done it goes back to what it was. */
export function choice(
  board: Board,
  label: string,
  options: (HTMLOptionElement | HTMLOptGroupElement)[],
  intent: (value: string) => Intent,
): HTMLSelectElement {
  const choose = async ({ currentTarget: { value } }: { currentTarget: HTMLSelectElement }) => {
    const { op, args } = intent(value);
    const answer = await board.send(op, args);
    if (answer?.kind !== "ack") board.drawChoices();
  };
  return h("select", { class: "mlb-select", "aria-label": label, onchange: choose }, options);
}

function drawMachines(board: Board): HTMLElement {
  const { machine } = board.view;
  const groups = machine.groups.map((group) =>
    h(
      "optgroup",
      { label: group.label },
      group.machines.map((each) => {
        const slice = each.fits ? each.slice : "no slice of this size";
        const here = each.name === machine.name;
        const text = here || !slice ? each.title : `${each.title} · ${slice}`;
        return h("option", { value: here ? machine.on : each.on, selected: here }, text);
      }),
    ),
  );
  const none = h("option", { value: "", selected: !machine.on }, "no machine");
  const select = choice(board, "machine", [none, ...groups], (value) => ({
    op: "on",
    args: { machine: value },
  }));
  return h("label", { class: "mlb-field" }, select);
}

function drawSlices(board: Board): HTMLElement | null {
  const { machine } = board.view;
  const slices = machine.slices ?? [];
  if (slices.length < 2) return machine.slice ? h("span", { class: "mlb-slice-text" }, machine.slice) : null;
  const options = slices.map(({ on, slice }) => h("option", { value: on, selected: slice === machine.slice }, slice));
  const name = machine.kind ?? "slice";
  const select = choice(board, name, options, (value) => ({ op: "on", args: { machine: value } }));
  return h("label", { class: "mlb-field" }, select);
}

function drawAxes(board: Board): HTMLElement {
  const axes = board.view.machine.axes ?? [];
  return h(
    "ul",
    { class: "mlb-placements" },
    axes.map((axis) => drawAxis(board, axis)),
  );
}

function drawAxis(board: Board, axis: PlacedAxis): HTMLElement {
  const { view } = board;
  const options = axis.choices.map((each, i) => h("option", { value: i, selected: each.chosen }, each.label));
  const select =
    options.length > 1 &&
    board.can("lay") &&
    choice(board, `placement of ${axis.name}`, options, (value) => ({
      op: "lay",
      args: { along: axis.choices[Number(value)].along },
    }));
  return h(
    "li",
    { key: axis.name, class: "mlb-placement", "data-placement": axis.name },
    h("span", { class: "mlb-axis-label" }, swatch(view, axis.name), h("b", {}, axis.name), ` × ${exact(axis.size)}`),
    h("span", { class: "mlb-placement-text" }, prose(axis.placement)),
    select,
  );
}

function drawFigures(board: Board): HTMLElement {
  const { title, figures = [] } = board.view.machine;
  const rows = figures.map((figure) => {
    const before = figure.recalled && h("span", { class: "mlb-recalled" }, NOT_THERE);
    return h("li", {}, h("b", {}, figure.text), " ", before, linked(figure.source));
  });
  return disclosure(board, "figures", `The figures of ${title}, and their sources`, [
    h("ul", { class: "mlb-figures" }, rows),
  ]);
}

/** Text in which addresses are links, and `names` code. */
function linked(text: string): (Node | string)[] {
  return text
    .split(/(https?:\/\/\S*[^\s,;.)])/)
    .flatMap((part, i) => (i % 2 ? h("a", { href: part, target: "_blank", rel: "noopener" }, part) : prose(part)));
}

/** The badge of what rests on figures: where they are from, each with its source in the hint. */
export function mark(figures: { recalled: boolean; source: string; text: string }[]): HTMLElement | null {
  if (figures.length === 0) return null;
  const measured = figures.every((figure) => figure.source.startsWith("measured"));
  const kind = figures.some((figure) => figure.recalled) ? "recalled" : measured ? "measured" : "data sheet";
  return badge(kind, figures.map((figure) => `${figure.text}: ${sourceOf(figure)}`).join(". "));
}

/** The source of a figure as text, and whether the figure was looked up there. */
export function sourceOf(figure: { recalled: boolean; source: string }): string {
  return figure.recalled ? `${NOT_THERE} ${figure.source}` : figure.source;
}
