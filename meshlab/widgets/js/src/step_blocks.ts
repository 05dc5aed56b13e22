/**
 * What of a row is drawn: slices that are wide enough to be told apart, pressed and named, each for itself, and all others
 * as shapes of one path, in which those that touch are one. So a step of any length is a few hundred elements.
 */
import { firstReaching, type Row } from "./step_rows.ts";
import type { Sight } from "./step_sight.ts";

// Narrower slices are part of the path, in pixels; and nothing in it is narrower, or nearer to the next.
const WIDE = 5;
const LEAST = 0.5;

/** `wide` are slices; `narrow` are left and right edges in pixels, by tone. */
export type Blocks = { wide: number[]; narrow: number[][] };

/**
 * @param width of the sight, in pixels
 * @param tones into how many paths narrow slices are sorted
 * @param tone the number of a slice's path; slices that must be drawn for themselves have -1
 * @param wide the narrowest that are drawn for themselves
 */
export function blocksOf(
  row: Row,
  { from, to }: Sight,
  width: number,
  { tones, tone, wide = WIDE }: { tones: number; tone: (i: number) => number; wide?: number },
): Blocks {
  const scale = width / (to - from || 1);
  const blocks: Blocks = { wide: [], narrow: Array.from({ length: tones }, () => []) };
  const { begin, end } = row;
  for (let i = firstReaching(row, from); i < begin.length && begin[i] < to; i++) {
    const left = (begin[i] - from) * scale;
    const right = (end[i] - from) * scale;
    const number = right - left < wide ? tone(i) : -1;
    if (number < 0) {
      blocks.wide.push(i);
      continue;
    }
    const edges = blocks.narrow[number];
    const last = edges.length - 1;
    if (last > 0 && left - edges[last] < LEAST) edges[last] = Math.max(edges[last], right);
    else edges.push(left, Math.max(right, left + LEAST));
  }
  return blocks;
}

/** The path of narrow slices, of height 1. */
export function pathOf(edges: number[]): string {
  let path = "";
  for (let i = 0; i < edges.length; i += 2) {
    const [left, right] = [edges[i].toFixed(1), edges[i + 1].toFixed(1)];
    path += `M${left} 0H${right}V1H${left}Z`;
  }
  return path;
}

/** @returns the slice at a time, or the nearest within some seconds; -1 where there is none */
export function sliceAt(row: Row, time: number, slack: number): number {
  let best = -1;
  let nearest = slack;
  for (let i = firstReaching(row, time - slack); i < row.begin.length && row.begin[i] <= time + slack; i++) {
    const away = Math.max(row.begin[i] - time, time - row.end[i], 0);
    if (away < nearest || (away === nearest && best < 0)) [best, nearest] = [i, away];
    if (away === 0) return i;
  }
  return best;
}
