/**
 * One moment of a collective as a picture: a row for each device, in it the pieces that it has, each in a cell of its own,
 * and beside the rows arrows for what is sent. What is the same data has the same colour, pattern and letter as in Devices;
 * of a piece that is summed a row of marks says how many devices' addends it has.
 */
import { h, s } from "./dom.ts";
import { bytes, exact, letter } from "./format.ts";
import { hopAt, type State, stateAt } from "./hop_states.ts";
import { identity } from "./identity.ts";
import { markClass } from "./marks.ts";
import { nextNumber } from "./numbers.ts";
import { type Box, drawSlice, type Look, patterns, rangesText } from "./slices.ts";
import type { Hops, Slices, View } from "./types.ts";

// Pixels: the names of devices, the arrows beside the rows, a line of cells, the gap between rows, and what is above them.
const [NAMES, ARROWS, LINE, GAP, TOP] = [64, 86, 26, 8, 18];
// Where there is less room than this, arrows have less of it.
const [NARROW, FEW] = [380, 60];
// The width of a cell from which on it has room for its letter, for its sum as well, and for that in words.
const [LETTERED, SUMMED, WORDED] = [10, 48, 76];
// The width of a cell from which on it has marks of its sum, and that of a mark that is seen by itself.
const [MARKED, MARK] = [5, 5];

type Shown = { hops: Hops; slices: Slices; position: number; state: State; wide: number; beside: number; look: Look };

/**
 * @param width how many pixels there are for it
 * @param device the one that is selected
 * @param scale how large it is drawn, with all that is in it
 */
export function drawHopPicture(
  view: View,
  hops: Hops,
  position: number,
  width: number,
  device: number | null,
  scale: number,
) {
  const { devices, lines, columns, slices } = hops;
  if (!slices || !devices.length) return null;
  const room = width / scale;
  const beside = room < NARROW ? FEW : ARROWS;
  const wide = Math.min(Math.max((room - NAMES - beside) / columns, 1), 120);
  const { defs, look } = patterns(wide < LETTERED);
  const shown = { hops, slices, position, state: stateAt(hops, position), wide, beside, look };
  const tall = (lines.length || 1) * LINE;
  const rows = devices.map((each, row) => drawRow(shown, each, TOP + row * (tall + GAP), each === device));
  const size = { w: NAMES + columns * wide + beside, h: TOP + devices.length * (tall + GAP) };
  return h(
    "div",
    { class: `mlb-hop-picture ${markClass(view, hops.key)}` },
    s(
      "svg",
      {
        viewBox: `0 0 ${size.w.toFixed(1)} ${size.h}`,
        style: `--wide: ${(scale * size.w).toFixed(1)}px`,
        role: "img",
        "aria-label": pictureText(hops, shown.state),
      },
      defs,
      rows,
      drawArrows(shown, NAMES + columns * wide + 4, tall),
    ),
  );
}

/** What each device has, for those who do not see it. */
export function pictureText(hops: Hops, state: State): string {
  const rows = hops.devices.map((device) => {
    const held = [...(state.get(device) ?? [])].map(([piece, { addends }]) => shortText(hops, piece, addends));
    return `device ${exact(device)} has ${held.join(", ") || "nothing"}`;
  });
  return `${rows.join("; ")}.`;
}

/** @returns its letter, or of a part that is no slice its number, and how much of a sum it is */
function shortText(hops: Hops, piece: number, addends: number): string {
  const [slice] = hops.pieces[piece];
  const name = hops.parts === "numbers" ? exact(slice + 1) : letter(slice);
  return hops.sums ? `${name} Σ ${exact(addends)} of ${exact(hops.size)}` : name;
}

