/**
 * What a board begins with where its cell has just run again: the layout that this browser saw last, and the offer of the
 * board that the notebook was saved with (meshlab/widgets/notebook/saved_outputs.py), where that is another.
 */

import type { Board } from "./board.ts";
import { h } from "./dom.ts";
import { plural } from "./format.ts";
import { remembered } from "./remember.ts";

/** What costs follow from of a document, as one text. */
export function askedOf(document: string): string {
  const { layout, machine, along, mesh, options, pad, resized, model = null } = JSON.parse(document);
  return JSON.stringify([layout, machine, along, mesh, options, pad, resized, model]);
}

export async function restore(board: Board) {
  const fresh = board.can("restore") && board.revision === 0;
  const last = fresh ? remembered(board.view.document, board.openedWith) : null;
  if (last !== null) {
    const answer = await board.channel.intent("restore", { document: last });
    if (answer?.kind === "ack") board.say("The layout from before is back. Undo goes to the one in the cell.", "done");
  }
  if (board.can("open_saved")) offer(board);
}

/** Says what was saved, with a button that takes it. */
function offer(board: Board) {
  const { offer: saved } = board.model.get("session");
  if (!saved) return;
  const { tried } = JSON.parse(saved.document);
  const count = tried?.layouts.length ?? 1;
  const another = askedOf(saved.document) !== board.asked;
  if (!another && count <= board.view.comparison.cards.length) return;
  const triedToo = count > 1 ? ` and ${plural(count, "tried layout")}` : "";
  const text = another
    ? `The notebook was saved with the layout ${saved.said}${triedToo}.`
    : `This layout was saved with ${plural(count, "tried layout")}.`;
  const take = () => board.send("open_saved", { document: saved.document });
  const look = { type: "button", class: "mlb-button mlb-offer", "data-op": "take_saved", onclick: take } as const;
  board.say(text, "plain", [h("button", look, another ? "Take it" : "Take them")]);
}
