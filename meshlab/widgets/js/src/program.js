// @ts-check
/**
 * The program: the steps of the plan as a tree (`program_tree.js`), of which only the rows in sight are in the page. The
 * tree has the keyboard focus, and says which row is active; a search and a filter stand above it, and all of the active
 * row below. What is selected in another view is opened and brought into sight.
 */
import { h, redraw } from "./dom.js";
import { exact, plural } from "./format.js";
import { nextNumber } from "./numbers.js";
import { FILTERS, makeFrame } from "./program_frame.js";
import { drawDetails, drawRow, heightOf } from "./program_rows.js";
import { tableOf } from "./program_table.js";
import { firstBeyond, nextHit, Tree } from "./program_tree.js";
import { choose } from "./selection.js";
import { explain } from "./terms.js";

/**
 * @typedef {import("./board.js").Board} Board
 * @typedef {import("./program_tree.js").Filter} Filter
 */

// Rows beyond the edges that are drawn as well, and the height of a tree that was not yet laid out, in pixels.
const MARGIN = 120;
const UNKNOWN = 700;

/** @type {WeakMap<Board, Program>} */
const programs = new WeakMap();

/**
 * @param {Board} board
 * @returns {Program}
 */
function programOf(board) {
  const program = programs.get(board) ?? new Program(board);
  programs.set(board, program);
  return program;
}

/**
 * @param {Board} board
 * @returns {HTMLElement[]}
 */
export function drawProgram(board) {
  return programOf(board).draw();
}

/**
 * Marks what is selected, and brings a collective that was selected elsewhere into sight.
 * @param {Board} board
 */
export function markProgram(board) {
  programOf(board).follow();
}

/**
 * The rows that the filter leaves, for a file.
 * @param {Board} board
 * @returns {string[][]} none before they have come
 */
export function programTable(board) {
  const { tree, kept } = programOf(board);
  return tree ? tableOf(tree, kept) : [];
}

export class Program {
  /** @param {Board} board */
  constructor(board) {
    this.board = board;
    this.number = nextNumber("programs");
    /** @type {Tree | null} */
    this.tree = null;
    /** @type {Map<string, boolean>} what was opened and closed by hand, by name */
    this.chosen = new Map();
    /** @type {Uint8Array} */
    this.open = new Uint8Array(0);
    /** @type {Uint8Array | null} */
    this.kept = null;
    /** @type {Filter} */
    this.filter = "all";
    /** @type {number[]} */
    this.rows = [];
    /** Where each row ends, in pixels. */
    this.ends = new Float64Array(0);
    /** @type {Map<number, {level: number, place: number, of: number}>} */
    this.siblings = new Map();
    this.active = -1;
    /** @type {number[]} */
    this.hits = [];
    /** @type {Set<number>} the same */
    this.found = new Set();
    /** @type {string | null} the collective that was brought into sight last */
    this.followed = null;
    /** @type {string | null} the dim that was marked last */
    this.marked = null;
    /** Whether all is painted in the end anyway. */
    this.busy = false;
    this.frame = makeFrame(this);
    new ResizeObserver(() => this.paint()).observe(this.frame.list);
  }

  /** @returns {HTMLElement[]} */
  draw() {
    const { data, error, fresh } = this.board.reads.of("program");
    if (error) return [h("p", { class: "mlb-error" }, error)];
    if (!data) return [h("p", { class: "mlb-none mlb-reading", role: "status" }, "Reading the steps of the plan…")];
    this.busy = true;
    if (this.tree?.data !== data) this.take(new Tree(data));
    this.busy = false;
    this.paint();
    this.frame.list.setAttribute("data-fresh", String(fresh));
    return [this.frame.tools, this.frame.list, this.frame.detail];
  }

  /**
   * Shows another tree: what was opened by hand stays open where there is the same.
   * @param {Tree} tree
   */
  take(tree) {
    this.tree = tree;
    this.active = -1;
    this.choose(this.filter);
    this.find();
  }

  /**
   * Shows steps of one kind, all of them open.
   * @param {Filter} filter
   */
  choose(filter) {
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
    /** @type {Map<number, number>} */
    const counts = new Map();
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
    this.frame.space.replaceChildren(...drawn);
    const there = drawn.some((row) => row.id === this.id(this.active));
    if (there) list.setAttribute("aria-activedescendant", this.id(this.active));
    else list.removeAttribute("aria-activedescendant");
    redraw(this.frame.detail, this.active < 0 ? this.none() : drawDetails(this.board, tree, this.active));
    explain(this.frame.detail);
  }

  /** @returns {string} */
  none() {
    if (!this.rows.length)
      return this.filter === "all" ? "The plan has no steps." : `There are no ${FILTERS[this.filter]}.`;
    return "Click a row: all of it is said here. Arrow keys open and close.";
  }

  /**
   * @param {number} index
   * @returns {string}
   */
  id(index) {
    return `mlb-program-${this.number}-${index}`;
  }

  // The rows

  /**
   * @param {number} index
   * @param {boolean} open
   */
  fold(index, open) {
    const { tree } = this;
    if (!tree?.folds(index)) return;
    this.open[index] = Number(open);
    if (this.filter === "all") {
      for (const [name, node] of tree.names()) if (node === index) this.chosen.set(name, open);
    }
    this.arrange();
  }

  /**
   * Makes a row the active one, opens what it is in, and brings it into sight.
   * @param {number} index
   */
  go(index) {
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

  /** @param {MouseEvent} event */
  onClick(event) {
    const row = /** @type {Element} */ (event.target).closest("[data-row]");
    if (!row) return;
    const index = Number(row.getAttribute("data-row"));
    this.active = index;
    this.frame.list.focus({ preventScroll: true });
    if (this.tree?.folds(index)) this.fold(index, !this.open[index]);
    else this.paint();
  }

  /**
   * Up, down, Home, End; right opens or goes in, left closes or goes out; Enter and space do what a click does.
   * @param {KeyboardEvent} event
   */
  onKey(event) {
    const { tree, rows } = this;
    if (!tree || event.ctrlKey || event.metaKey || event.altKey) return;
    const at = rows.indexOf(this.active);
    const last = rows.length - 1;
    const index = rows[at];
    const steps = /** @type {Record<string, () => void>} */ ({
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
    });
    const step = steps[event.key];
    if (!step) return;
    step();
    event.preventDefault();
    event.stopPropagation();
  }

  /** @param {number | undefined} index */
  press(index) {
    if (index === undefined) return;
    const row = this.frame.space.querySelector(`[data-row="${index}"]`);
    if (row && this.tree?.node(index).collective) choose(this.board, row);
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

  /**
   * Goes to the next hit, or the one before.
   * @param {1 | -1} step
   */
  goOn(step) {
    this.go(nextHit(this.hits, this.active, step));
    this.sayHits();
  }

  /** @param {KeyboardEvent} event */
  onFind(event) {
    if (event.key !== "Enter") return;
    this.goOn(event.shiftKey ? -1 : 1);
    event.preventDefault();
  }
}
