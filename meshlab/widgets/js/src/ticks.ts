/** A scale of seconds: round numbers, each where its time is, so that what is drawn below is read off. */
import { h } from "./dom.ts";
import { seconds } from "./format.ts";
import type { Sight } from "./step_sight.ts";

// So many parts a scale has about.
const PARTS = 6;
// A letter of the scale is at most so wide, and so much stands before a tick's words, in pixels.
const [LETTER, BEFORE] = [8, 6];
const UNITS: [string, number][] = [
  ["s", 1],
  ["ms", 1e-3],
  ["µs", 1e-6],
  ["ns", 1e-9],
];

/**
 * Round numbers between two times: 1, 2 or 5 of a power of ten apart.
 * @returns in seconds; none of no time
 */
export function ticksOf({ from, to }: Sight): number[] {
  if (!(to > from)) return [];
  const least = (to - from) / PARTS;
  const power = 10 ** Math.floor(Math.log10(least));
  const step = power * ([1, 2, 5].find((each) => each * power >= least * (1 - 1e-9)) ?? 10);
  const first = Math.ceil(from / step - 1e-9);
  const count = Math.floor(to / step + 1e-9) - first + 1;
  return Array.from({ length: count }, (_, i) => (first + i) * step);
}

/** @returns what is written at ticks: how much later than the first each is, where that tells more */
export function textsOf(ticks: number[]): string[] {
  const [first, second] = ticks;
  const last = ticks.at(-1) ?? 0;
  const step = second - first;
  const digits = 10 ** (Math.floor(Math.log10(last)) - 2); // what three of them tell apart
  if (ticks.length < 2 || step > digits * (1 - 1e-6)) return ticks.map((time) => (time ? seconds(time) : "0"));
  return ticks.map((time, i) => (i ? `+${seconds(time - first)}` : precisely(first, step)));
}

/** @returns a time with all digits down to those of a step */
function precisely(time: number, step: number): string {
  const [unit, size] = UNITS.find(([, each]) => time >= each) ?? UNITS[3];
  return `${(time / size).toFixed(Math.max(0, Math.ceil(-Math.log10(step / size) - 1e-9)))} ${unit}`;
}

/** @returns the ticks whose words end before a scale of that width does */
export function drawTicks(sight: Sight, width: number): HTMLElement[] {
  const ticks = ticksOf(sight);
  const texts = textsOf(ticks);
  return ticks.flatMap((time, i) => {
    const left = (100 * (time - sight.from)) / (sight.to - sight.from);
    const room = width * (1 - left / 100) - BEFORE;
    return room < LETTER * texts[i].length
      ? []
      : [h("span", { class: "mlb-scale-tick", style: `left:${left.toFixed(4)}%` }, texts[i])];
  });
}
