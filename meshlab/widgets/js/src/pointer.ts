/**
 * Dragging with mouse, touch and pen, by pointer events (native drag and drop knows no touch and meets the notebook's
 * own). The root captures the pointer, so that the board may be redrawn meanwhile. A press that does not move four
 * pixels is a click: it picks the chip up, and the next click on a zone drops it.
 */

import type { Board } from "./board.ts";
import { h } from "./dom.ts";
import { drop } from "./dropping.ts";
import { openDim } from "./edit.ts";
import { choose } from "./selection.ts";

const THRESHOLD = 4;
// How far from the pointer what is dragged stays, and how large it is where its name would cover a number.
const [AWAY, DOT] = [8, 12];

export class PointerDrag {
  board: Board;
  pressed: { x: number; y: number; id: number; dim: string; from: string; chip: HTMLElement } | null = null;
  ghost: HTMLElement | null = null;
  /** Where the pointer was last, and how large the ghost is with its name. */
  at = { x: 0, y: 0 };
  tag = { width: 0, height: 0 };

  constructor(board: Board) {
    this.board = board;
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

  /** Opens what can be changed of a dim. */
  open(event: MouseEvent) {
    const chip = (event.target as Element).closest(".mlb-chip") as HTMLElement | null;
    if (!chip || this.ghost) return;
    event.preventDefault();
    event.stopPropagation(); // the notebook has a menu of its own
    this.clear();
    openDim(this.board, chip);
  }

  over(event: PointerEvent) {
    const chip = (event.target as Element).closest(".mlb-chip") as HTMLElement | null;
    this.board.asking.rest(chip?.dataset.dim ?? null, chip?.dataset.zone ?? "");
  }

  down(event: PointerEvent) {
    const chip = (event.target as Element).closest(".mlb-chip") as HTMLElement | null;
    if (!chip || !event.isPrimary || event.button !== 0 || this.board.readOnly) return;
    const { dim = "", zone = "" } = chip.dataset;
    this.pressed = { x: event.clientX, y: event.clientY, id: event.pointerId, dim, from: zone, chip };
  }

  move(event: PointerEvent) {
    const start = this.pressed;
    if (!start || event.pointerId !== start.id) return;
    this.at = { x: event.clientX, y: event.clientY };
    if (!this.ghost) {
      if (Math.hypot(event.clientX - start.x, event.clientY - start.y) < THRESHOLD) return;
      this.begin(start);
    }
    this.board.aim(this.zoneAt(event), event.shiftKey);
    this.place();
  }

  begin(start: NonNullable<PointerDrag["pressed"]>) {
    this.board.root.setPointerCapture(start.id);
    this.ghost = h("div", { class: "mlb-ghost", "aria-hidden": "true" }, start.dim);
    this.board.root.append(this.ghost);
    const { offsetWidth: width, offsetHeight: height } = this.ghost;
    this.tag = { width, height };
    this.board.grab(start.dim, start.from, "pointer");
  }

  /** Puts what is dragged beside the pointer, with its name or as a dot, so that it covers nothing of what is aimed at. */
  place() {
    const { ghost, board } = this;
    if (!ghost) return;
    const said = [...board.panels.zones.querySelectorAll("[data-aim] .mlb-zone-note > *")];
    const spot = freeSpot(
      this.at,
      this.tag,
      said.map((each) => each.getBoundingClientRect()),
    );
    const box = board.root.getBoundingClientRect();
    ghost.toggleAttribute("data-dot", spot.width === DOT);
    ghost.style.transform = `translate(${spot.x - box.left}px, ${spot.y - box.top}px)`;
  }

  zoneAt(event: PointerEvent): string | null {
    const scope = this.board.root.getRootNode() as Document | ShadowRoot;
    const zone = scope.elementFromPoint(event.clientX, event.clientY)?.closest(".mlb-zone");
    return zone && this.board.root.contains(zone) ? zone.getAttribute("data-zone") : null;
  }

  up(event: PointerEvent) {
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

  click(event: MouseEvent) {
    const target = event.target as Element;
    const { hand } = this.board;
    const chip = target.closest(".mlb-chip") as HTMLElement | null;
    const zone = target.closest(".mlb-zone") as HTMLElement | null;
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

type Size = { width: number; height: number };
type Box = Size & { x: number; y: number };

/** @returns a place beside the pointer that covers none of the boxes: for the name, or else for a dot */
export function freeSpot(at: { x: number; y: number }, tag: Size, boxes: Box[]): Box {
  const spots = [tag, { width: DOT, height: DOT }].flatMap((size) =>
    [-1, 1].flatMap((down) =>
      [-1, 1].map((across) => ({
        ...size,
        x: at.x + (across < 0 ? -AWAY - size.width : AWAY),
        y: at.y + (down < 0 ? -AWAY - size.height : AWAY),
      })),
    ),
  );
  const free = spots.find((spot) => !boxes.some((box) => meet(spot, box)));
  // Between many numbers the dot goes above them all.
  return free ?? { width: DOT, height: DOT, x: at.x, y: Math.min(...boxes.map(({ y }) => y)) - AWAY - DOT };
}

function meet(one: Box, other: Box): boolean {
  const apart = one.x + one.width <= other.x || other.x + other.width <= one.x;
  return !apart && one.y < other.y + other.height && other.y < one.y + one.height;
}
