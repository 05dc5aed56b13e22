/** A scale of seconds: round numbers, each where its time is, so that what is drawn below is read off. */
import { h } from "./dom.ts";
import { seconds } from "./format.ts";

// So many parts a scale has about, of the width that it has when nothing is enlarged.
const PARTS = 6;
// The words of a tick end before the scale does, which says by itself how long it is: in hundredths of the width.
const LAST = 88;

/**
 * Round numbers from nothing up to a time: 1, 2 or 5 of a power of ten apart.
 * @param end in seconds
 * @param parts about how many there are to be
 * @returns in seconds; none of no time
 */
export function ticksOf(end: number, parts: number = PARTS): number[] {
  if (!(end > 0)) return [];
  const least = end / parts;
  const power = 10 ** Math.floor(Math.log10(least));
  const step = power * ([1, 2, 5].find((each) => each * power >= least * (1 - 1e-9)) ?? 10);
  return Array.from({ length: Math.floor(end / step + 1e-9) + 1 }, (_, i) => i * step);
}

/**
 * @param end the time at the right edge, in seconds
 * @param zoom how many times as wide it is drawn
 */
export function drawTicks(end: number, zoom: number = 1): HTMLElement[] {
  return ticksOf(end, PARTS * zoom).flatMap((time) => {
    const left = (100 * time) / end;
    if (left > 100 - (100 - LAST) / zoom) return [];
    return [h("span", { class: "mlb-scale-tick", style: `left:${left.toFixed(4)}%` }, time ? seconds(time) : "0")];
  });
}
