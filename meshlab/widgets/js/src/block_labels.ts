/**
 * What is written in and beside the blocks of a tensor: the letter of each with the devices that hold it, the index at
 * which blocks begin along the edges, and letters in the margin where blocks are too small for their own.
 */
import { s } from "./dom.ts";
import { exact } from "./format.ts";
import { identity, indicesOf } from "./identity.ts";
import { drawLetter, type Look } from "./slices.ts";
import type { Picture, Shards } from "./types.ts";

/** In pixels from the first block. */
type Tick = { at: number; text: string };
type Margins = {
  left: number;
  top: number;
  right: number;
  bottom: number;
  across: Tick[];
  down: Tick[];
  letters: Tick[];
  sideways: Tick[];
};

// Pixels: of a character of a tick, of a line of them, and the least width and height of a block with a letter.
const [CHARACTER, LINE, WIDE, HIGH] = [4.7, 10, 7, 8.1];
// More devices than these are not written one by one.
const LISTED = 4;

/** @returns the devices that hold each slice; none where a square stands for several */
export function holdersOf({ each, cells }: Picture, { held }: Pick<Shards, "held">): Map<number, number[]> {
  const holders: Map<number, number[]> = new Map();
  if (each > 1) return holders;
  cells.devices.forEach((device, cell) => {
    const slice = Number(held[cell]);
    holders.set(slice, [...(holders.get(slice) ?? []), device]);
  });
  for (const devices of holders.values()) devices.sort((one, other) => one - other);
  return holders;
}

/**
 * @param devices in order
 * @returns their numbers, short
 */
export function devicesText(devices: number[]): string {
  const [first, last] = [devices[0], devices[devices.length - 1]];
  if (devices.length > 2 && last - first === devices.length - 1) return `${first}–${last}`;
  if (devices.length <= LISTED) return devices.join(", ");
  return `${first}, ${devices[1]} … ${last}`;
}

/**
 * Every so many of the ticks that none is on another; the last one always, for it says where all ends.
 * @param ticks from the first on
 * @param size of one along the edge, in pixels
 */
export function thinned(ticks: Tick[], size: (tick: Tick) => number): Tick[] {
  const clear = (one: Tick, other: Tick) => Math.abs(other.at - one.at) >= (size(one) + size(other)) / 2 + 3;
  const last = ticks[ticks.length - 1];
  for (let every = 1; every < ticks.length; every *= 2) {
    const some = ticks.filter((tick, i) => i === 0 || (i % every === 0 && (tick === last || clear(tick, last))));
    const kept = some.includes(last) ? some : [...some, last];
    if (kept.every((tick, i) => i === 0 || clear(kept[i - 1], tick))) return kept;
  }
  return ticks.slice(0, 1);
}

/**
 * The index at which each block begins along one axis, and at which the last one ends; none where nothing is cut.
 * @param axis of the tensor
 */
function ticksOf(shards: Shards, axis: number, along: "x" | "y"): Tick[] {
  const { blocks, parts, edges, step, shape } = shards;
  if (axis < 0 || parts[axis] < 2) return [];
  const [place, size, other] = along === "x" ? [blocks.x, blocks.w, blocks.y] : [blocks.y, blocks.h, blocks.x];
  const edge = Math.min(...other);
  const ticks: Map<number, Tick> = new Map();
  let end = { at: 0, text: "" };
  blocks.slices.forEach((slice, i) => {
    if (other[i] > edge || size[i] <= 0) return;
    const index = indicesOf(parts, slice)[axis];
    const begin = edges[axis][index] ?? Math.min(index * step[axis], shape[axis]);
    if (!ticks.has(place[i])) ticks.set(place[i], { at: place[i], text: exact(begin) });
    if (place[i] + size[i] > end.at) end = { at: place[i] + size[i], text: exact(shape[axis]) };
  });
  return [...[...ticks.values()].sort((one, next) => one.at - next.at), end];
}

