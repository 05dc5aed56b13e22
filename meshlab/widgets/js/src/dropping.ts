/** The end of a drag, by whatever hand: the intent of the zone, or why it is refused, and where the focus goes. */

import type { Board } from "./board.ts";
import { axesAfter, dropIntent, partsOf, TRAY, verdict } from "./hand.ts";
import { drawInstead, focusArrived } from "./zones.ts";

/** Drops the chip where it is aimed; a zone that refuses it, or none, leaves everything as it was. */
export async function drop(board: Board) {
  const { hand, view } = board;
  if (!hand) return;
  const zone = hand.target;
  const said = zone === null ? null : verdict(view, hand, zone, board.prices.of(view, hand, zone));
  board.letGo();
  if (zone === null || said?.state === "here") {
    board.say(`${hand.dim} is where it was.`);
    return;
  }
  if (said?.state === "unrecorded") {
    board.say(`${said.note} ${said.refusal?.fix ?? ""}`);
    return;
  }
  if (said?.state === "refused") {
    const text = `Refused: ${said.note} ${said.refusal?.fix ?? ""}`;
    board.say(text, "refused", drawInstead(board, hand, zone, said.refusal));
    return;
  }
  const { op, args } = dropIntent(view, hand, zone);
  const goal = axesAfter(view, hand, zone).includes(partsOf(zone).axis) ? zone : TRAY;
  const answer = await board.send(op, args);
  if (answer?.kind !== "ack") return;
  board.arriving = { dim: hand.dim, zone: goal, by: hand.by };
  focusArrived(board);
}
