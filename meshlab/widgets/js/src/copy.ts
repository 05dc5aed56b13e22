/** The layout in other forms: its text, what the form cannot say, and the way to the clipboard. */

import type { Board } from "./board.ts";
import { h, prose, redraw } from "./dom.ts";
import { SILENT } from "./download.ts";
import { plural } from "./format.ts";
import { refusalOf } from "./model.ts";
import type { Form, Forms } from "./types.ts";

// The form that was chosen last, of every board on the page.
let latest = "Python";

/** @returns the part of the menu; `fill` asks Python for the texts */
export function drawCopy(board: Board): { element: HTMLElement; fill: () => Promise<void> } {
  const choices = h("div", { class: "mlb-forms", role: "radiogroup", "aria-label": "form" });
  const about = h("p", { class: "mlb-form-about" });
  const text = h("textarea", {
    class: "mlb-form-text",
    readonly: true,
    rows: 9,
    spellcheck: "false",
    "aria-label": "text",
  });
  const lost = h("div", { class: "mlb-form-lost", role: "status" });
  const cell = h("p", { class: "mlb-form-about" });
  const button = h(
    "button",
    { type: "submit", class: "mlb-button mlb-primary", "data-op": "copy", disabled: true },
    "Copy",
  );
  const element = h(
    "form",
    { class: "mlb-copy" },
    h("h4", {}, "Copy the layout as"),
    choices,
    about,
    text,
    lost,
    h("div", { class: "mlb-export-row" }, button, cell),
  );
  let known: { forms: Form[]; rev: number } = { forms: [], rev: -1 };

  const show = () => {
    const form = known.forms.find((each) => each.name === latest) ?? known.forms[0];
    redraw(about, prose(form.about));
    redraw(cell, drawCell(board, form));
    text.value = form.text;
    text.scrollTop = 0;
    button.disabled = form.text === "";
    redraw(lost, ...drawLost(form));
  };
  const ask = async (): Promise<boolean> => {
    const answer = await board.channel.send("read", { what: "forms", args: {} });
    if (answer === null) board.popover.missed(async () => (await ask()) && board.popover.place());
    if (answer?.kind !== "read") {
      redraw(lost, h("p", {}, refusalOf(answer) || SILENT));
      return false;
    }
    known = { forms: (answer.data as Forms).forms, rev: answer.rev };
    redraw(
      choices,
      known.forms.map((form) => choice(form, show)),
    );
    show();
    return true;
  };
  element.addEventListener("submit", async (event) => {
    event.preventDefault();
    // What is copied is what is on the board, whatever was on it when the menu was opened.
    if (known.rev !== board.revision && !(await ask())) return;
    if (await toClipboard(text)) {
      board.popover.element.hidePopover();
      board.say(`Copied the layout as ${latest}: ${plural(text.value.trimEnd().split("\n").length, "line")}.`, "done");
    } else {
      board.say("The browser does not let the page copy; the text is selected: press Ctrl+C, or ⌘C.", "refused");
    }
  });
  const fill = async () => {
    if (!(await ask())) return;
    board.popover.place();
    (choices.querySelector("input:checked") as HTMLElement | null)?.focus();
  };
  return { element, fill };
}

function choice({ name }: Form, show: () => void): HTMLElement {
  const choose = () => {
    latest = name;
    show();
  };
  const radio = { type: "radio", name: "form", value: name, checked: name === latest, onchange: choose };
  return h("label", {}, h("input", radio), h("span", {}, name));
}

/** What puts the text into a cell: a button could not, for notebooks take that from a cell that runs alone. */
function drawCell(board: Board, { name, text }: Form): (Node | string)[] {
  if (!text || !board.can("files")) return [];
  return ["or in a cell ", h("code", {}, `explorer.next_cell("${name}")`)];
}

function drawLost({ name, lost }: Form): (HTMLElement | null)[] {
  if (!lost.length) return [h("p", { class: "mlb-form-whole" }, "✓ Says all of the layout.")];
  return [
    h("p", {}, `${name} cannot say:`),
    h(
      "ul",
      {},
      lost.map((each) => h("li", {}, "✕ ", prose(each))),
    ),
  ];
}

/** @returns whether it is on the clipboard; otherwise it is selected */
export async function toClipboard(text: HTMLTextAreaElement | HTMLInputElement): Promise<boolean> {
  try {
    // There is none where the page does not come by HTTPS or from this machine.
    await navigator.clipboard.writeText(text.value);
    return true;
  } catch {
    text.focus();
    text.select();
    return document.execCommand("copy");
  }
}
