/**
 * The stage: tabs with one panel each. A panel is its name, its title, the parts of the view that it shows and what it asks
 * for itself (`PANELS` of meshlab/widgets/views/panels.py), and how its module draws it. What is hidden is drawn when it is
 * shown. A panel with `rows` shows two layouts side by side where another one was chosen: `draw` is called for each, `tools`
 * above and `foot` below are for both. `marked` is called when something else is selected.
 */
import { Below } from "./below.ts";
import { drawBeside } from "./beside.ts";
import type { Board } from "./board.ts";
import type { Row } from "./differences.ts";
import { h, redraw } from "./dom.ts";
import { fitHops } from "./hops.ts";
import { nextNumber } from "./numbers.ts";
import { PANELS } from "./panel_list.ts";
import { paintSelection } from "./selection.ts";
import { freeze } from "./silence.ts";
import { drawSpots } from "./spots.ts";
import { explained } from "./terms.ts";
import { Training } from "./training.ts";
import type { View } from "./types.ts";

type Draw = (board: Board) => (Node | null | false)[];
/** How a panel is drawn: what its module exports as `panel`. */
export type Drawing = {
  draw?: Draw;
  tools?: Draw;
  foot?: Draw;
  rows?: (mine: View, other: View) => Row[];
  busy?: (board: Board) => boolean;
  marked?: (board: Board) => void;
  /** What it asks for, without which it is not shown. */
  needs?: string;
  /** Whether it has no tab, and stands in a cell of its own alone. */
  alone?: boolean;
};
export type Panel = Drawing & { name: string; title: string; reads: string[] };

// The spots that follow a search while the revision stays: how far it is, and what it has found.
const SPOTS = ["search", "met", "way", "regrets"];

export class Stage {
  board: Board;
  shown = PANELS[0].name;
  latest: string;
  /** Whether Devices fills the tensor with the numbers of the latest run. */
  numbers = false;
  bodies = new Map<string, HTMLElement>();
  tabs = new Map<string, HTMLElement>();
  /** Panels to draw when they are shown. */
  stale: Set<string> = new Set(PANELS.map((panel) => panel.name));
  element: HTMLElementTagNameMap["div"];
  below: Below;
  training: Training;

  constructor(board: Board) {
    this.board = board;
    this.latest = this.shown;
    const number = nextNumber("stages");
    const id = (name: string) => `mlb-${number}-${name}`;
    for (const { name, title, alone, needs } of PANELS) {
      const tab = h(
        "button",
        {
          type: "button",
          class: "mlb-tab",
          role: "tab",
          id: id(`tab-${name}`),
          "data-tab": name,
          hidden: needs !== undefined && !board.can(needs),
          "aria-controls": id(name),
          onclick: () => this.show(name),
        },
        title,
      );
      const body = h("div", {
        class: `mlb-body mlb-${name}`,
        role: "tabpanel",
        id: id(name),
        "aria-labelledby": alone ? null : id(`tab-${name}`),
        "aria-label": alone ? title : null,
        tabindex: "0",
        "data-panel": name,
      });
      if (!alone) this.tabs.set(name, tab);
      this.bodies.set(name, body);
    }
    const tabs = h("div", { class: "mlb-tabs", role: "tablist", "aria-label": "views" }, [...this.tabs.values()]);
    tabs.addEventListener("keydown", (event) => this.turn(event));
    const head = h("div", { class: "mlb-stage-head" }, tabs, board.room.widen);
    this.element = h("div", { class: "mlb-stage" }, head, [...this.bodies.values()]);
    this.below = new Below(this.element, () => this.body(this.shown));
    this.training = new Training(board, this.body("run"));
    let wide = 0;
    new ResizeObserver(([{ contentRect }]) => {
      if (wide !== contentRect.width) fitHops(board);
      wide = contentRect.width;
    }).observe(this.element);
    this.show(this.asked || this.shown);
  }

  /** The tab that Python has sent the page to; "" for none. */
  get asked(): string {
    return this.board.model.get("tab")?.view ?? "";
  }

  /** The stage with one panel alone, without tabs. */
  alone(name: string): HTMLElement {
    this.element.querySelector(".mlb-stage-head")?.remove();
    this.show(name);
    return this.element;
  }

