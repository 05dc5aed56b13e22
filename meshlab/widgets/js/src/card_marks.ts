/**
 * What people say of a layout that was tried, its label and its note, written where it stands; and what deletes it. By
 * keyboard on a row: F2 opens the fields, Enter keeps what is in them, Escape does not; Delete deletes. Undo brings back
 * what was.
 */

import type { Board } from "./board.ts";
import { h } from "./dom.ts";
import type { Card } from "./types.ts";

/** Whether a layout cannot be deleted: it is on the board, or all others are compared with it. */
export function isHeld({ now, baseline }: Card): boolean {
  return now || baseline;
}

export function drawNote({ note }: Card): HTMLElement | false {
  return note !== undefined && h("p", { class: "mlb-card-note" }, note);
}

export function drawEdit(board: Board, card: Card): HTMLElement {
  const look = { type: "button", class: "mlb-button mlb-card-small", "data-edit-card": card.key };
  const said = { title: "label and note (F2)", "aria-label": `label and note of ${card.name}` };
  return h("button", { ...look, ...said, onclick: () => edit(board, card) }, "✎");
}

export function drawDelete(board: Board, card: Card): HTMLElement {
  const why = card.now ? "it is on the board" : card.baseline ? "all are compared with it" : "";
  return h(
    "button",
    {
      type: "button",
      class: "mlb-button mlb-card-small",
      "data-forget": card.key,
      "aria-disabled": why !== "" && "true",
      "data-hint": why ? `cannot be deleted: ${why}` : "delete it from this table (Delete); Undo brings it back",
      "aria-label": `delete ${card.name}`,
      onclick: () => why || forget(board, [card]),
    },
    "✕",
  );
}

/** Keys on a row. */
export function onCard(board: Board, card: Card, event: KeyboardEvent) {
  const target = event.target as HTMLElement;
  if (target.closest("input, textarea") || event.ctrlKey || event.metaKey || event.altKey) return;
  const does = { F2: () => board.can("label") && edit(board, card), Delete: () => forget(board, [card]) } as Record<
    string,
    () => unknown
  >;
  if (!does[event.key]) return;
  event.preventDefault();
  does[event.key]();
}

function edit(board: Board, card: Card) {
  board.chosen.cards.draft = { key: card.key, label: card.label ?? "", note: card.note ?? "" };
  board.stage.again("compare");
  (board.stage.body("compare").querySelector(".mlb-card-draft input") as HTMLInputElement | null)?.select();
}

/** Ends editing, and gives the keyboard back to the row. */
function close(board: Board, key: string) {
  board.chosen.cards.draft = null;
  board.stage.again("compare");
  focusRow(board, key);
}

function focusRow(board: Board, key: string) {
  const row = `[data-card="${CSS.escape(key)}"] [data-load]`;
  (board.stage.body("compare").querySelector(row) as HTMLElement | null)?.focus({ preventScroll: true });
}

/** The fields of a layout that is being named. */
export function drawDraft(board: Board, { key, name }: Card): HTMLElement {
  const draft = board.chosen.cards.draft ?? { key, label: "", note: "" };
  const keep = async () => {
    const { label, note } = draft;
    const answer = await board.send("label", { of: `#${key}`, label, note });
    if (answer?.kind === "ack") close(board, key);
  };
  const label = h("input", {
    "aria-label": `label of ${name}`,
    placeholder: "label",
    maxlength: 60,
    autocomplete: "off",
    value: draft.label,
    oninput: ({ currentTarget: { value } }) => {
      draft.label = value;
    },
  });
  const note = h(
    "textarea",
    {
      "aria-label": `note of ${name}`,
      placeholder: "note",
      maxlength: 1000,
      rows: 2,
      oninput: ({ currentTarget: { value } }) => {
        draft.note = value;
      },
    },
    draft.note,
  );
  return h(
    "form",
    {
      class: "mlb-card-draft",
      onsubmit: (event) => {
        event.preventDefault();
        keep();
      },
      onkeydown: (event) => {
        if (event.key === "Escape") close(board, key);
        // In a note Enter begins a line.
        else if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) keep();
        else return;
        event.preventDefault();
      },
    },
    label,
    note,
    h(
      "div",
      { class: "mlb-card-does" },
      h("button", { type: "submit", class: "mlb-button mlb-primary", title: "Enter; in the note Ctrl+Enter" }, "Keep"),
      h("button", { type: "button", class: "mlb-button", title: "Escape", onclick: () => close(board, key) }, "Cancel"),
    ),
  );
}

/** Deletes layouts; the keyboard goes to the row that takes the place of the first. */
export async function forget(board: Board, cards: Card[]) {
  if (!board.can("forget")) return;
  const rows = () => [...board.stage.body("compare").querySelectorAll<HTMLElement>("tr[data-card]")];
  const at = rows().findIndex((row) => row.dataset.card === cards[0]?.key);
  const answer = await board.send("forget", { of: cards.map(({ key }) => `#${key}`) });
  if (answer?.kind !== "ack") return;
  const left = rows();
  focusRow(board, left[Math.min(Math.max(at, 0), left.length - 1)]?.dataset.card ?? "");
}
