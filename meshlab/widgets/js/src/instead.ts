/** Why Python refuses, and what it would carry out instead, as buttons: on the status line and in a popover alike. */

import type { Board } from "./board.ts";
import { h } from "./dom.ts";
import type { Heard } from "./model.ts";

/** The buttons of an answer, each of which sends what is on it. */
export function drawOffers(
  board: Board,
  answer: Heard | null,
  send: (op: string, args: Record<string, unknown>) => unknown = (op, args) => board.send(op, args),
): HTMLElement[] {
  const offers = answer?.kind === "nack" ? (answer.instead ?? []) : [];
  return offers.map(({ label, op, args }) =>
    h("button", { type: "button", key: label, class: "mlb-button mlb-offer", onclick: () => send(op, args) }, label),
  );
}
