/**
 * Colour = which data. Every slice of a tensor has a colour and a pattern: the colour follows its index along the first
 * axis that is cut, from dark to light, the pattern its index along the second; its letter says the same without either.
 * The colours are matplotlib's viridis (https://bids.github.io/colormap, CC0), whose lightness alone tells them apart.
 */
import { letter } from "./format.ts";
import type { Shards } from "./types.ts";

const STOPS = ["#46307e", "#3b528b", "#2c718e", "#21908d", "#27ad81", "#5cc863", "#aadc32", "#fde725"];
/** Patterns are told apart by the direction and the number of their lines; 0 is none. */
export const PATTERNS = 8;

/** @returns red, green and blue, from 0 to 255 */
export function channels(hex: string): number[] {
  return [1, 3, 5].map((at) => Number.parseInt(hex.slice(at, at + 2), 16));
}

/**
 * @param share from 0 to 1
 * @returns the colour there, as #rrggbb
 */
export function ramp(share: number): string {
  const at = Math.min(Math.max(share, 0), 1) * (STOPS.length - 1);
  const first = Math.min(Math.floor(at), STOPS.length - 2);
  const [low, high] = [channels(STOPS[first]), channels(STOPS[first + 1])];
  const mixed = low.map((each, i) => Math.round(each + (high[i] - each) * (at - first)));
  return `#${mixed.map((each) => each.toString(16).padStart(2, "0")).join("")}`;
}

/** @returns relative luminance, as WCAG has it */
export function luminance(hex: string): number {
  const [red, green, blue] = channels(hex).map((each) => {
    const share = each / 255;
    return share <= 0.04045 ? share / 12.92 : ((share + 0.055) / 1.055) ** 2.4;
  });
  return 0.2126 * red + 0.7152 * green + 0.0722 * blue;
}

/** The index of a slice along each axis of the tensor. */
export function indicesOf(parts: number[], slice: number): number[] {
  const indices = [];
  let rest = slice;
  for (const count of [...parts].reverse()) {
    indices.unshift(rest % count);
    rest = Math.floor(rest / count);
  }
  return indices;
}

/** @param share how much of it is white */
function lightened(hex: string, share: number): string {
  const mixed = channels(hex).map((each) => Math.round(each + (255 - each) * share));
  return `#${mixed.map((each) => each.toString(16).padStart(2, "0")).join("")}`;
}

/**
 * @param small whether a lighter colour stands for the pattern, for which there is no room
 * @returns its colour, that of letters on it, its pattern, and its letter
 */
export function identity(
  { parts, slices }: Pick<Shards, "parts" | "slices">,
  slice: number,
  small: boolean = false,
): { fill: string; ink: string; pattern: number; label: string } {
  const indices = indicesOf(parts, slice);
  const cut = parts.map((_, i) => i).filter((i) => parts[i] > 1);
  const patterned = cut[1] ?? -1;
  const index = patterned < 0 ? 0 : indices[patterned];
  // Of more parts than there are patterns the colour tells the rest.
  let [number, count] = [0, 1];
  for (const axis of cut) {
    const many = axis === patterned ? Math.ceil(parts[axis] / PATTERNS) : parts[axis];
    const at = axis === patterned ? Math.floor(index / PATTERNS) : indices[axis];
    number = number * many + at;
    count *= many;
  }
  const full = count === 1 ? STOPS[2] : ramp(number / (count - 1));
  const fill = small && patterned >= 0 ? lightened(full, (0.6 * index) / (parts[patterned] - 1)) : full;
  const ink = luminance(fill) > 0.25 ? "#10151c" : "#ffffff";
  return { fill, ink, pattern: small ? 0 : index % PATTERNS, label: slices === 1 ? "" : letter(slice) };
}

/**
 * What a slice is of the tensor: its index range along each axis that is cut.
 * @returns `full` is how long a range without padding is
 */
export function rangesOf(
  { parts, edges, step, dims, shape, splits }: Pick<Shards, "parts" | "edges" | "step" | "dims" | "shape" | "splits">,
  slice: number,
): { dim: string; axes: string[]; range: [number, number]; full: number }[] {
  const indices = indicesOf(parts, slice);
  return parts.flatMap((count, axis) => {
    if (count === 1 && !splits[axis].length) return [];
    const at = (index: number) => edges[axis][index] ?? Math.min(index * step[axis], shape[axis]);
    return [
      { dim: dims[axis], axes: splits[axis], range: [at(indices[axis]), at(indices[axis] + 1)], full: step[axis] },
    ];
  });
}
