/**
 * What the board does while Python is silent: it can be read, it says so, and nothing on it asks Python for anything. What
 * is open stays open, and what was asked in vain is asked again once Python is heard.
 * While something is under way of which Python tells, it is asked from time to time whether it is still there: a kernel
 * that died in mid-run says nothing of it.
 */

import type { Board } from "./board.ts";
import { h, redraw } from "./dom.ts";
import { isSearching } from "./search.ts";
import { askedText } from "./sentences.ts";
import type { Job, View } from "./types.ts";

const BUSY =
  "Python does not answer: its kernel is busy with a cell, stopped or not connected. The board can only be read;" +
  " what was put back stays put back. Where the kernel was restarted, run the cell again.";
const HEARD = "Python answers again.";
const RESTARTED =
  "The kernel was restarted: run the cell again for a live board, which opens with this layout. This one can only be read.";

/** What stops something that Python is at work on. */
const STOPS = ["cancel", "cancel_auto", "stop_auto", "cancel_look", "cancel_profile"];
/** Phases of a run in which it goes on. */
export const ACTIVE = ["compiling", "running"];

/** Shows that Python is silent, or that it answers again. */
export function showSilence(board: Board, silent: boolean) {
  const { banner, heard } = board.panels;
  const { hand } = board;
  board.readOnly = silent;
  board.root.toggleAttribute("data-readonly", silent);
  board.drag?.clear();
  board.letGo();
  if (hand) board.say(`${hand.dim} was put back: Python does not answer.`, "refused");
  const again = h("button", { type: "button", class: "mlb-button", onclick: () => board.channel.hello() }, "Try again");
  // A kernel that was restarted knows nothing of this board: it would not answer.
  const { cut } = board.channel;
  redraw(banner, ...(silent ? [h("span", {}, cut ? RESTARTED : BUSY), !cut && again] : []));
  banner.hidden = !silent;
  // The banner is read out as it comes; that it goes is not.
  heard.textContent = silent ? "" : HEARD;
  board.stage.training.setSilent(silent);
  freeze(board);
  if (silent) return;
  board.focus.comeBack();
  sendAgain(board);
  board.charts.heard();
  board.popover.heard();
  board.reads.heard();
  board.asking.heard();
}

/**
 * Says what was not done, as Python did not answer in time, with a button that asks for it again. What was to stop
 * something is sent again by itself: it may never have reached Python, where the connection was just being made.
 */
export function sayLost(board: Board, op: string, args: Record<string, unknown>) {
  if (STOPS.includes(op)) {
    board.unheard = op;
    // Where Python is heard by now, nothing else will bring it there.
    if (!board.readOnly) sendAgain(board);
    return;
  }
  const again = h("button", { type: "button", class: "mlb-button", onclick: () => board.send(op, args) }, "Do it now");
  board.say(`Python did not answer, so this was not done: ${askedText(op, args)}.`, "refused", [again]);
  freeze(board);
}

/** Sends again what was to stop something, if that still goes on. */
function sendAgain(board: Board) {
  const { unheard } = board;
  board.unheard = "";
  if (unheard && isUnderWay(board.view, board.model.get("job"))) board.send(unheard);
}

/** While Python is silent, what would ask it for something does not react; what only shows something does. */
export function freeze({ root, readOnly, focus }: Board) {
  const asking =
    ":is(button, select, input):not([role=tab], .mlb-segment, .mlb-term, .mlb-badge, .mlb-banner *, .mlb-tour *, .mlb-program-tools *, .mlb-hop-controls *, .mlb-plot-tools *)";
  for (const control of root.querySelectorAll(asking)) control.toggleAttribute("inert", readOnly);
  if (readOnly) focus.leave();
}

/** @returns whether Python is at work on something of which it will tell */
export function isUnderWay(
  { pending, search, tracing, look, profile }: Pick<View, "pending" | "search" | "tracing" | "look" | "profile">,
  { current }: Job,
): boolean {
  const running = current !== null && ACTIVE.includes(current.phase);
  const asked = tracing?.phase === "tracing" || look?.phase === "working" || profile?.phase === "working";
  return running || pending || isSearching({ search }) || asked;
}
