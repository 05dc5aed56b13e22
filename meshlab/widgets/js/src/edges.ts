/** Who sends to whom in the collective that is selected: arrows between the squares of devices. */

import type { Board } from "./board.ts";
import { h, s } from "./dom.ts";
import { bytes, exact } from "./format.ts";
import { markClass } from "./marks.ts";
import { nextNumber } from "./numbers.ts";
import type { Edge, Picture, Sends } from "./types.ts";

// More arrows than these cannot be told apart: those of one group are drawn then.
const MOST = 24;

/** @returns what is known of the collective that is selected; null where none is, or in a layout beside the board's */
function sendsOf(board: Board): Sends | null {
  const { reads, selection } = board;
  if (selection.collective === null || "isOther" in board) return null;
  const { data } = reads.of("sends", { collective: selection.collective });
  return data?.text ? data : null;
}

/** The arrows to draw: all, or where they are too many those of the group of one device. */
export function shownOf(edges: Edge[], device: number): Edge[] {
  if (edges.length <= MOST) return edges;
  const group = new Set([device]);
  for (let size = 0; size !== group.size; ) {
    size = group.size;
    for (const [from, to] of edges) {
      if (group.has(from)) group.add(to);
      else if (group.has(to)) group.add(from);
    }
  }
  return edges.filter(([from]) => group.has(from));
}

/**
 * A curve from one square to another, beside the one that goes back; what goes past others goes around their letters.
 * @param from the middle of a square
 */
export function curve(from: { x: number; y: number }, to: { x: number; y: number }, side: number): string {
  const [dx, dy] = [to.x - from.x, to.y - from.y];
  const long = Math.hypot(dx, dy) || 1;
  const [ux, uy] = [dx / long, dy / long];
  const gap = Math.min(side * 0.42, long * 0.3);
  const bend = long > 2 * side ? 1.5 * side : Math.min(14, long * 0.18);
  const x = (along: number, across: number) => from.x + ux * along - uy * across;
  const y = (along: number, across: number) => from.y + uy * along + ux * across;
  const point = (along: number, across: number) => `${x(along, across).toFixed(1)} ${y(along, across).toFixed(1)}`;
  return `M${point(gap, 3)}Q${point(long / 2, bend)} ${point(long - gap, 3)}`;
}

export function drawEdges(board: Board, { cells }: Picture): SVGElement | null {
  const sends = sendsOf(board);
  if (!sends?.edges.length || !cells.devices.length) return null;
  const at = new Map(cells.devices.map((device, i) => [device, i]));
  const middle = (cell: number) => ({ x: cells.x[cell] + cells.w / 2, y: cells.y[cell] + cells.h / 2 });
  const head = `mlb-arrow-${nextNumber("arrows")}`;
  const arrows = shownOf(sends.edges, board.selection.device ?? cells.devices[0]).flatMap(([from, to, count]) => {
    const [begin, end] = [at.get(from), at.get(to)];
    if (begin === undefined || end === undefined) return [];
    const d = curve(middle(begin), middle(end), Math.min(cells.w, cells.h));
    const words = `device ${exact(from)} sends ${bytes(count)} to device ${exact(to)}`;
    return [
      s(
        "path",
        { class: "mlb-edge", d, "marker-end": `url(#${head})`, "data-edge": `${from}-${to}` },
        s("title", {}, words),
      ),
    ];
  });
  const tip = { viewBox: "0 0 8 8", refX: 7, refY: 4, markerWidth: 4, markerHeight: 4, orient: "auto", id: head };
  return s(
    "g",
    { class: `mlb-edges ${markClass(board.view, sends.key)}`, role: "img", "aria-label": sends.text },
    s("defs", {}, s("marker", tip, s("path", { class: "mlb-edge-tip", d: "M0 0L8 4L0 8Z" }))),
    arrows,
  );
}

/** Whether arrows are drawn of another tensor than the one whose slices the squares are: these then have no letters. */
export function areOfAnother(board: Board, place: string): boolean {
  const sends = sendsOf(board);
  return sends !== null && sends.edges.length > 0 && sends.place !== place;
}

/** @returns what the arrows are, in words, and the way to the tensor that is sent */
export function drawSends(board: Board, place: string): HTMLElement | null {
  const sends = sendsOf(board);
  if (!sends) return null;
  const part = sends.edges.length > MOST;
  const more = part && board.selection.device === null ? " Drawn is one group; click a device for its own." : "";
  if (!areOfAnother(board, place)) return h("p", { class: "mlb-scope mlb-sends" }, `→ ${sends.text}${more}`);
  const go = () => board.send("select", { place: sends.place });
  const button = h("button", { type: "button", class: "mlb-button", onclick: go }, `Show ${sends.place}`);
  const other = sends.place
    ? [` It moves another tensor than ${place}, whose letters are left out. `, button]
    : [` What it moves is not stored anywhere: the letters of ${place} are left out.`];
  return h("p", { class: "mlb-scope mlb-sends" }, `→ ${sends.text}${more}`, other);
}
