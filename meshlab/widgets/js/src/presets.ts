/**
 * The presets as toggles that combine, in groups: those that are on the board are pressed, by the layout's name, and
 * half pressed where some of them is otherwise; pressed again, one is taken away. What cannot be is behind "3 more", which says what each is, why not here, and what it needs.
 */

import type { Board } from "./board.ts";
import { h, prose } from "./dom.ts";
import { drawScopes } from "./scopes.ts";
import type { Preset, PresetHere } from "./types.ts";

const GROUPS = ["batch", "model", "experts", "sequence", "time"] as const;

export function drawPresets(board: Board): HTMLElement {
  const { presets, named } = board.view;
  const possible = presets.filter((preset) => !preset.why);
  const groups = GROUPS.map((group) => {
    const toggles = possible
      .filter((preset) => preset.group === group)
      .map((preset) =>
        drawToggle(
          board,
          preset,
          named?.parts.find((part) => part.name === preset.name),
          named?.alike?.includes(preset.name) ? sameText(named.text) : "",
        ),
      );
    const kind = h("span", { class: "mlb-preset-kind", "aria-hidden": "true" }, group);
    const look = { key: group, class: "mlb-preset-group", role: "group", "aria-label": `presets of the ${group}` };
    return toggles.length ? h("div", look, kind, toggles) : null;
  });
  const said = { class: "mlb-presets", role: "group", "aria-label": "presets" };
  return h("div", said, groups, drawImpossible(board), drawScopes(board));
}

/** Why a preset gives the numbers that are on the board already. */
export const sameText = (there: string): string =>
  `Here it stores and sends the same as ${there}: each device keeps only its part of a gradient's sum anyway, because its optimizer state needs no more.`;

/** @param same why it comes to the same as what is there */
function drawToggle(board: Board, preset: Preset, here: PresetHere | undefined, same: string): HTMLElement {
  const { name, label, about, choices } = preset;
  const asks = !here && choices.length > 1;
  const where = here?.note ? "On the board in part" : "On the board";
  const then = here ? `${where}: ${here.text}. Press to remove it.` : asks ? "It asks for a mesh axis." : same;
  const press = ({ currentTarget }: { currentTarget: HTMLElement }) => {
    if (asks) askAxis(board, preset, currentTarget);
    else board.send("toggle", !here && choices.length ? { name, over: choices[0] } : { name });
  };
  return h(
    "button",
    {
      type: "button",
      class: "mlb-button mlb-preset",
      key: name,
      "data-preset": name,
      "aria-pressed": here?.note ? "mixed" : String(here !== undefined),
      "aria-haspopup": asks && "dialog",
      "data-hint": `${about} ${then}`.trim(),
      onclick: press,
    },
    label,
    asks && " …",
  );
}

/** Asks over which mesh axis a preset is to be, where none is called as its axis is. */
function askAxis(board: Board, { name, label, about, choices }: Preset, opener: HTMLElement) {
  const axes = choices.map((over) =>
    h(
      "button",
      { type: "button", class: "mlb-button", onclick: () => board.popover.send("toggle", { name, over }) },
      `over ${over}`,
    ),
  );
  const line = h("div", { class: "mlb-popover-line" }, axes);
  board.popover.open(opener, `${label}: over which mesh axis?`, [h("p", {}, prose(about)), line]);
}

/** The presets that cannot be here. */
function drawImpossible(board: Board): HTMLElement | null {
  const impossible = board.view.presets.filter((preset) => preset.why);
  if (impossible.length === 0) return null;
  const open = ({ currentTarget }: { currentTarget: HTMLElement }) => {
    const said = impossible.map(({ label, about, why, needs }) => [
      h("dt", {}, label),
      h(
        "dd",
        {},
        prose(about),
        h("br"),
        h("b", {}, "Not here: "),
        prose(why),
        needs && h("br"),
        prose(needs && `It needs ${needs}.`),
      ),
    ]);
    const list = h("dl", { class: "mlb-impossible", tabindex: "0" }, said.flat());
    board.popover.open(currentTarget, "Presets that do not fit here", [list]);
    list.focus();
  };
  const names = impossible.map(({ label }) => label).join(", ");
  const hint = `${names}: what they are, and why they do not fit here.`;
  const look = { class: "mlb-button mlb-preset mlb-more-presets", "aria-haspopup": "dialog", "data-hint": hint };
  return h("button", { type: "button", ...look, onclick: open }, `${impossible.length} more`);
}
