/**
 * What searches keep to beside pins: limits in fields, rules of which each can be taken away, marks on zones and heads of
 * mesh axes, and what sets them from a menu or by key. What is on the board stays as it is.
 */

import type { Board } from "./board.ts";
import { h, prose, s } from "./dom.ts";
import { partsOf } from "./hand.ts";
import type { KeptRule, Search, View } from "./types.ts";

type Marks = Pick<View, "kept">;

/** The limits of the next search, what it keeps to, and what it looks at. */
export function drawKept(board: Board): (HTMLElement | null)[] {
  const { kept, machine, search } = board.view;
  if (!board.can("limit_auto")) return [];
  return [
    h(
      "div",
      { class: "mlb-kept", role: "group", "aria-label": "what searches keep to" },
      machine.on ? drawLimit(board, "memory", "memory ≤", "of a device: 90%, or 60 GB; empty: any") : null,
      drawLimit(board, "seconds", "time ≤", "stop after this time with the best so far, 60 s say; empty: no limit"),
      kept.rules.map((rule) => drawRule(board, rule)),
    ),
    search && isChanged(search)
      ? h("p", { class: "mlb-kept-said" }, "The constraints have changed since this search: search again.")
      : null,
    search?.searched ? null : h("p", { class: "mlb-kept-said" }, prose(`To be searched: ${kept.space}.`)),
  ];
}

const isChanged = ({ changed, phase }: Search): boolean => changed && phase !== "searching";

function drawLimit(board: Board, name: "memory" | "seconds", label: string, title: string): HTMLElement {
  const value = board.view.kept[name];
  const limit = async ({ currentTarget: input }: { currentTarget: HTMLInputElement }) => {
    const { value: typed } = input;
    const answer = await board.send("limit_auto", { [name]: typed });
    // As the document has it: while a field has the keyboard, drawing leaves what was typed.
    const known = answer?.kind !== "ack" || board.view.kept[name] !== value;
    if (known && input.value === typed) input.value = board.view.kept[name];
  };
  const look = { value, title, size: 7, placeholder: "no limit", autocomplete: "off", spellcheck: "false" };
  return h("label", { title }, label, h("input", { name, ...look, onchange: limit }));
}

/** A rule as a button that takes it away. */
function drawRule(board: Board, { text, undo }: KeptRule): HTMLElement {
  const said = `${text.replaceAll("`", "")} × (let searches choose)`;
  return h(
    "button",
    {
      type: "button",
      key: text,
      class: "mlb-button",
      "aria-label": said,
      title: "let searches choose",
      onclick: () => board.send(undo.op, undo.args),
    },
    prose(text),
    " ×",
  );
}

/** @returns whether searches keep a dim off a mesh axis */
export function isNever({ kept }: Marks, dim: string, axis: string): boolean {
  return kept.forbidden[dim]?.includes(axis) === true;
}

export function isSilent({ kept }: Marks, axis: string): boolean {
  return kept.silent.includes(axis);
}

/** What keeps a dim off a mesh axis, or lets it be there again. */
export function neverIntent(view: Marks, dim: string, axis: string): { op: string; args: Record<string, unknown> } {
  return { op: isNever(view, dim, axis) ? "allow" : "forbid", args: { dim, axis } };
}

/** The dims that are never on a mesh axis in searches, as marks in its zone; each takes itself away. */
export function drawNever(board: Board, axis: string): HTMLElement[] {
  const { view } = board;
  const dims = Object.keys(view.kept.forbidden).filter((dim) => isNever(view, dim, axis));
  return dims.map((dim) => {
    const look = { key: `never ${dim}`, class: "mlb-never", title: `${dim} is never on ${axis} in searches` };
    const words = ["⊘ ", h("s", {}, dim)];
    if (!board.can("allow")) return h("span", { ...look, role: "img", "aria-label": look.title }, words);
    const allow = () => board.send("allow", { dim, axis });
    return h(
      "button",
      { type: "button", ...look, "aria-label": `${dim}: ${look.title}; allow it`, onclick: allow },
      words,
    );
  });
}

/** The mark of a silent mesh axis; the head's own label says the same. */
export function drawSilent(view: Marks, axis: string): Element | null {
  if (!isSilent(view, axis)) return null;
  const look = {
    fill: "none",
    stroke: "currentColor",
    "stroke-width": 1.6,
    d: "M2 6h3l4-3v10l-4-3H2zM11 6l4 4M15 6l-4 4",
  };
  return s("svg", { class: "mlb-pin", viewBox: "0 0 16 16", "aria-hidden": "true" }, s("path", look));
}

/** A line of a dim's menu: the mesh axes that searches keep it off. */
export function drawNeverLine(board: Board, dim: string): HTMLElement | null {
  if (!board.can("forbid")) return null;
  const buttons = board.view.mesh.axes.map(({ name }) => {
    const { op, args } = neverIntent(board.view, dim, name);
    const said = { "aria-pressed": String(op === "allow"), "aria-label": `${name}: never here in searches` };
    return h(
      "button",
      { type: "button", class: "mlb-button", ...said, onclick: () => board.popover.send(op, args) },
      name,
    );
  });
  const look = { class: "mlb-popover-line mlb-never-on", role: "group", "aria-label": "never on, in searches" };
  return h("div", look, h("span", {}, "never on, in searches"), ...buttons);
}

/** A line of a mesh axis' menu: whether what searches find may send over it. */
export function drawSilentLine(board: Board, axis: string): HTMLElement | null {
  if (!board.can("silence")) return null;
  const send = ({ currentTarget: { checked } }: { currentTarget: HTMLInputElement }) =>
    board.popover.send("silence", { axis, silent: checked });
  const input = h("input", { type: "checkbox", checked: isSilent(board.view, axis), onchange: send });
  return h(
    "label",
    { class: "mlb-switch mlb-popover-line" },
    input,
    h("span", {}, "silent: searches send nothing over it"),
  );
}

/** Keeps the dim of a chip off its mesh axis in searches, or lets it be there again. */
export function toggleNever(board: Board, dim: string, zone: string) {
  if (!board.can("forbid")) return;
  const { axis, at } = partsOf(zone);
  if (at || !axis) {
    board.say("Searches keep a dim off the axis that it is computed on: F2 has all axes.", "refused");
    return;
  }
  const { op, args } = neverIntent(board.view, dim, axis);
  board.send(op, args);
}

/** Has searches send nothing over a mesh axis, or lets them. */
export function toggleSilent(board: Board, axis: string) {
  const inTime = board.view.mesh.axes.some(({ name, inTime }) => name === axis && inTime);
  if (board.can("silence") && !inTime) board.send("silence", { axis, silent: !isSilent(board.view, axis) });
}
