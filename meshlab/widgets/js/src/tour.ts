/**
 * The tour: five cards, each beside the part of the board that it is about. A browser shows it once, as soon as a third of
 * a board is in sight, and after the prediction if the board asks for one; Help starts it again. The board can be used
 * meanwhile. In a card Enter and arrow keys go on and back; Escape ends the tour. A page that cannot remember that it was
 * shown does not start it by itself.
 */
import type { Board } from "./board.ts";
import { h, prose, redraw } from "./dom.ts";
import { nextNumber } from "./numbers.ts";
import { keep, kept } from "./remember.ts";

/** A card: the part that it is about, as a selector, and what it says. */
type Stop = { at: string; title: string; text: string };

const STOPS: Stop[] = [
  {
    at: ".mlb-tray",
    title: "Dims",
    text: "Each chip is a dim of the program. Drag it onto a mesh axis; or, by keyboard, press Enter on it, choose a zone with arrow keys, and press Enter again.",
  },
  {
    at: ".mlb-grid-of-zones",
    title: "Mesh axes",
    text: "Each row is a mesh axis: a dim on it is sharded over its devices. While you hold a dim, each zone says what a drop would change. ★ marks the best; ✕ is refused, and the line below says why.",
  },
  {
    at: ".mlb-score",
    title: "What it costs",
    text: "What each device holds, sends and computes, and on a machine the time of a step, with what a drop would change. Underlined words explain themselves: point at them, or press Tab.",
  },
  {
    at: ".mlb-stage",
    title: "Why it costs that",
    text: "Traffic lists each collective with its cause and what would remove it. Memory and Time say what most of the peak and of the step is. Devices shows which slice each device holds.",
  },
];
const HELP =
  "Undo takes every change back. `?` in the header starts this tour again, and lists the keys and the words of the board.";
const AIDS: Stop = {
  at: ".mlb-advices",
  title: "Presets and Auto",
  text: `Presets are the layouts of the literature, and combine. Auto finds the fastest layout that fits, and says how close to the optimum it is. ${HELP}`,
};
const ALONE: Stop = { at: ".mlb-header > .mlb-tools", title: "Take it back", text: HELP };

const STEPS = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 } as Record<string, number>;
// Pixels around a card, and the share of the board that is in sight where a tour begins by itself.
const [GAP, SEEN] = [10, 0.3];

export class Tour {
  board: Board;
  /** The number of the card that is shown; -1 for none. */
  at = -1;
  /** The part that the card is about. */
  part: Element | null = null;
  /** What had the keyboard before. */
  before: HTMLElement | null = null;
  id = `mlb-tour-${nextNumber("tours")}`;
  element = h("div", {
    class: "mlb-tour",
    popover: "manual",
    role: "dialog",
    "aria-labelledby": this.id,
    tabindex: -1,
  });
  sight: IntersectionObserver | null = null;
  /** Hides the card while its part is scrolled away, or the notebook is behind another. */
  away = new IntersectionObserver((seen) => {
    this.element.style.visibility = seen.at(-1)?.isIntersecting ? "" : "hidden";
  });
  follow = () => this.place();

  constructor(board: Board) {
    this.board = board;
    board.root.append(this.element);
  }

  /** Starts it once the board is in sight, if this browser has not shown it; not on a view alone, nor over a question. */
  offer() {
    const { root } = this.board;
    if (kept("tour") || !root.querySelector(".mlb-frame") || root.hasAttribute("data-locked")) return;
    this.sight = new IntersectionObserver(
      ([{ isIntersecting }]) => {
        if (!isIntersecting) return;
        this.sight?.disconnect();
        if (kept("tour")) return;
        keep("tour", "seen");
        if (kept("tour")) this.start(false);
      },
      { threshold: SEEN },
    );
    this.sight.observe(root);
  }

  /** @param asked whether the reader has asked for it: then the keyboard goes there, whoever has it */
  start(asked: boolean) {
    if (this.at >= 0) this.end();
    const focused = this.focused;
    this.before = asked ? this.board.root.querySelector('[data-op="help"]') : focused;
    this.board.room.setWide(false);
    this.element.showPopover();
    this.show(0);
    for (const event of ["scroll", "resize"]) window.addEventListener(event, this.follow, true);
    // Somebody who types elsewhere goes on typing.
    if (asked || !focused || focused === document.body || this.board.root.contains(focused))
      this.element.querySelector<HTMLElement>("[data-tour-next]")?.focus({ preventScroll: true });
  }