function drawRow(shown: Shown, device: number, top: number, selected: boolean): SVGElement {
  const { hops, state, wide, position } = shown;
  const arrived = new Map(
    (hopAt(hops, position)?.transfers ?? [])
      .filter(([from, to]) => to === device && from !== to)
      .map((t) => [t[2], t[0]]),
  );
  const held = state.get(device) ?? new Map();
  const cells: Map<number, number> = new Map(
    [...held].map(([piece, { came }]) => [hops.pieces[piece][came ? 2 : 1], piece]),
  );
  const count = hops.columns * (hops.lines.length || 1);
  return s(
    "g",
    { class: "mlb-hop-row", "data-of": device },
    s(
      "text",
      { class: `mlb-hop-name${selected ? " mlb-hop-selected" : ""}`, x: 0, y: top + 17 },
      `device ${exact(device)}`,
    ),
    hops.lines
      .slice(1)
      .map((line, i) => s("text", { class: "mlb-hop-line", x: 0, y: top + (i + 1) * LINE + 16 }, line)),
    Array.from({ length: count }, (_, cell) => {
      const at = { x: NAMES + (cell % hops.columns) * wide, y: top + Math.floor(cell / hops.columns) * LINE };
      const box = { ...at, w: Math.max(wide - 2, wide * 0.9), h: LINE - 2 };
      const piece = cells.get(cell);
      if (piece === undefined) return s("rect", { ...rect(box), class: "mlb-hop-empty", rx: 3 });
      return drawPiece(shown, device, piece, box, held.get(piece)?.addends ?? 1, arrived.get(piece));
    }),
  );
}

const rect = ({ x, y, w, h: height }: Box) => ({ x: x.toFixed(2), y, width: w.toFixed(2), height });

/** @param from the device from which it has just come */
function drawPiece(
  { hops, slices, look }: Shown,
  device: number,
  piece: number,
  box: Box,
  addends: number,
  from: number | undefined,
): SVGElement {
  const [slice] = hops.pieces[piece];
  const ranges = hops.parts === "devices" ? "" : `: ${rangesText(slices, slice)}`;
  const said = `device ${exact(device)} has ${shortText(hops, piece, addends)}${ranges}`;
  const came = from === undefined ? "" : `, just got from device ${exact(from)}`;
  const { fill, ink } = identity(slices, slice, look.small);
  return s(
    "g",
    {
      class: `mlb-hop-piece${from === undefined ? "" : " mlb-hop-new"}`,
      "data-piece": piece,
      "data-from": from ?? null,
    },
    s("title", {}, `${said}${came}`),
    drawSlice(slices, slice, box, look, 1),
    drawWords(hops, slice, addends, box, { fill, ink }),
    hops.sums && box.w >= MARKED && drawAddends(hops.size, addends, box, ink),
    s("rect", { ...rect(box), class: "mlb-hop-frame", rx: 3 }),
  );
}

/** The letter of a piece, and as far as there is room how much of a sum it is. */
function drawWords(hops: Hops, slice: number, addends: number, box: Box, { fill, ink }: { fill: string; ink: string }) {
  if (box.w < LETTERED) return null;
  const name = hops.parts === "numbers" ? exact(slice + 1) : letter(slice);
  const sum = box.w >= WORDED ? `Σ ${exact(addends)} of ${exact(hops.size)}` : `${exact(addends)}/${exact(hops.size)}`;
  const both = hops.sums && box.w >= SUMMED;
  const look = {
    fill: ink,
    stroke: fill,
    class: "mlb-letter",
    "aria-hidden": "true",
    y: box.y + (hops.sums ? 10.5 : 12.5),
  };
  const size = Math.min(13, (1.04 * box.w) / name.length);
  const x = box.x + box.w / 2;
  if (!both) return s("text", { ...look, x, "font-size": size.toFixed(1) }, name);
  const half = box.w >= WORDED ? 30 : 15;
  return [
    s("text", { ...look, x: x - half, "font-size": size.toFixed(1) }, name),
    s("text", { ...look, x: x + 9, "font-size": 11 }, sum),
  ] as unknown as SVGElement;
}

