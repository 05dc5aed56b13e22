/**
 * The popover of the board: one dialog at a time, beside what opened it. Escape and a click elsewhere close it, and the
 * keyboard goes back to where it was. What it sends is refused in it, and closes it otherwise. It stays while Python is
 * silent, and then asks again for what it still waits for.
 */

import type { Board } from "./board.ts";
import { h, prose } from "./dom.ts";
import { drawOffers } from "./instead.ts";
import { type Heard, refusalOf } from "./model.ts";
import { followSizes, type Sizing } from "./sizes.ts";

const GAP = 4;

export class Popover {
  board: Board;
  opener: HTMLElement | null = null;
  /** The slider of sizes in it, and what draws its list of models. */
  sizing: Sizing | null = null;
  models: (() => void) | null = null;
  /** What it has asked for in vain, as functions that ask again. */
  unheard: (() => unknown)[] = [];
  refusal = h("p", { class: "mlb-error", role: "alert" });
  element = h("div", { class: "mlb-popover", popover: "auto", role: "dialog", tabindex: -1 });

  constructor(board: Board) {
    this.board = board;
    this.element.addEventListener("toggle", (event) => {
      if ((event as ToggleEvent).newState === "closed") this.giveBack();
    });
    // What was refused is said of what was sent, not of what is typed next.
    this.element.addEventListener("input", () => this.refusal.replaceChildren());
    board.root.append(this.element);
  }

  /** Opens it below an element. */
  open(opener: HTMLElement, title: string, children: (Node | null)[]) {
    const { element, board } = this;
    if (board.readOnly) return;
    board.letGo();
    board.hint.hide();
    this.opener?.removeAttribute("data-opened");
    this.opener = opener;
    opener.setAttribute("data-opened", "");
    this.refusal.replaceChildren();
    element.setAttribute("aria-label", title);
    element.replaceChildren(h("h3", {}, title));
    for (const child of [...children, this.refusal]) if (child) element.append(child);
    element.showPopover();
    this.place();
    (element.querySelector("input, select, button:not(:disabled)") as HTMLElement | null)?.focus();
  }

  /** Puts it below its opener, or above, wherever it has room. */
  place() {
    const { element, opener } = this;
    if (!opener?.isConnected) return;
    const [from, box] = [opener.getBoundingClientRect(), element.getBoundingClientRect()];
    const below = from.bottom + GAP;
    const top = below + box.height > window.innerHeight ? from.top - GAP - box.height : below;
    element.style.left = `${Math.max(GAP, Math.min(from.left, window.innerWidth - box.width - GAP))}px`;
    element.style.top = `${Math.max(GAP, Math.min(top, window.innerHeight - box.height - GAP))}px`;
  }

  /** Sends an intent; closes where it is carried out. */
  async send(op: string, args: Record<string, unknown>) {
    const answer = await this.board.send(op, args);
    if (answer?.kind === "ack") this.element.hidePopover();
    else if (answer) this.refuse(answer);
  }

  /** Says why something is refused, with buttons for what would be carried out. */
  refuse(answer: Heard) {
    const offers = drawOffers(this.board, answer, (op, args) => this.send(op, args));
    const line = offers.length ? [h("span", { class: "mlb-offers" }, offers)] : [];
    this.refusal.replaceChildren(...prose(refusalOf(answer)), ...line);
    this.place();
  }

  /** Takes note of what Python did not answer. */
  missed(ask: () => unknown) {
    this.unheard.push(ask);
  }

  /** Asks again for what Python did not answer. */
  heard() {
    const { unheard } = this;
    this.unheard = [];
    for (const ask of unheard) ask();
  }

  /** Draws again what follows the board: its slider of sizes, and its list of models. */
  changed(parts: string[]) {
    followSizes(this.board, parts);
    if (parts.includes("models")) this.models?.();
  }

  /** Sends an intent, and stays. */
  async take(op: string, args: Record<string, unknown>) {
    const answer = await this.board.send(op, args);
    if (answer?.kind === "ack") this.refusal.replaceChildren();
    else if (answer) this.refuse(answer);
  }

  /** Gives the keyboard back to what opened it; where that is gone, to the board. */
  giveBack() {
    if (this.sizing) this.board.channel.intent("cancel_curve", {});
    this.sizing = null;
    this.models = null;
    this.unheard = [];
    const { root, focus } = this.board;
    const { focused } = focus;
    const heir = this.opener?.isConnected ? this.opener : root;
    if (focused && focused !== document.body && !this.element.contains(focused)) focus.pass(this.element, heir);
    else focus.give(heir);
  }

  /**
   * A line of fields with a button, which sends what is in them.
   * @param label on the button
   * @param fields inputs by name
   */
  line(
    op: string,
    label: string,
    fields: (Node | string)[],
    args: (values: Record<string, string>) => Record<string, unknown>,
  ): HTMLFormElement {
    const button = h("button", { type: "submit", class: "mlb-button" }, label);
    const form = h("form", { class: "mlb-popover-line", "data-edit": op }, ...fields, button);
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      const values = Object.fromEntries([...new FormData(form)].map(([name, value]) => [name, String(value)]));
      this.send(op, args(values));
    });
    return form;
  }
}

/** @returns a field with its label */
export function field(name: string, label: string, value: string | number): HTMLElement {
  const number = typeof value === "number";
  const kind = number ? { type: "number", min: 1, step: 1 } : { type: "text", maxlength: 80, spellcheck: "false" };
  return h("label", {}, label, h("input", { name, value, required: true, autocomplete: "off", ...kind }));
}