  body(name: string): HTMLElement {
    return this.bodies.get(name) as HTMLElement;
  }

  /** Shows a panel. */
  show(name: string) {
    this.shown = name;
    if (PANELS.some((panel) => panel.name === name && panel.rows)) this.latest = name;
    for (const [each, tab] of this.tabs) {
      tab.setAttribute("aria-selected", String(each === name));
      tab.setAttribute("tabindex", each === name ? "0" : "-1");
    }
    for (const [each, body] of this.bodies) body.hidden = each !== name;
    if (!this.board.ready) return;
    this.board.model.shows?.(name);
    if (this.stale.has(name)) this.board.reads.forget(PANELS.find((panel) => panel.name === name)?.reads ?? []);
    this.draw();
    this.marked();
    this.tellBusy();
  }

  /** Lets what is shown follow what is selected. */
  marked() {
    PANELS.find((each) => each.name === this.shown)?.marked?.(this.board);
  }

  /** Shows the latest of the panels that show two layouts side by side, and goes there. */
  showPair() {
    this.show(this.latest);
    this.tabs.get(this.latest)?.focus({ preventScroll: true });
  }

  /** Arrow keys go from tab to tab. */
  turn(event: KeyboardEvent) {
    const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (!step) return;
    const names = [...this.tabs].filter(([, tab]) => !tab.hidden).map(([name]) => name);
    const next = names[(names.indexOf(this.shown) + step + names.length) % names.length];
    this.show(next);
    this.tabs.get(next)?.focus();
    event.preventDefault();
  }

  /** Takes note of the parts of the view that changed, and draws what is shown of them. */
  changed(parts: string[]) {
    const further = parts.includes("search") && !parts.includes("rev");
    const whole = further ? parts.filter((part) => part !== "search") : parts;
    for (const panel of PANELS) if (panel.reads.some((part) => whole.includes(part))) this.stale.add(panel.name);
    if (further) return this.follow(SPOTS);
    this.draw();
    this.tellBusy();
  }

  /** Takes note of an answer: where a part of what is shown follows it, that alone is drawn again. */
  answered(what: string) {
    const { detail } = this.board.panels;
    if (drawSpots(detail, what)) this.board.remedies.watch();
    if (what === "step") {
      this.board.timeline.draw();
      this.board.marked();
    }
    this.follow([what]);
  }

  /** Draws again the spots of what is shown that follow something; where it has none, all of it. */
  follow(spots: string[]) {
    const body = this.body(this.shown);
    const drawn = !this.stale.has(this.shown) && spots.filter((what) => drawSpots(body, what)).length > 0;
    for (const { name, reads } of PANELS)
      if (!(drawn && name === this.shown) && spots.some((what) => reads.includes(what))) this.stale.add(name);
    if (drawn) this.finish();
    else this.draw();
    this.tellBusy();
  }

  /** Says of which panels more is on its way: worked out in Python, or asked for. */
  tellBusy() {
    const { board } = this;
    for (const { name, busy, reads } of PANELS)
      this.body(name).setAttribute("aria-busy", String(busy?.(board) || board.reads.waits(reads)));
  }

  /** Draws a panel again, of which something was chosen on the page. */
  again(name: string) {
    this.stale.add(name);
    this.draw();
  }

  /** Draws all panels again: type has another size. */
  redraw() {
    for (const { name } of PANELS) this.stale.add(name);
    this.draw();
  }

  draw() {
    const panel = PANELS.find((each) => each.name === this.shown);
    if (!panel?.draw || !this.stale.delete(panel.name)) return;
    const { board } = this;
    const pair = panel.rows && board.view.beside;
    const alone = () => [panel.tools, panel.draw, panel.foot].map((draw) => draw?.(board) ?? []);
    redraw(this.body(panel.name), explained(pair ? [drawBeside(board, panel)] : alone()));
    this.finish();
  }

  /** Gives what was drawn its marks. */
  finish() {
    const { board } = this;
    paintSelection(board);
    this.marked();
    board.remedies.watch();
    if (board.readOnly) freeze(board);
  }
}
