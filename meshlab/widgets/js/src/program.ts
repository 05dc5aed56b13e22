/**
 * The program: the steps of the plan as a tree (`program_tree.ts`), of which only the rows in sight are in the page; or
 * XLA's program for the same shardings. The tree has the keyboard focus, and says which row is active; a search and a filter stand above it, and all of the active
 * row below. What is selected in another view is opened and brought into sight.
 */

import type { Board } from "./board.ts";
import { h, redraw } from "./dom.ts";
import { exact, plural } from "./format.ts";
import { nextNumber } from "./numbers.ts";
import { FILTERS, makeFrame, type Whose } from "./program_frame.ts";
import { drawDetails, drawRow, heightOf } from "./program_rows.ts";
import { type Filter, firstBeyond, nextHit, Tree } from "./program_tree.ts";
import { choose } from "./selection.ts";
import type { Drawing } from "./stage.ts";
import { explained } from "./terms.ts";
import { drawUncompiled, isCompiled } from "./xla.ts";

// Rows beyond the edges that are drawn as well, and the height of a tree that was not yet laid out, in pixels.
const MARGIN = 120;
const UNKNOWN = 700;

const programs: WeakMap<Board, Program> = new WeakMap();

function programOf(board: Board): Program {
  const program = programs.get(board) ?? new Program(board);
  programs.set(board, program);
  return program;
}

export function drawProgram(board: Board): (HTMLElement | null)[] {
  return programOf(board).draw();
}

/** Marks what is selected, and brings a collective that was selected elsewhere into sight. */
export function markProgram(board: Board) {
  programOf(board).follow();
}

/**
 * The numbers of the rows that the filter leaves, for a file.
 * @returns null for all of them
 */
export function keptNodes(board: Board): number[] | null {
  const { kept, whose } = programOf(board);
  return whose === "program" && kept ? [...kept.keys()].filter((i) => kept[i]) : null;
}

export class Program {
  board: Board;
  number = nextNumber("programs");
  tree: Tree | null = null;
  /** What was opened and closed by hand, by name. */
  chosen = new Map<string, boolean>();
  open: Uint8Array = new Uint8Array(0);
  kept: Uint8Array | null = null;
  filter: Filter = "all";
  whose: Whose = "program";
  rows: number[] = [];
  /** Where each row ends, in pixels. */
  ends = new Float64Array(0);
  siblings = new Map<number, { level: number; place: number; of: number }>();
  active = -1;
  hits: number[] = [];
  /** The same. */
  found = new Set<number>();
  /** The collective that was brought into sight last. */
  followed: string | null = null;
  /** The dim that was marked last. */
  marked: string | null = null;
  /** Whether all is painted in the end anyway. */
  busy = false;
  frame: ReturnType<typeof makeFrame>;

  constructor(board: Board) {
    this.board = board;
    this.frame = makeFrame(this);
    new ResizeObserver(() => this.paint()).observe(this.frame.list);
  }

  draw(): (HTMLElement | null)[] {
    const { tools, whose } = this.frame;
    whose.hidden = this.board.readOnly || !this.board.can("xla");
    if (this.whose === "inserted" && !isCompiled(this.board)) return [tools, ...drawUncompiled(this.board)];
    const { data, error, fresh } = this.board.reads.of(this.whose);
    if (error) return [tools, h("p", { class: "mlb-error" }, error)];
    if (!data) return [h("p", { class: "mlb-none mlb-reading", role: "status" }, "Reading the steps of the plan…")];
    this.busy = true;
    if (this.tree?.data !== data) this.take(new Tree(data));
    this.busy = false;
    this.paint();
    this.frame.list.setAttribute("data-fresh", String(fresh));
    return [tools, this.frame.list, this.frame.detail];
  }

  /** Shows the plan, or XLA's program. */
  show(whose: Whose) {
    this.whose = whose;
    this.board.stage.answered(whose);
  }

  /** Shows another tree: what was opened by hand stays open where there is the same. */
  take(tree: Tree) {
    this.tree = tree;
    this.active = -1;
    this.choose(this.filter);
    this.find();
  }

  /** Shows steps of one kind, all of them open. */
  choose(filter: Filter) {
    const { tree } = this;
    if (!tree) return;
    this.filter = filter;
    this.kept = tree.filtered(filter);
    this.open = this.kept ? this.kept.slice() : tree.opened(this.chosen);
    if (this.frame.input.value) this.find();
    this.arrange();
  }

  /** Works out which rows there are, and where. */
  arrange() {
    const { tree } = this;
    if (!tree) return;
    this.rows = tree.visible(this.open, this.kept);
    this.ends = new Float64Array(this.rows.length);
    this.siblings = new Map();
    const counts: Map<number, number> = new Map();
    let end = 0;
    for (const [i, index] of this.rows.entries()) {
      end += heightOf(tree.node(index));
      this.ends[i] = end;
      const under = tree.under(index, this.open);
      const place = (counts.get(under) ?? 0) + 1;
      counts.set(under, place);
      this.siblings.set(index, { level: tree.level(index, this.open), place, of: 0 });
    }
    for (const [index, each] of this.siblings) each.of = counts.get(tree.under(index, this.open)) ?? 1;
    this.frame.space.style.height = `${end}px`;
    this.frame.list.hidden = this.rows.length === 0;
    this.paint();
  }

