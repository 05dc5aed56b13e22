/**
 * Edits of the mesh and of dims: the heads of mesh axes and the chips open popovers, with fields to rename, split, merge
 * and resize; a pin keeps a dim where it is in a search; and a line tells of a program that is being traced again.
 */

import type { Board } from "./board.ts";
import { h, redraw, s } from "./dom.ts";
import { exact, plural } from "./format.ts";
import { chipOf, partsOf, TRAY } from "./hand.ts";
import { drawNeverLine, drawSilent, drawSilentLine, isSilent } from "./keeps.ts";
import { markClass, swatch } from "./marks.ts";
import { field } from "./popover.ts";
import { makeSizes, tracingText } from "./sizes.ts";
import type { Axis, Tracing, View } from "./types.ts";

/** The head of a mesh axis' row, which opens what can be changed of it. */
export function drawAxisHead(board: Board, axis: Axis): HTMLElement {
  const size = `×${exact(axis.size)}${axis.unit ? ` ${axis.unit}` : ""}`;
  const idle = isIdle(board.view, axis.name) ? " idle" : "";
  const nothing = axis.inTime ? "each device runs everything at once" : "the devices along it all do the same work";
  const meaning = axis.meaning ? `. ${axis.meaning}` : "";
  const why = `${meaning}${idle ? `${meaning ? "" : "."} Nothing is sharded over it: ${nothing}` : ""}`;
  const edits = axis.inTime ? "rename or resize" : "rename, resize, split or merge";
  const said = [
    swatch(board.view, axis.name),
    h("b", { class: "mlb-zone-name" }, axis.name),
    h("span", { class: "mlb-zone-size" }, `${size}${idle}`),
    drawSilent(board.view, axis.name),
  ];
  const silent = isSilent(board.view, axis.name) ? ", silent in searches" : "";
  const look = {
    key: axis.name,
    class: `mlb-axis ${markClass(board.view, axis.name)}${axis.inTime ? " mlb-in-time" : ""}`,
    "data-axis-row": axis.name,
  };
  if (!board.can("resize_axis")) return h("div", { ...look, title: `${axis.name} ${size}${silent}${why}` }, said);
  return h(
    "button",
    {
      type: "button",
      ...look,
      "aria-haspopup": "dialog",
      "aria-label": `${axis.name} ${size}${idle}${silent}: change this mesh axis`,
      title: `${axis.name} ${size}${silent}: ${edits}${why}`,
      onclick: ({ currentTarget }) => openAxis(board, axis, currentTarget),
    },
    said,
  );
}

/** @returns whether no rule has this mesh axis */
export function isIdle({ columns }: Pick<View, "columns">, axis: string): boolean {
  const rules = columns.flatMap((column) => [column.rules, ...column.within.map((each) => each.rules)]);
  return !rules.some((each) => Object.values(each).some((axes) => axes.includes(axis)));
}

/** Opens what can be changed of a mesh axis, below an element. */
export function openAxis(board: Board, { name, size, inTime }: Axis, head: HTMLElement) {
  const { popover, view } = board;
  // What runs in time is neither split nor merged.
  const axes = view.mesh.axes.flatMap((each) => (inTime || each.inTime ? [] : [each.name]));
  const others = axes.filter((each) => each !== name);
  const merging = h(
    "label",
    {},
    "merge with",
    h(
      "select",
      { name: "other" },
      others.map((each) => h("option", { value: each }, each)),
    ),
  );
  const outer = inTime ? null : leastPart(size);
  popover.open(head, `Mesh axis ${name}`, [
    makeSizes(board, "axis", name, size),
    popover.line("resize_axis", "Resize", [field("size", "size", size)], (values) => ({
      axis: name,
      size: Number(values.size),
    })),
    popover.line("rename_axis", "Rename", [field("name", "name", name)], (values) => ({ axis: name, ...values })),
    outer === null
      ? null
      : popover.line(
          "split_axis",
          "Split",
          [
            field("outer", "outer", outer),
            field(
              "name",
              "called",
              free(
                "outer",
                view.mesh.axes.map((each) => each.name),
              ),
            ),
          ],
          (values) => ({ axis: name, outer: Number(values.outer), name: values.name }),
        ),
    others.length === 0
      ? null
      : popover.line("merge_axes", "Merge", [merging], ({ other }) => ({
          // In the order of the mesh, so that devices stay where they are.
          axes: axes.filter((each) => each === name || each === other),
        })),
    inTime ? null : drawSilentLine(board, name),
  ]);
}

/** @returns the least part of a size that can be split; null where it cannot */
export function leastPart(size: number): number | null {
  for (let part = 2; part < size; part += 1) if (size % part === 0) return part;
  return null;
}

/** @returns the name, or with a number behind it where it is taken */
export function free(name: string, taken: string[]): string {
  let wanted = name;
  for (let number = 2; taken.includes(wanted); number += 1) wanted = `${name}_${number}`;
  return wanted;
}

