// @ts-check
/**
 * Dragging with mouse, touch and pen, by pointer events (native drag and drop knows no touch and meets the notebook's
 * own). The root captures the pointer, so that the board may be redrawn meanwhile. A press that does not move four
 * pixels is a click: it picks the chip up, and the next click on a zone drops it.
 */

import { drop } from "./dropping.js";
import { openDim } from "./edit.js";
import { choose } from "./selection.js";

const THRESHOLD = 4;

/** @typedef {import("./board.js").Board} Board */

export class PointerDrag {
  /** @param {Board} board */
  constructor(board) {
    this.board = board;
    /** @type {{x: number, y: number, id: number, dim: string, from: string, chip: HTMLElement} | null} */
    this.pressed = null;
    /** @type {HTMLElement | null} */
    this.ghost = null;
    const { root } = board;
    root.addEventListener("pointerdown", (event) => this.down(event));
    root.addEventListener("pointermove", (event) => this.move(event));
    root.addEventListener("pointerup", (event) => this.up(event));
    root.addEventListener("pointercancel", () => this.abort());
    root.addEventListener("click", (event) => this.click(event));
    root.addEventListener("pointerover", (event) => this.over(event));
    root.addEventListener("dblclick", (event) => this.open(event));
    root.addEventListener("contextmenu", (event) => this.open(event));
  }

  /**
   * Opens what can be changed of a dim.
   * @param {MouseEvent} event
   */
  open(event) {
    const chip = /** @type {HTMLElement | null} */ (/** @type {Element} */ (event.target).closest(".mlb-chip"));
    if (!chip || this.ghost) return;
    event.preventDefault();
    this.clear();
    openDim(this.board, chip);
  }

  /** @param {PointerEvent} event */
  over(event) {
    const chip = /** @type {HTMLElement | null} */ (/** @type {Element} */ (event.target).closest(".mlb-chip"));
    this.board.asking.rest(chip?.dataset.dim ?? null, chip?.dataset.zone ?? "");
  }

  /** @param {PointerEvent} event */
  down(event) {
    const chip = /** @type {HTMLElement | null} */ (/** @type {Element} */ (event.target).closest(".mlb-chip"));
    if (!chip || !event.isPrimary || event.button !== 0 || this.board.readOnly) return;
    const { dim = "", zone = "" } = chip.dataset;
    this.pressed = { x: event.clientX, y: event.clientY, id: event.pointerId, dim, from: zone, chip };
  }

  /** @param {PointerEvent} event */
  move(event) {
    const start = this.pressed;
    if (!start || event.pointerId !== start.id) return;
    if (!this.ghost) {
      if (Math.hypot(event.clientX - start.x, event.clientY - start.y) < THRESHOLD) return;
      this.begin(start);
    }
    this.follow(event);
    this.board.aim(this.zoneAt(event), event.shiftKey);
  }

  /** @param {NonNullable<PointerDrag["pressed"]>} start */
  begin(start) {
    this.board.root.setPointerCapture(start.id);
    this.ghost = /** @type {HTMLElement} */ (start.chip.cloneNode(true));
    this.ghost.removeAttribute("data-key");
    this.ghost.setAttribute("aria-hidden", "true");
    this.ghost.setAttribute("tabindex", "-1");
    this.ghost.classList.add("mlb-ghost");
    this.board.root.append(this.ghost);
    this.board.grab(start.dim, start.from, "pointer");
  }

  /** @param {PointerEvent} event */
  follow(event) {
    if (!this.ghost) return;
    const box = this.board.root.getBoundingClientRect();
    this.ghost.style.left = `${event.clientX - box.left}px`;
    this.ghost.style.top = `${event.clientY - box.top}px`;
  }

  /**
   * @param {PointerEvent} event
   * @returns {string | null}
   */
  zoneAt(event) {
    const scope = /** @type {Document | ShadowRoot} */ (this.board.root.getRootNode());
    const zone = scope.elementFromPoint(event.clientX, event.clientY)?.closest(".mlb-zone");
    return zone && this.board.root.contains(zone) ? zone.getAttribute("data-zone") : null;
  }

  /** @param {PointerEvent} event */
  up(event) {
    if (!this.pressed || event.pointerId !== this.pressed.id) return;
    const dragged = this.ghost !== null;
    this.clear();
    if (!dragged) return;
    this.board.aim(this.zoneAt(event), event.shiftKey);
    drop(this.board);
  }

  abort() {
    if (this.ghost) this.board.letGo();
    this.clear();
  }

  clear() {
    this.ghost?.remove();
    this.ghost = null;
    this.pressed = null;
  }

  /** @param {MouseEvent} event */
  click(event) {
    const target = /** @type {Element} */ (event.target);
    const { hand } = this.board;
    const chip = /** @type {HTMLElement | null} */ (target.closest(".mlb-chip"));
    const zone = /** @type {HTMLElement | null} */ (target.closest(".mlb-zone"));
    if (hand?.by === "click" && zone && !(chip && chip.dataset.dim === hand.dim)) {
      this.board.aim(zone.dataset.zone ?? null, event.shiftKey);
      drop(this.board);
    } else if (choose(this.board, target)) {
      return;
    } else if (chip) {
      const again = hand && hand.dim === chip.dataset.dim && hand.from === chip.dataset.zone;
      if (hand) this.board.letGo();
      if (!again) this.board.grab(chip.dataset.dim ?? "", chip.dataset.zone ?? "", "click");
    }
  }
}
