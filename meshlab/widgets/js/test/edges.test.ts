/** Which arrows are drawn, and where they end. */
import assert from "node:assert/strict";
import { test } from "node:test";

import { curve, shownOf } from "../src/edges.ts";
import type { Edge } from "../src/types.ts";

const everyPair = (size: number, groups: number): Edge[] =>
  Array.from({ length: groups * size * size }, (_, i) => {
    const first = Math.floor(i / (size * size)) * size;
    return [first + (Math.floor(i / size) % size), first + (i % size), 1] as Edge;
  }).filter(([from, to]) => from !== to);

test("few arrows are all drawn", () => {
  const few = everyPair(4, 2);
  assert.equal(shownOf(few, 0).length, few.length);
});

test("of many those of one group are drawn", () => {
  const shown = shownOf(everyPair(8, 8), 17);
  assert.equal(shown.length, 56);
  assert.ok(shown.every(([from, to]) => from >= 16 && from < 24 && to >= 16 && to < 24));
});

test("an arrow past other squares goes around their letters", () => {
  const [, , , bend] = (curve({ x: 0, y: 0 }, { x: 90, y: 0 }, 30).match(/-?[\d.]+/g) ?? []).map(Number);
  // Where it is a third of the way along, over the middle of the next square, it is beyond its edge.
  assert.ok(2 * (1 / 3) * (2 / 3) * bend + 3 * (1 / 9 + 4 / 9) > 15);
  const near = (curve({ x: 0, y: 0 }, { x: 45, y: 0 }, 30).match(/-?[\d.]+/g) ?? []).map(Number);
  assert.ok(near[3] < 15);
});

test("an arrow begins and ends beside the middles of its squares, and the one back on the other side", () => {
  const numbers = (d: string) => (d.match(/-?[\d.]+/g) ?? []).map(Number);
  const there = numbers(curve({ x: 0, y: 0 }, { x: 100, y: 0 }, 20));
  const back = numbers(curve({ x: 100, y: 0 }, { x: 0, y: 0 }, 20));
  assert.ok(there[0] > 0 && there[4] < 100 && there[1] === 3 && back[1] === -3);
});