/** Opens what can be changed of a dim, if anything can. */
export function openDim(board: Board, chip: HTMLElement) {
  if (!board.can("resize_dim")) return;
  const dim = chip.getAttribute("data-dim") ?? "";
  const zone = chip.getAttribute("data-zone") ?? "";
  const { popover, view } = board;
  const size = chipOf(view, dim).size;
  const pin = pinIntent(view, dim, zone);
  const button =
    pin &&
    h(
      "button",
      { type: "button", class: "mlb-button", "data-op": pin.op, onclick: () => popover.send(pin.op, pin.args) },
      pin.label,
    );
  popover.open(chip, `Dim ${dim}`, [
    makeSizes(board, "dim", dim, size),
    popover.line("resize_dim", "Resize", [field("size", "size", size)], (values) => ({
      dim,
      size: Number(values.size),
    })),
    popover.line("rename_dim", "Rename", [field("name", "name", dim)], (values) => ({ dim, ...values })),
    button && h("div", { class: "mlb-popover-line" }, button),
    drawNeverLine(board, dim),
  ]);
}

/** What the pin of a chip would do; null for a rule at a place, which no search chooses. */
export function pinIntent(
  view: Pick<View, "pins">,
  dim: string,
  zone: string,
): { op: string; args: Record<string, unknown>; label: string } | null {
  const { axis, at } = partsOf(zone);
  if (at) return null;
  if (dim in view.pins) return { op: "unpin", args: { dim }, label: `Unpin (${pinText(view, dim)})` };
  if (zone === TRAY) return { op: "pin", args: { dim }, label: "Pin: unsharded in searches" };
  return { op: "pin", args: { dim, axis }, label: `Pin: on ${axis} in searches` };
}

/** Pins the dim of a chip, or unpins it. */
export function togglePin(board: Board, dim: string, zone: string) {
  if (!board.can("pin")) return;
  const pin = pinIntent(board.view, dim, zone);
  if (!pin) {
    board.say("Only compute rules are pinned: a search chooses no rules at places.", "refused");
    return;
  }
  board.send(pin.op, pin.args);
}

/** @returns where a dim is pinned, in words; "" where it is not */
export function pinText(view: Pick<View, "pins">, dim: string): string {
  if (!(dim in view.pins)) return "";
  return view.pins[dim] === null ? "pinned unsharded" : `pinned to ${view.pins[dim]}`;
}

/** The mark of a pinned dim; the chip's own label says the same. */
export function drawPin(view: View, dim: string): Element | null {
  if (!pinText(view, dim)) return null;
  const path = s("path", { d: "M6 1h4l-.5 4.5 2.5 2V9H8.6v5L8 15.5 7.4 14V9H4V7.5l2.5-2z", fill: "currentColor" });
  return s("svg", { class: "mlb-pin", viewBox: "0 0 16 16", "aria-hidden": "true" }, path);
}

/** A button that lists the dims whose names were made up, to be named. */
export function drawMadeUp(board: Board): HTMLElement | null {
  const { popover, view } = board;
  const names = Object.entries(view.made_up);
  if (names.length === 0 || !board.can("rename_dim")) return null;
  const lines = () =>
    names.map(([dim, size]) =>
      popover.line("rename_dim", "Name it", [field("name", `${dim} ${exact(size)}`, suggested(dim))], (values) => ({
        dim,
        ...values,
      })),
    );
  return h(
    "button",
    {
      type: "button",
      class: "mlb-button mlb-made-up",
      "aria-haspopup": "dialog",
      title: "Axes that the program named by itself. Named by you, they can be sharded.",
      onclick: ({ currentTarget }) => popover.open(currentTarget, "Dims whose names were made up", lines()),
    },
    `${plural(names.length, "unnamed dim")} …`,
  );
}

/** @returns a name that a dim with a made-up one could have */
export function suggested(dim: string): string {
  const name = dim.replace(/\W/g, "");
  return /^[A-Za-z_]/.test(name) ? `${name}_other` : `dim_${name}`;
}

/** Draws what is being edited, and tells of a program that is being traced again, and how that ended. */
export function followEdits(board: Board, parts: string[]) {
  board.popover.changed(parts);
  if (!parts.includes("tracing")) return;
  const { tracing } = board.view;
  redraw(board.panels.tracing, drawTracing(board, tracing));
  const ended = board.tracing && tracedText(tracing);
  if (ended) board.say(ended.text, ended.mood);
  board.tracing = tracing?.phase === "tracing";
}

/** What is being traced, with a button that cancels it. */
function drawTracing(board: Board, tracing: Tracing | null): (Node | string)[] {
  if (tracing?.phase !== "tracing") return [];
  const cancel = h(
    "button",
    { type: "button", class: "mlb-button", "data-op": "cancel_tracing", onclick: () => board.send("undo") },
    "Cancel",
  );
  return [h("progress", { "aria-label": "tracing" }), h("span", {}, tracingText(tracing)), cancel];
}

/** What the status line says when a tracing has ended. */
export function tracedText(tracing: Tracing | null): { text: string; mood: "done" | "refused" } | null {
  if (tracing?.phase === "refused") return { text: tracing.text, mood: "refused" };
  if (tracing?.phase === "cancelled") return { text: "The program stays as it is.", mood: "done" };
  return tracing?.phase === "done"
    ? {
        text: `${tracing.model ? `${tracing.model} is open` : `Traced again with ${tracing.sizes}`}. ${tracing.text}`,
        mood: "done",
      }
    : null;
}
