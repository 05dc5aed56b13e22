/**
 * The whole board by keyboard. Space or Enter picks a chip up, arrows go through the zones that take it, Space or Enter
 * drops, Escape lets go, A adds the axis to those that the dim has; Delete takes a dim off its axis, F2 opens what can be
 * changed of it, P pins it, N keeps it off its axis in searches, and S a mesh axis silent; Ctrl+Z and Ctrl+Shift+Z undo and
 * redo. Without a chip in hand, arrows go from chip to chip; Enter selects a device or a collective, and H steps through
 * one. Escape ends the tour, gives the layout its room again, cancels a search, or else releases what is selected. Shift+P
 * is the presenter's larger type.
 *
 * Keys stop at the board: with a chip focused, JupyterLab would take "x" for "cut this cell". Notebook 7 takes keys before
 * the board hears of them, but for elements with `SUPPRESS`. Saving is the notebook's.
 */

import type { Board } from "./board.ts";
import { drop } from "./dropping.ts";
import { openDim, togglePin } from "./edit.ts";
import { type Arrow, TRAY } from "./hand.ts";
import { putBack, setAdding } from "./held.ts";
import { stepThrough } from "./hops.ts";
import { toggleNever, toggleSilent } from "./keeps.ts";
import { cancelSearch, isSearching } from "./search.ts";
import { choose, clear } from "./selection.ts";

const STEPS = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 } as Record<string, 1 | -1>;

const SUPPRESS = "data-lm-suppress-shortcuts";

/** @returns ends what listens outside the board */
export function listenToKeys(board: Board): () => void {
  const suppress = (event: KeyboardEvent) => board.root.toggleAttribute(SUPPRESS, !saves(event));
  window.addEventListener("keydown", suppress, true);
  board.root.addEventListener("keydown", (event) => {
    if (event.key === "Tab") {
      board.letGo();
      return;
    }
    if (saves(event)) return;
    event.stopPropagation();
    if (handled(board, event, event.ctrlKey || event.metaKey)) event.preventDefault();
  });
  return () => window.removeEventListener("keydown", suppress, true);
}

function saves(event: KeyboardEvent): boolean {
  return (event.ctrlKey || event.metaKey) && event.key.toLowerCase() === "s";
}

function handled(board: Board, event: KeyboardEvent, command: boolean): boolean {
  const target = event.target as HTMLElement;
  if (target.closest("input, select, textarea, .mlb-popover")) return false;
  if (command) return history(board, event);
  if (event.key === "Escape" && board.hint.hide()) return true;
  if (board.tour.heard(event, target)) return true;
  if (event.key === "Escape" && board.hand) {
    putBack(board);
    return true;
  }
  if (event.key === "Escape" && board.room.wide) {
    board.room.setWide(false);
    return true;
  }
  const letter = event.key.toLowerCase();
  if (letter === "p" && event.shiftKey) {
    present(board);
    return true;
  }
  if (event.key === "Escape" && isSearching(board.view)) {
    cancelSearch(board);
    return true;
  }
  if (event.key === "Escape" && clear(board)) return true;
  if (event.key === "Enter" && choose(board, target)) return true;
  const stop = target.closest("[data-device]");
  if (stop && event.key in STEPS) {
    const beside = STEPS[event.key] > 0 ? stop.nextElementSibling : stop.previousElementSibling;
    (beside as HTMLElement | null)?.focus();
    return true;
  }
  const axis = target.getAttribute("data-axis-row");
  if (axis && letter === "s") {
    toggleSilent(board, axis);
    return true;
  }
  const collective = target.closest("[data-collective]")?.getAttribute("data-collective") ?? board.selection.collective;
  if (letter === "h" && collective && !board.hand) {
    stepThrough(board, collective);
    return true;
  }
  const chip = target.closest(".mlb-chip") as HTMLElement | null;
  return chip ? onChip(board, event, chip) : false;
}

function present(board: Board) {
  const { room } = board;
  room.present(!room.presents);
  board.say(room.presents ? "Larger type, for a projector: Shift+P ends it." : "The type is as it was.");
}

function history(board: Board, event: KeyboardEvent): boolean {
  const key = event.key.toLowerCase();
  if (key !== "z" && key !== "y") return false;
  board.send(key === "y" || event.shiftKey ? "redo" : "undo");
  return true;
}

function onChip(board: Board, event: KeyboardEvent, chip: HTMLElement): boolean {
  const { dim = "", zone = "" } = chip.dataset;
  if (event.key === " " || event.key === "Enter") {
    if (board.hand) drop(board);
    else board.grab(dim, zone, "keyboard");
    return true;
  }
  if (event.key === "F2") {
    openDim(board, chip);
    return true;
  }
  if (event.key.toLowerCase() === "a" && board.hand) {
    setAdding(board, !board.hand.add);
    return true;
  }
  if (event.key.toLowerCase() === "p" && !board.hand) {
    togglePin(board, dim, zone);
    return true;
  }
  if (event.key.toLowerCase() === "n" && !board.hand) {
    toggleNever(board, dim, zone);
    return true;
  }
  if (event.key in STEPS) {
    if (board.hand) board.step(event.key as Arrow, event.shiftKey);
    else focusBeside(board, chip, STEPS[event.key]);
    return true;
  }
  if ((event.key === "Delete" || event.key === "Backspace") && zone !== TRAY && !board.hand) {
    // Held for no time: no prices are asked for, behind which it would have to wait.
    if (!board.readOnly) board.hand = { dim, from: zone, by: "keyboard", target: TRAY, add: false };
    drop(board);
    return true;
  }
  return false;
}

function focusBeside(board: Board, chip: HTMLElement, step: 1 | -1) {
  const chips = [...board.root.querySelectorAll(".mlb-chip:not(.mlb-ghost)")] as HTMLElement[];
  chips[(chips.indexOf(chip) + step + chips.length) % chips.length]?.focus();
}