/** A mark for each device of a group, full where its addend is in the sum; where they would be too narrow, one bar. */
function drawAddends(size: number, addends: number, { x, y, w, h: tall }: Box, ink: string): SVGElement {
  const inset = Math.min(3, w / 8);
  const each = (w - 2 * inset) / size;
  const [full, empty] = [{ fill: ink, "data-in": "" }, { fill: "none" }];
  if (each < MARK) {
    const bar = { x: x + inset, y: y + tall - 6, height: 4, rx: 1 };
    return s(
      "g",
      { class: "mlb-hop-addends", "aria-hidden": "true", stroke: ink },
      s("rect", { ...bar, ...empty, width: w - 2 * inset }),
      s("rect", { ...bar, ...full, width: each * addends }),
    );
  }
  return s(
    "g",
    { class: "mlb-hop-addends", "aria-hidden": "true", stroke: ink },
    Array.from({ length: size }, (_, i) => {
      const box = {
        x: (x + inset + i * each).toFixed(2),
        y: y + tall - 6,
        width: Math.max(each - 1, 0.8).toFixed(2),
        height: 4,
      };
      return s("rect", { ...box, rx: 1, ...(i < addends ? full : empty) });
    }),
  );
}

/** Arrows beside the rows, and the bytes of each above them. */
function drawArrows({ hops, position, beside }: Shown, left: number, tall: number): SVGElement | null {
  const hop = hopAt(hops, position);
  if (!hop) return null;
  const rows = new Map(hops.devices.map((device, row) => [device, TOP + row * (tall + GAP) + tall / 2]));
  const far = Math.max(1, (hops.devices.length - 1) * (tall + GAP));
  const tip = `mlb-hop-tip-${nextNumber("hop tips")}`;
  const marker = { viewBox: "0 0 8 8", refX: 7, refY: 4, markerWidth: 4, markerHeight: 4, orient: "auto", id: tip };
  const arrows = hop.transfers.flatMap(([from, to, piece]) => {
    if (from === to) return [];
    const [start, end] = [rows.get(from), rows.get(to)];
    const what = `device ${exact(from)} sends ${bytes(hop.bytes)} to device ${exact(to)}: ${shortText({ ...hops, sums: false }, piece, 1)}`;
    if (start === undefined || end === undefined) return drawStub(left, start, end, from, to);
    return [
      s(
        "path",
        {
          class: "mlb-edge",
          d: arc(left, start, end, (beside - 30) / far),
          "marker-end": `url(#${tip})`,
          "data-edge": `${from}-${to}`,
        },
        s("title", {}, what),
      ),
    ];
  });
  return s(
    "g",
    { class: "mlb-hop-arrows" },
    s("defs", {}, s("marker", marker, s("path", { class: "mlb-edge-tip", d: "M0 0L8 4L0 8Z" }))),
    s(
      "text",
      { class: "mlb-hop-bytes", x: left + beside - 4, y: 11, "text-anchor": "end" },
      `→ ${bytes(hop.bytes)} each`,
    ),
    arrows,
  );
}

/** A curve from one row to another; the further they are apart the wider. The one back is wider, beside it. */
function arc(left: number, start: number, end: number, rise: number): string {
  const up = end < start;
  const out = 12 + rise * Math.abs(end - start) + (up ? 6 : 0);
  const apart = up ? -5 : 5;
  return `M${left} ${start + apart}C${left + out} ${start + apart} ${left + out} ${end - apart} ${left + 1} ${end - apart}`;
}

/** What goes to a device that is not drawn, or comes from one, in words. */
function drawStub(left: number, start: number | undefined, end: number | undefined, from: number, to: number) {
  const word = (y: number, text: string) => s("text", { class: "mlb-hop-stub", x: left + 30, y }, text);
  if (start !== undefined) return [word(start - 1, to < 0 ? "→ nobody" : `→ ${exact(to)}`)];
  return end === undefined ? [] : [word(end + 10, `← ${exact(from)}`)];
}