/** The letters of the first row or column of blocks, where blocks are too small for them. */
function lettersOf(shards: Shards, along: "x" | "y"): Tick[] {
  const { blocks } = shards;
  const [place, size, other] = along === "x" ? [blocks.x, blocks.w, blocks.y] : [blocks.y, blocks.h, blocks.x];
  if (blocks.each > 1 || shards.slices === 1 || Math.min(...size) >= (along === "x" ? WIDE : HIGH)) return [];
  const edge = Math.max(...other);
  return blocks.slices
    .flatMap((slice, i) =>
      other[i] === edge ? [{ at: place[i] + size[i] / 2, text: identity(shards, slice).label }] : [],
    )
    .sort((one, next) => one.at - next.at);
}

const wide: (tick: Tick) => number = ({ text }) => CHARACTER * text.length;
const high: (tick: Tick) => number = () => LINE - 3;

/** @returns what is written beside the blocks, and the room that it takes */
export function marginsOf(shards: Shards): Margins {
  const { blocks } = shards;
  const across = thinned(ticksOf(shards, blocks.across, "x"), wide);
  const down = thinned(ticksOf(shards, blocks.down, "y"), high);
  const letters = thinned(lettersOf(shards, "x"), wide);
  const sideways = thinned(lettersOf(shards, "y"), high);
  const longest = (ticks: Tick[]) => Math.max(0, ...ticks.map(wide));
  return {
    across,
    down,
    letters,
    sideways,
    left: down.length ? longest(down) + 4 : across.length ? wide(across[0]) / 2 : 0,
    top: across.length ? LINE : 0,
    right: Math.max(sideways.length ? longest(sideways) + 4 : 0, across.length ? longest(across.slice(-1)) / 2 : 0),
    bottom: letters.length ? LINE : 0,
  };
}

/** @param left where the blocks begin */
export function drawMargins({ blocks }: Shards, margins: Margins, left: number, top: number): SVGElement[] {
  const write = (x: number, y: number, anchor: string, as: string) => (text: string) =>
    s("text", { class: `mlb-draw-number ${as}`, x: x.toFixed(1), y: y.toFixed(1), "text-anchor": anchor }, text);
  const [right, bottom] = [left + blocks.width, top + blocks.height];
  return [
    ...margins.across.map(({ at, text }) => write(left + at, top - 3, "middle", "mlb-block-tick")(text)),
    ...margins.down.map(({ at, text }) => write(left - 3, top + at + 2.5, "end", "mlb-block-tick")(text)),
    ...margins.letters.map(({ at, text }) => write(left + at, bottom + 8, "middle", "mlb-block-outside")(text)),
    ...margins.sideways.map(({ at, text }) => write(right + 3, top + at + 2.5, "start", "mlb-block-outside")(text)),
  ];
}

/** The letter of a block, and under it or along it the devices that hold it, where there is room. */
export function drawHolders(
  shards: Shards,
  slice: number,
  box: { x: number; y: number; w: number; h: number },
  devices: number[],
  look: Look,
): (SVGElement | null)[] {
  const lettered = identity(shards, slice).label !== "";
  const short = devices.length ? devicesText(devices) : "";
  const said = lettered || !short ? short : `devices ${short}`;
  const text = CHARACTER * said.length <= box.w - 2 ? said : short;
  const long = CHARACTER * text.length;
  const under = text && long <= box.w - 2 && box.h >= (lettered ? 20 : 9);
  const along = text && !under && lettered && box.w >= WIDE && box.h >= long + 16;
  if (!under && !along) return [drawLetter(shards, slice, box, look)];
  const { fill, ink } = identity(shards, slice, look.small);
  const print = { fill: ink, stroke: fill, class: "mlb-small-print mlb-holders", "aria-hidden": "true" };
  const middle = box.x + box.w / 2;
  if (under) {
    const upper = lettered ? box.h - LINE : box.h;
    const y = box.y + upper / 2 + (lettered ? Math.min(17, 0.62 * upper) / 2 + 7 : 3);
    return [
      drawLetter(shards, slice, { ...box, h: upper }, look),
      s("text", { ...print, x: middle, y, "text-anchor": "middle" }, text),
    ];
  }
  const [x, y] = [(middle - 2.5).toFixed(1), (box.y + 14).toFixed(1)];
  return [
    drawLetter(shards, slice, { ...box, h: 13 }, look),
    s("text", { ...print, x, y, transform: `rotate(90 ${x} ${y})` }, text),
  ];
}
