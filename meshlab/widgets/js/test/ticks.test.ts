/** Round numbers on the scale of a step. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { seconds } from "../src/format.ts";
import { ticksOf } from "../src/ticks.ts";

test("ticks are round numbers from nothing up to the end", () => {
  const texts = (end: number) => ticksOf(end).map(seconds);
  assert.deepEqual(texts(5.8), ["0 s", "1 s", "2 s", "3 s", "4 s", "5 s"]);
  assert.deepEqual(texts(0.047), ["0 s", "10 ms", "20 ms", "30 ms", "40 ms"]);
  assert.deepEqual(texts(6.01e-6), ["0 s", "2 µs", "4 µs", "6 µs"]);
  assert.deepEqual(texts(0.3), ["0 s", "50 ms", "100 ms", "150 ms", "200 ms", "250 ms", "300 ms"]);
  assert.deepEqual(ticksOf(0), []);
});

test("there are four to seven, more where it is enlarged, and none beyond the end", () => {
  for (let end = 1e-7; end < 1e3; end *= 1.37) {
    const ticks = ticksOf(end);
    assert.ok(ticks.length >= 3 && ticks.length <= 7, `${end}: ${ticks}`);
    assert.ok((ticks.at(-1) ?? 0) <= end * (1 + 1e-9));
    assert.ok(ticksOf(end, 24).length > 2 * ticks.length - 3);
  }
});
