/**
 * One row of the step over time, in the page: a name, and a track with a button for each slice that is wide enough and a
 * path for all others (`step_blocks.ts`). Buttons stay while their slice is in sight, so that the focus does.
 */
import type { Board } from "./board.ts";
import { h, s } from "./dom.ts";
import { seconds } from "./format.ts";
import { axisLabel, markClass } from "./marks.ts";
import { measuredEnd } from "./profile.ts";
import { concerns } from "./selection.ts";
import { blocksOf, pathOf } from "./step_blocks.ts";
import type { Row } from "./step_rows.ts";
import type { Hit } from "./step_search.ts";
import type { Sight } from "./step_sight.ts";
import { nameOf, titleOf } from "./step_words.ts";

// Narrow slices have one of these: all others, hits of a search, and what is selected.
const TONES = ["mlb-narrow", "mlb-narrow", "mlb-narrow mlb-chosen"];
const [PLAIN, HIT, CHOSEN] = [0, 1, 2];
// Buttons are placed anew when all have moved so far, in pixels.
const FAR = 10_000;
// From this width on a slice has its name in it, in pixels.
const NAMED = 34;

/** What is marked in all rows. */
export type Marks = {
  /** The slice that is selected. */
  moment: Hit | null;
  hits: Map<Row, Set<number>>;
  /** The hit that was gone to last. */
  hit: Hit | null;
};

export class Lane {
  board: Board;
  row: Row;
  name: HTMLElement;
  track: HTMLElement;
  drawing: SVGElement;
  paths: SVGElement[];
  /** A bar above narrow hits. */
  flags = s("path", { class: "mlb-flags", transform: "scale(1 0.3)" });
  buttons = new Map<number, HTMLElement>();
  /** Where buttons are, on the sheet. */
  placed = new Map<number, string>();
  /** What buttons are marked by. */
  marked = new Map<number, Marks>();
  /** What moves buttons together: where none is added, and none cut by an edge, a pan changes it alone. */
  sheet: HTMLElement;
  origin: { from: number; scale: number } = { from: 0, scale: 0 };
  /** The button that the Tab key goes to. */
  first: HTMLElement | null = null;
  /** Whether every slice is a button: few came with the layout. */
  few: boolean;
  /** Seconds in which something runs in it. */
  busy: number;
  /** Whether there is room for sums. */
  big: boolean;
  pin: HTMLElementTagNameMap["button"] | null;

  constructor(
    board: Board,
    row: Row,
    { few, whole, big, pin }: { few: boolean; whole: number; big: boolean; pin: () => void },
  ) {
    this.board = board;
    this.row = row;
    this.few = few;
    this.big = big;
    const { shown } = this.named();
    this.busy = Array.from(row.seconds).reduce((sum, each) => sum + each, 0);
    const label = this.label(whole);
    const isFrame = row.key.startsWith("frame");
    const sum = big && !isFrame && h("b", { class: "mlb-lane-sum" }, this.sumText());
    this.pin = isFrame ? null : h("button", { type: "button", class: "mlb-pin-lane", onclick: pin }, "⇧");
    this.name = h("span", { class: "mlb-lane-name", title: label }, h("span", {}, shown), this.pin, sum);
    this.paths = TONES.map((tone) => s("path", { class: tone }));
    const still = { class: "mlb-narrows", "aria-hidden": "true", preserveAspectRatio: "none" };
    this.drawing = s("svg", still, this.paths, this.flags);
    this.sheet = h("div", { class: "mlb-lane-sheet" });
    const kind = row.lane === null ? (row.key === "exposed" ? "mlb-exposed" : "mlb-frames") : this.kind();
    this.track = h(
      "div",
      { class: `mlb-lane ${kind}`, role: "group", "aria-label": label, "data-lane": row.key },
      this.drawing,
      this.sheet,
    );
  }

  /** What the lane is, and for how long something runs in it. */
  label(whole: number): string {
    const { key } = this.row;
    const { said } = this.named();
    const long = `${seconds(this.busy)} of ${seconds(whole)}`;
    if (key.startsWith("frame")) return `${said}: what kernels are in`;
    return key === "exposed" ? `exposed: no kernel runs for ${long}` : `${said}: busy for ${long}`;
  }

  sumText(): string {
    return seconds(this.busy);
  }

  /** What a slice is, and what it took where that was measured. */
  titleOf(i: number): string {
    const { row, board } = this;
    return `${titleOf(row.facts(i), row.lane, row.seconds[i])}${measuredEnd(board, row, i)}`;
  }

  /** What stands in a slice that is wide enough. */
  nameOf(i: number): string {
    return nameOf(this.row.facts(i));
  }

  named(): { said: string; shown: Node | string } {
    const { row, board } = this;
    const frames = "loops, scopes, lines";
    if (row.key.startsWith("frame")) return { said: frames, shown: row.key === "frame 0" ? frames : "" };
    const lane = row.lane ? axisLabel(board.view, row.lane) : row.key;
    return { said: row.key, shown: lane };
  }

  setPinned(pinned: boolean) {
    const { pin, row } = this;
    if (!pin) return;
    pin.setAttribute("aria-pressed", String(pinned));
    pin.setAttribute("aria-label", `pin ${row.key} above all other lanes`);
    pin.title = pinned ? "let it go back to its place: P" : "pin it above all other lanes: P";
  }

  /** @returns whether there is a slice to focus */
  focusFirst(): boolean {
    const first = this.track.querySelector("button.mlb-segment") as HTMLElement | null;
    first?.focus({ preventScroll: true });
    return first !== null;
  }

  /** The class of its buttons. */
  partClass(): string {
    return this.row.lane === null ? "mlb-frame-part" : this.kind();
  }

