/**
 * What can be done with a chip while it is held, in the place of the advice: whether its new axis is added to those that
 * shard it already, which Shift does in mid-drag, to change its size or name, and to put it back. Its place is kept, so
 * that nothing moves.
 */

import type { Board } from "./board.ts";
import { h } from "./dom.ts";
import { openDim } from "./edit.ts";

export function makeHeld(board: Board) {
  const onchange = ({ currentTarget }: { currentTarget: HTMLInputElement }) => setAdding(board, currentTarget.checked);
  const adding = h("input", { type: "checkbox", onchange });
  const back = h("button", { type: "button", class: "mlb-button", onclick: () => putBack(board) }, "Put back");
  const add = h("label", { class: "mlb-switch" }, adding, "add the axis to those it has (Shift)");
  const edit = h(
    "button",
    {
      type: "button",
      class: "mlb-button",
      "data-op": "edit_dim",
      "aria-haspopup": "dialog",
      onclick: () => editHeld(board),
    },
    "Size, name, pin … (F2)",
  );
  board.panels.held.append(add, ...(board.can("resize_dim") ? [edit] : []), back);
  return (on: boolean) => {
    board.panels.held.toggleAttribute("data-on", on);
    adding.checked = board.hand?.add ?? false;
  };
}

/** Opens what can be changed of the dim that is held, which is put back. */
export function editHeld(board: Board) {
  const { hand, root } = board;
  const chip = hand && root.querySelector<HTMLElement>(`.mlb-chip[aria-pressed="true"]`);
  if (chip) openDim(board, chip);
}

/** From here on a drop adds its axis, or takes the place of those that shard the dim, until the chip is let go. */
export function setAdding(board: Board, adding: boolean) {
  const { hand } = board;
  board.adding = adding;
  if (!hand) return;
  const how = adding ? "adds its mesh axis to those" : "replaces the mesh axes";
  board.say(`A drop ${how} of ${hand.dim}.`);
  board.aim(hand.target, false);
}

export function putBack(board: Board) {
  const { hand } = board;
  board.drag.clear();
  board.letGo();
  if (hand) board.say(`${hand.dim} is where it was.`);
}
