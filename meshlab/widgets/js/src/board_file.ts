/**
 * The board as a file: Save downloads what `explorer.save` writes, Open reads one that the reader picks. Python judges it:
 * what is wrong is said, all of it, and then nothing has changed.
 */

import type { Board } from "./board.ts";
import { h } from "./dom.ts";
import { blobOf, download, SILENT } from "./download.ts";
import { type Heard, refusalOf } from "./model.ts";
import type { SavedFile } from "./types.ts";

// Characters; 40 layouts of a large model have a hundredth of that.
const MOST = 2_000_000;

/** @param refuse shows why a file was not opened; with null nothing */
export function drawFile(board: Board, refuse: (answer: Heard | null) => void): HTMLElement | null {
  if (!board.can("open_saved")) return null;
  const picker = h("input", {
    type: "file",
    accept: ".json,application/json",
    hidden: true,
    onchange: ({ currentTarget }) => open(board, currentTarget, refuse),
  });
  const pick = ({ currentTarget }: { currentTarget: HTMLElement }) => {
    const beside = currentTarget.parentElement as HTMLElement;
    (beside.querySelector("input[type=file]") as HTMLInputElement).click();
  };
  const saving = "save the board with all that was tried, labels and notes, as explorer.save does";
  const opening = "open a board that was saved, with what was tried there";
  const look = { type: "button", class: "mlb-button" };
  return h(
    "span",
    { class: "mlb-board-file" },
    h("button", { ...look, "data-op": "save_board", title: saving, onclick: () => save(board) }, "Save …"),
    h("button", { ...look, "data-op": "open_saved", title: opening, onclick: pick }, "Open …"),
    picker,
  );
}

async function save(board: Board) {
  const answer = await board.channel.send("read", { what: "saved", args: {} });
  if (answer?.kind !== "read") return board.say(refusalOf(answer) || SILENT, "refused");
  const made = answer.data as SavedFile;
  download(made.file, blobOf(made));
  board.say(`Saved ${made.file}, ${made.said}.`, "done");
}

async function open(board: Board, picker: HTMLInputElement, refuse: (answer: Heard | null) => void) {
  const file = picker.files?.[0];
  if (!file) return;
  const text = file.size > MOST ? null : await file.text();
  // The same file can be picked again.
  picker.value = "";
  if (text === null) return board.say(`${file.name} is too large for a saved board.`, "refused");
  const answer = await board.send("open_saved", { document: text });
  if (answer?.kind === "nack") refuse(answer);
  else if (answer) {
    refuse(null);
    board.popover.element.hidePopover();
  }
}