  /** Draws the rows in sight. */
  paint() {
    const { tree, rows, ends } = this;
    const { list } = this.frame;
    if (!tree || this.busy) return;
    const from = firstBeyond(ends, list.scrollTop - MARGIN);
    const to = firstBeyond(ends, list.scrollTop + (list.clientHeight || UNKNOWN) + MARGIN);
    const drawn = rows.slice(from, to + 1).map((index, i) => {
      const top = from + i ? ends[from + i - 1] : 0;
      const at = this.siblings.get(index) ?? { level: 0, place: 1, of: 1 };
      const state = { open: this.open[index] > 0, active: index === this.active, hit: this.found.has(index) };
      const row = { index, ...state, id: this.id(index), top, ...at };
      return drawRow(this.board, tree, row);
    });
    redraw(this.frame.space, drawn);
    const there = drawn.some((row) => row.id === this.id(this.active));
    if (there) list.setAttribute("aria-activedescendant", this.id(this.active));
    else list.removeAttribute("aria-activedescendant");
    redraw(this.frame.detail, explained(this.active < 0 ? [this.none()] : drawDetails(this.board, tree, this.active)));
  }

  none(): string {
    if (!this.rows.length)
      return this.filter === "all" ? "There are no steps." : `There are no ${FILTERS[this.filter]}.`;
    return "Click a row: all of it is said here. Arrow keys open and close.";
  }

  id(index: number): string {
    return `mlb-program-${this.number}-${index}`;
  }

  // The rows

  fold(index: number, open: boolean) {
    const { tree } = this;
    if (!tree?.folds(index)) return;
    this.open[index] = Number(open);
    if (this.filter === "all") {
      for (const [name, node] of tree.names()) if (node === index) this.chosen.set(name, open);
    }
    this.arrange();
  }

  /** Makes a row the active one, opens what it is in, and brings it into sight. */
  go(index: number) {
    const { tree } = this;
    const { list } = this.frame;
    if (!tree || index < 0) return;
    this.active = index;
    const shown = this.siblings.has(index);
    const closed = shown ? [] : tree.above(index).filter((each) => !this.open[each]);
    for (const each of closed) this.open[each] = 1;
    if (closed.length) this.arrange();
    const at = this.rows.indexOf(index);
    const [top, bottom] = [at > 0 ? this.ends[at - 1] : 0, this.ends[at]];
    if (top < list.scrollTop || bottom > list.scrollTop + list.clientHeight)
      list.scrollTop = Math.max(0, top - list.clientHeight / 3);
    this.paint();
  }

  /** Marks what is selected, and brings a collective that was selected elsewhere into sight. */
  follow() {
    const { tree, followed } = this;
    if (!tree) return;
    const { collective, dim } = this.board.selection;
    if (collective === followed && dim === this.marked) return;
    this.followed = collective;
    this.marked = dim;
    const node = collective === null ? undefined : tree.nodeOf.get(collective);
    if (node !== undefined && collective !== followed) {
      if (this.kept && !this.kept[node]) this.choose("all");
      this.frame.picker.value = this.filter;
      this.go(node);
    } else this.paint();
  }

  onClick(event: MouseEvent): void {
    const row = (event.target as Element).closest("[data-row]");
    if (!row) return;
    const index = Number(row.getAttribute("data-row"));
    this.active = index;
    this.frame.list.focus({ preventScroll: true });
    if (this.tree?.folds(index)) this.fold(index, !this.open[index]);
    else this.paint();
  }

  /** Up, down, Home, End; right opens or goes in, left closes or goes out; Enter and space do what a click does. */
  onKey(event: KeyboardEvent) {
    const { tree, rows } = this;
    if (!tree || event.ctrlKey || event.metaKey || event.altKey) return;
    const at = rows.indexOf(this.active);
    const last = rows.length - 1;
    const index = rows[at];
    const steps = {
      ArrowDown: () => this.go(rows[Math.min(at + 1, last)]),
      ArrowUp: () => this.go(rows[Math.max(at - 1, 0)]),
      PageDown: () => this.go(rows[Math.min(at + 12, last)]),
      PageUp: () => this.go(rows[Math.max(at - 12, 0)]),
      Home: () => this.go(rows[0]),
      End: () => this.go(rows[last]),
      ArrowRight: () => {
        if (at >= 0 && tree.folds(index)) this.open[index] ? this.go(rows[at + 1]) : this.fold(index, true);
      },
      ArrowLeft: () => {
        if (at < 0) return;
        if (tree.folds(index) && this.open[index]) this.fold(index, false);
        else this.go(Math.max(tree.under(index, this.open), 0));
      },
      Enter: () => this.press(index),
      " ": () => this.press(index),
    } as Record<string, () => void>;
    const step = steps[event.key];
    if (!step) return;
    step();
    event.preventDefault();
    event.stopPropagation();
  }

  press(index: number | undefined) {
    if (index === undefined) return;
    const row = this.frame.space.querySelector(`[data-row="${index}"]`);
    if (row && this.tree?.node(index).collective?.id) choose(this.board, row);
    else this.fold(index, !this.open[index]);
  }

  // The search

  /** Looks for what is written. */
  find() {
    this.hits = this.tree?.search(this.frame.input.value, this.kept) ?? [];
    this.found = new Set(this.hits);
    // A row that was chosen before and is no hit would look like one.
    if (this.found.size && !this.found.has(this.active)) this.active = -1;
    this.sayHits();
    this.paint();
  }

  sayHits() {
    const at = this.hits.indexOf(this.active);
    const { length } = this.hits;
    const count = `${at < 0 ? "" : `${exact(at + 1)} of `}${plural(length, "hit")}`;
    this.frame.found.textContent = this.frame.input.value.trim() ? (length ? count : "no hits") : "";
  }

  /** Goes to the next hit, or the one before. */
  goOn(step: 1 | -1) {
    this.go(nextHit(this.hits, this.active, step));
    this.sayHits();
  }

  onFind(event: KeyboardEvent) {
    if (event.key !== "Enter") return;
    this.goOn(event.shiftKey ? -1 : 1);
    event.preventDefault();
  }
}

export const panel: Drawing = { draw: drawProgram, marked: markProgram };
