/** Traffic: what is sent over each axis, by which collectives and lines, and from whom to whom. */
import { drawCollectives } from "./collectives.ts";
import { drawCommunication, drawLines } from "./communication.ts";
import { trafficRows } from "./differences.ts";
import { h } from "./dom.ts";
import { markHops } from "./hops.ts";
import { drawMatrix } from "./matrix.ts";
import type { Drawing } from "./stage.ts";
import { drawXla } from "./xla.ts";

export const panel: Drawing = {
  draw: (board) => [
    ...drawCommunication(board),
    h("h4", {}, "collectives, and why"),
    ...drawCollectives(board),
    ...drawLines(board),
  ],
  foot: (board) => [...drawMatrix(board), ...drawXla(board)],
  rows: trafficRows,
  marked: markHops,
};
