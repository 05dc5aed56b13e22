// @ts-check
/** Paints slices of a tensor, as squares of devices and as blocks of the tensor: one look for what is the same data. */
import { s } from "./dom.js";
import { exact } from "./format.js";
import { identity, PATTERNS, rangesOf } from "./identity.js";
import { nextNumber } from "./numbers.js";

/**
 * @typedef {import("./types.js").Shards} Shards
 * @typedef {{url: (pattern: number | "partial") => string, small: boolean}} Look `small` says that a lighter colour stands
 *   for the pattern
 */

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
 * @param {import("./types.js").Picture} picture
 * @param {Shards} shards
 * @returns {boolean}
 */
export function isSmall({ cells }, { blocks }) {
  return Math.min(cells.w, cells.h, ...[...blocks.w, ...blocks.h].filter((each) => each > 0)) < LEAST;
}

/**
 * The patterns, to be defined once in each drawing.
 * @param {boolean} small
 * @returns {{defs: SVGElement, look: Look}}
 */
export function patterns(small) {
  const number = nextNumber("patterns");
  const id = (/** @type {number | string} */ pattern) => `mlb-pattern-${number}-${pattern}`;
  const tile = (/** @type {number | string} */ name, /** @type {string} */ d, /** @type {string} */ look) =>
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

/**
 * Marks, wherever a slice is drawn, what is the same data as in one of these places.
 * @param {Element} root
 * @param {Element | null} place
 */
export function markSlices(root, place) {
  const slice = place?.getAttribute("data-slice");
  for (const each of root.querySelectorAll("[data-slice]"))
    each.toggleAttribute("data-alike", slice !== undefined && each.getAttribute("data-slice") === slice);
}

/**
 * @param {[number, number]} range
 * @returns {string}
 */
export function indices([start, stop]) {
  if (stop <= start) return "nothing but padding";
  return stop - start === 1 ? exact(start) : `${exact(start)}${DASH}${exact(stop - 1)}`;
}

/**
 * @param {Shards} shards
 * @param {number} slice
 * @returns {string} its index ranges in words
 */
export function rangesText(shards, slice) {
  const ranges = rangesOf(shards, slice).map(({ dim, range }) => `${dim} ${indices(range)}`);
  return `${ranges.join(", ") || "all of it"}${shards.partial.length ? `, a partial sum over ${shards.partial.join(", ")}` : ""}`;
}

/**
 * @param {Shards} shards
 * @param {number} slice
 * @returns {number} the share of a device's shard that is data; what is left is padding
 */
function filledOf(shards, slice) {
  return rangesOf(shards, slice).reduce((part, { range, full }) => (part * (range[1] - range[0])) / full, 1);
}

/**
 * @param {number} width of a slice
 * @returns {number} the radius of its corners
 */
export function roundness(width) {
  return Math.min(3, width / 6);
}

/**
 * The rectangles of a slice: colour, pattern, and stripes where it is a partial sum; what is padding is empty.
 * @param {Shards} shards
 * @param {number} slice
 * @param {{x: number, y: number, w: number, h: number}} box
 * @param {Look} look
 * @param {number} [filled] the share of the box that is data
 * @returns {SVGElement[]}
 */
export function drawSlice(shards, slice, { x, y, w, h }, { url, small }, filled = filledOf(shards, slice)) {
  const { fill, pattern } = identity(shards, slice, small);
  const box = { x, y: y + h * (1 - filled), width: w, height: h * filled, rx: roundness(w) };
  return [
    filled < 1 && s("rect", { x, y, width: w, height: h, rx: box.rx, class: "mlb-padding" }),
    filled > 0 && s("rect", { ...box, fill, class: "mlb-slice" }),
    filled > 0 && pattern > 0 && s("rect", { ...box, fill: url(pattern) }),
    filled > 0 && shards.partial.length > 0 && s("rect", { ...box, fill: url("partial") }),
  ].filter((each) => each instanceof SVGElement);
}

/**
 * Letters on a slice, as large as they fit; none where there is no room.
 * @param {Shards} shards
 * @param {number} slice
 * @param {{x: number, y: number, w: number, h: number}} box
 * @param {Look} look
 * @returns {SVGElement | null}
 */
export function drawLetter(shards, slice, { x, y, w, h }, { small }) {
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
