/** Paints slices of a tensor, as squares of devices and as blocks of the tensor: one look for what is the same data. */
import { s } from "./dom.ts";
import { exact } from "./format.ts";
import { identity, PATTERNS, rangesOf } from "./identity.ts";
import { nextNumber } from "./numbers.ts";
import type { Holdings, Picture, Shards, Slices } from "./types.ts";

/** `small` says that a lighter colour stands for the pattern. */
export type Box = { x: number; y: number; w: number; h: number };

export type Look = { url: (pattern: number | "partial") => string; small: boolean };

// A dash at which a line does not break.
const DASH = "\u2060–\u2060";
// Lines of each pattern, in a square of eight pixels; a grating of wide gaps is for partial sums.
const LINES = [
  "",
  "M-2 2L2-2M0 8L8 0M6 10L10 6",
  "M-2 6L2 10M0 0L8 8M6-2L10 2",
  "M0 4H8",
  "M4 0V8",
  "M0 4H8M4 0V8",
  "M0 0L8 8M8 0L0 8",
  "M0 2H8M0 6H8",
];

// Pixels from which on the lines of a pattern can be seen; below that a lighter colour stands for it.
const LEAST = 9;

/**
 * Whether patterns could not be seen in the devices or in the tensor: both then have lighter colours in their place.
 */
export function isSmall({ cells }: Picture, { blocks }: Shards): boolean {
  return Math.min(cells.w, cells.h, ...[...blocks.w, ...blocks.h].filter((each) => each > 0)) < LEAST;
}

/** The patterns, to be defined once in each drawing. */
export function patterns(small: boolean): { defs: SVGElement; look: Look } {
  const number = nextNumber("patterns");
  const id = (pattern: number | string) => `mlb-pattern-${number}-${pattern}`;
  const tile = (name: number | string, d: string, look: string) =>
    s(
      "pattern",
      { id: id(name), width: 8, height: 8, patternUnits: "userSpaceOnUse" },
      s("path", { d, class: `mlb-pattern-${look}` }),
    );
  const all = Array.from({ length: PATTERNS - 1 }, (_, i) => tile(i + 1, LINES[i + 1], "lines"));
  return {
    defs: s("defs", {}, ...all, tile("partial", LINES[1], "partial")),
    look: { url: (pattern) => `url(#${id(pattern)})`, small },
  };
}

/** Marks, wherever a slice is drawn, what is the same data as in one of these places. */
export function markSlices(root: Element, place: Element | null) {
  const slice = place?.getAttribute("data-slice");
  for (const each of root.querySelectorAll("[data-slice]"))
    each.toggleAttribute("data-alike", slice !== undefined && each.getAttribute("data-slice") === slice);
}

export function indices([start, stop]: [number, number]): string {
  if (stop <= start) return "only padding";
  return stop - start === 1 ? exact(start) : `${exact(start)}${DASH}${exact(stop - 1)}`;
}

/** @returns its index ranges in words */
export function rangesText(shards: Slices, slice: number): string {
  const ranges = rangesOf(shards, slice).map(({ dim, range }) => `${dim} ${indices(range)}`);
  return `${ranges.join(", ") || "all of it"}${shards.partial.length ? `, a partial sum over ${shards.partial.join(", ")}` : ""}`;
}

/** @returns the share of a device's shard that is data; what is left is padding */
function filledOf(shards: Slices, slice: number): number {
  return rangesOf(shards, slice).reduce((part, { range, full }) => (part * (range[1] - range[0])) / full, 1);
}

/**
 * @param width of a slice
 * @returns the radius of its corners
 */
export function roundness(width: number): number {
  return Math.min(3, width / 6);
}

/**
 * The rectangles of a slice: colour, pattern, and stripes where it is a partial sum; what is padding is empty.
 * @param filled the share of the box that is data
 */
export function drawSlice(
  shards: Slices,
  slice: number,
  { x, y, w, h }: Box,
  { url, small }: Look,
  filled: number = filledOf(shards, slice),
): SVGElement[] {
  const { fill, pattern } = identity(shards, slice, small);
  const box = { x, y: y + h * (1 - filled), width: w, height: h * filled, rx: roundness(w) };
  return [
    filled < 1 && s("rect", { x, y, width: w, height: h, rx: box.rx, class: "mlb-padding" }),
    filled > 0 && s("rect", { ...box, fill, class: "mlb-slice" }),
    filled > 0 && pattern > 0 && s("rect", { ...box, fill: url(pattern) }),
    filled > 0 && shards.partial.length > 0 && s("rect", { ...box, fill: url("partial") }),
  ].filter((each) => each instanceof SVGElement);
}

/** Letters on a slice, as large as they fit; none where there is no room. */
export function drawLetter(shards: Holdings, slice: number, { x, y, w, h }: Box, { small }: Look): SVGElement | null {
  const { fill, ink, label } = identity(shards, slice, small);
  const words = `${shards.partial.length ? "Σ" : ""}${label}`;
  // Two of the widest letters, which are bold, have room beside each other.
  const size = Math.min(17, 0.62 * h, (1.04 * w) / Math.max(1, words.length));
  if (!words || size < 5) return null;
  return s(
    "text",
    {
      x: x + w / 2,
      y: y + h / 2,
      "font-size": size.toFixed(1),
      fill: ink,
      stroke: fill,
      class: "mlb-letter",
      "aria-hidden": "true",
    },
    words,
  );
}