  /** The class of what stands in it. */
  kind(): string {
    const { row, board } = this;
    return row.lane ? markClass(board.view, row.lane) : "mlb-kernel";
  }

  /**
   * Draws what is in sight.
   * @param width of the track, in pixels
   */
  paint(sight: Sight, width: number, marks: Marks) {
    const { row, board, buttons } = this;
    const { collective } = board.selection;
    const found = marks.hits.get(row);
    const focused = this.focused();
    const [hit, moment] = [marks.hit, marks.moment].map((each) => (each?.row === row ? each.i : -1));
    const tone = (i: number): number => {
      // What keys go from, and to, is a button however narrow it is.
      if (i === focused || i === hit || i === moment) return -1;
      if (collective !== null && row.known[row.of[i]]?.collective === collective) return CHOSEN;
      return found?.has(row.of[i]) ? HIT : PLAIN;
    };
    const { wide, narrow } = blocksOf(row, sight, width, {
      tones: TONES.length,
      tone,
      ...(this.few && { wide: 0 }),
    });
    for (const [number, path] of this.paths.entries()) path.setAttribute("d", pathOf(narrow[number]));
    this.flags.setAttribute("d", pathOf(narrow[HIT]));
    this.drawing.setAttribute("viewBox", `0 0 ${width} 1`);
    const drawn = new Set(wide);
    for (const [i, button] of buttons)
      if (!drawn.has(i)) {
        if (i === focused) (this.track.closest("[tabindex]") as HTMLElement | null)?.focus({ preventScroll: true });
        button.remove();
        buttons.delete(i);
        this.marked.delete(i);
        this.placed.delete(i);
      }
    const scale = width / (sight.to - sight.from);
    const moved = (this.origin.from - sight.from) * scale;
    if (this.origin.scale !== scale || Math.abs(moved) > FAR) this.origin = { from: sight.from, scale };
    const shift = (this.origin.from - sight.from) * scale;
    this.sheet.style.transform = `translateX(${shift.toFixed(2)}px)`;
    let last: Element | null = null;
    for (const i of wide) {
      const button = buttons.get(i) ?? this.button(i);
      const beside: Element | null = last ? last.nextElementSibling : this.sheet.firstElementChild;
      if (beside !== button) this.sheet.insertBefore(button, beside);
      last = button;
      this.place(button, i, shift, width);
      if (this.marked.get(i) !== marks) this.mark(button, i, marks, found);
      this.marked.set(i, marks);
    }
    const first = buttons.get(wide[0]) ?? null;
    if (first === this.first || row.key === "exposed") return;
    if (this.first) this.first.tabIndex = -1;
    if (first) first.tabIndex = 0;
    this.first = first;
  }

  /** Focuses a slice, which becomes a button where it was none. */
  focus(i: number) {
    const button = this.buttons.get(i) ?? this.button(i);
    if (!button.isConnected) this.sheet.append(button);
    button.focus({ preventScroll: true });
  }

  /** @returns the slice that has the keyboard focus; -1 for none */
  focused(): number {
    const root = this.track.getRootNode() as Document | ShadowRoot;
    const at = root.activeElement;
    return at && at.parentElement === this.sheet ? Number(at.getAttribute("data-slice")) : -1;
  }

  button(i: number): HTMLElement {
    const { row } = this;
    const facts = row.facts(i);
    const title = `${this.titleOf(i)}${facts.source && `, ${facts.source}`}`;
    if (row.key === "exposed") {
      const stretch = h("span", { class: "mlb-exposed-part", title, "data-slice": i });
      this.buttons.set(i, stretch);
      return stretch;
    }
    const button = h("button", {
      type: "button",
      tabindex: -1,
      class: `mlb-segment ${this.partClass()}`,
      title,
      "aria-label": title,
      "data-slice": i,
      "data-collective": facts.collective,
      "data-segment": row.id(i),
      "data-kind": facts.kind,
      "data-loop": facts.loop || null,
    });
    this.buttons.set(i, button);
    return button;
  }

  /** @param shift of the sheet, in pixels */
  place(button: HTMLElement, i: number, shift: number, width: number) {
    const { begin, end } = this.row;
    const { from, scale } = this.origin;
    // What is far beyond the edges of what is in sight is not drawn: its name stands where it is seen.
    const left = Math.max(-2 - shift, (begin[i] - from) * scale);
    const right = Math.min(width + 2 - shift, (end[i] - from) * scale);
    const there = `${left.toFixed(2)} ${right.toFixed(2)}`;
    if (this.placed.get(i) === there) return;
    this.placed.set(i, there);
    button.style.left = `${left.toFixed(2)}px`;
    button.style.width = `${Math.max(1, right - left).toFixed(2)}px`;
    const named = right - left >= NAMED && button.localName === "button";
    if (named && !button.firstChild) button.append(h("span", { class: "mlb-segment-name" }, this.nameOf(i)));
    if (!named && button.firstChild) button.replaceChildren();
  }

  mark(button: HTMLElement, i: number, { moment, hit }: Marks, found: Set<number> | undefined) {
    const { row, board } = this;
    if (button.localName !== "button") return;
    const { selection, view } = board;
    const is = (other: Hit | null) => other?.row === row && other.i === i;
    const collective = button.getAttribute("data-collective");
    button.setAttribute("aria-pressed", String(is(moment)));
    button.toggleAttribute("data-hit", found?.has(row.of[i]) ?? false);
    button.toggleAttribute("data-found", is(hit));
    if (!collective) return;
    if (collective === selection.collective) button.setAttribute("aria-current", "true");
    else button.removeAttribute("aria-current");
    const sent = selection.dim === null ? undefined : view.collectives.rows.find((each) => each.id === collective);
    button.toggleAttribute("data-related", sent !== undefined && concerns(sent, selection.dim));
  }
}
