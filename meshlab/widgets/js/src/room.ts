/**
 * How the room is shared out, which each reader settles for a browser: where the divider between the layout and the views
 * stands, whether the views have the whole width for a while, and the presenter's larger type.
 */

import type { Board } from "./board.ts";
import { h } from "./dom.ts";
import { keep, kept } from "./remember.ts";

// Pixels of small type without a presenter.
const USUAL_TYPE = 12;
// The layout's share of the width, in percent: as it is until somebody moves it, and how far it goes.
const [USUAL, LEAST, MOST, STEP] = [57, 35, 75, 2];
const STEPS = { ArrowLeft: -STEP, ArrowRight: STEP, Home: LEAST - MOST, End: MOST - LEAST } as Record<string, number>;

export class Room {
  board: Board;
  divider = h("div", {
    class: "mlb-divider",
    role: "separator",
    tabindex: "0",
    "aria-orientation": "vertical",
    "aria-label": "divider between the layout and the views",
    "aria-valuemin": LEAST,
    "aria-valuemax": MOST,
    title: "drag, or press arrow keys; a double click puts it back",
  });
  widen = h("button", { type: "button", class: "mlb-widen", "aria-pressed": "false" }, "⤢");
  share: number;

  constructor(board: Board) {
    this.board = board;
    this.share = clamped(Number(kept("divider") ?? USUAL));
    this.place(this.share);
    board.root.toggleAttribute("data-presenter", kept("presenter") === "yes");
    this.setWide(false);
    this.widen.addEventListener("click", () => this.setWide(!this.wide));
    this.divider.addEventListener("pointerdown", (event) => this.drag(event));
    this.divider.addEventListener("dblclick", () => this.settle(USUAL));
    this.divider.addEventListener("keydown", (event) => {
      if (!(event.key in STEPS)) return;
      event.preventDefault();
      this.settle(this.share + STEPS[event.key]);
    });
  }

  /** Follows the pointer until it is let go; Escape, or whatever else takes the pointer, leaves it where it is. */
  drag(event: PointerEvent) {
    if (event.button !== 0) return;
    event.preventDefault(); // nothing is selected on the way
    const { divider } = this;
    const box = (divider.parentElement as HTMLElement).getBoundingClientRect();
    const follow = ({ clientX }: PointerEvent) => this.place(clamped((100 * (clientX - box.left)) / box.width));
    const end = () => {
      divider.removeEventListener("pointermove", follow);
      this.settle(this.share);
    };
    divider.setPointerCapture(event.pointerId);
    divider.addEventListener("pointermove", follow);
    divider.addEventListener("lostpointercapture", end, { once: true });
    divider.focus({ preventScroll: true });
  }

  place(share: number) {
    this.share = share;
    this.board.root.style.setProperty("--share", `${share.toFixed(1)}%`);
    this.divider.setAttribute("aria-valuenow", share.toFixed(0));
  }

  settle(share: number) {
    this.place(clamped(share));
    keep("divider", this.share === USUAL ? null : this.share.toFixed(1));
  }

  get wide(): boolean {
    return this.board.root.hasAttribute("data-wide");
  }

  /** Gives the views the whole width, or the layout its share again. */
  setWide(wide: boolean) {
    this.board.root.toggleAttribute("data-wide", wide);
    this.widen.setAttribute("aria-pressed", String(wide));
    const words = wide ? "show the layout again: Escape" : "show this view over the full width";
    this.widen.setAttribute("aria-label", words);
    this.widen.title = words;
  }

  get presents(): boolean {
    return this.board.root.hasAttribute("data-presenter");
  }

  /** Larger type, more contrast and less text, for a projector. */
  present(on: boolean) {
    this.board.root.toggleAttribute("data-presenter", on);
    keep("presenter", on ? "yes" : null);
    this.board.stage.redraw();
  }

  /** How large type is, 1 without a presenter. Drawings whose type grows with it have as many fewer units across. */
  get scale(): number {
    return Number.parseFloat(getComputedStyle(this.board.root).getPropertyValue("--small")) / USUAL_TYPE || 1;
  }
}

function clamped(share: number): number {
  return Math.min(MOST, Math.max(LEAST, share || USUAL));
}