  /** @returns whether it was shown */
  end(): boolean {
    if (this.at < 0) return false;
    const [inside, { before }] = [this.element.contains(this.focused), this];
    this.at = -1;
    this.away.disconnect();
    this.part?.removeAttribute("data-tour");
    for (const event of ["scroll", "resize"]) window.removeEventListener(event, this.follow, true);
    this.element.hidePopover();
    if (inside)
      (before?.isConnected && before !== document.body ? before : this.board.root).focus({ preventScroll: true });
    return true;
  }

  close() {
    this.sight?.disconnect();
    this.end();
  }

  /** @returns whether a key was for it */
  heard({ key }: KeyboardEvent, target: HTMLElement): boolean {
    const inside = this.element.contains(target);
    // A chip that is held is put back first.
    if (key === "Escape" && (inside || !this.board.hand)) return this.end();
    if (this.at < 0 || !inside) return false;
    // A button that has the keyboard is pressed by Enter anyway.
    const step = STEPS[key] ?? (key === "Enter" && !target.closest("button") ? 1 : 0);
    if (step) this.go(step);
    return step !== 0;
  }

  go(step: number) {
    if (this.at + step >= this.stops.length) this.end();
    else if (this.at + step >= 0) this.show(this.at + step);
  }

  /** Where the board has no Auto, in an exercise say, the last card is about the header. */
  get stops(): Stop[] {
    return [...STOPS, this.board.root.querySelector(".mlb-auto")?.checkVisibility() ? AIDS : ALONE];
  }

  get focused(): HTMLElement | null {
    return (this.board.root.getRootNode() as Document | ShadowRoot).activeElement as HTMLElement | null;
  }

  show(at: number) {
    const { board, stops } = this;
    const { title, text, at: selector } = stops[at];
    this.at = at;
    this.part?.removeAttribute("data-tour");
    this.part = board.root.querySelector(selector);
    this.part?.setAttribute("data-tour", "");
    this.away.disconnect();
    if (this.part) this.away.observe(this.part);
    const last = at === stops.length - 1;
    const button = (label: string, onclick: () => unknown, look: object = {}) =>
      h("button", { type: "button", class: "mlb-button", key: label, onclick, ...look }, label);
    redraw(
      this.element,
      h("h3", { id: this.id }, title),
      h("p", { "aria-live": "polite" }, prose(text)),
      h(
        "div",
        { class: "mlb-tour-foot" },
        h("span", {}, `${at + 1} of ${stops.length}`),
        button("Skip", () => this.end(), { hidden: last }),
        button("Back", () => this.go(-1), { disabled: at === 0 }),
        button(last ? "Done" : "Next", () => this.go(1), {
          key: "next",
          class: "mlb-button mlb-primary",
          "data-tour-next": "",
        }),
      ),
    );
    this.part?.scrollIntoView({ block: "nearest" });
    this.place();
  }

  /** Puts the card beside its part: on the board if it fits there, else elsewhere in the window, or into its corner. */
  place() {
    const { element, part, board } = this;
    const [box, of] = [element.getBoundingClientRect(), (part ?? board.root).getBoundingClientRect()];
    const [right, bottom] = [window.innerWidth - box.width - GAP, window.innerHeight - box.height - GAP];
    const within = (value: number, most: number) => Math.max(GAP, Math.min(value, most));
    const [left, top] = [within(of.left, right), within(of.top, bottom)];
    const places = [
      [of.right + GAP, top],
      [of.left - GAP - box.width, top],
      [left, of.bottom + GAP],
      [left, of.top - GAP - box.height],
    ];
    const fits = ([x, y]: number[]) => x >= GAP && y >= GAP && x <= right && y <= bottom;
    const around = board.root.getBoundingClientRect();
    const onBoard = ([x]: number[]) => x >= around.left && x + box.width <= around.right;
    const [x, y] = places.find((at) => fits(at) && onBoard(at)) ?? places.find(fits) ?? [right, bottom];
    element.style.left = `${x}px`;
    element.style.top = `${y}px`;
  }
}
