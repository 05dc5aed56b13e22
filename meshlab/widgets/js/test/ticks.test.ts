/** Round numbers on the scale of a step. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { seconds } from "../src/format.ts";
import { textsOf, ticksOf } from "../src/ticks.ts";

test("ticks are round numbers from nothing up to the end", () => {
  const texts = (to: number) => ticksOf({ from: 0, to }).map(seconds);
  assert.deepEqual(texts(5.8), ["0 s", "1 s", "2 s", "3 s", "4 s", "5 s"]);
  assert.deepEqual(texts(0.047), ["0 s", "10 ms", "20 ms", "30 ms", "40 ms"]);
  assert.deepEqual(texts(6.01e-6), ["0 s", "2 µs", "4 µs", "6 µs"]);
  assert.deepEqual(texts(0.3), ["0 s", "50 ms", "100 ms", "150 ms", "200 ms", "250 ms", "300 ms"]);
  assert.deepEqual(ticksOf({ from: 0, to: 0 }), []);
});

test("there are two to seven, whatever is in sight, and none beyond", () => {
  for (let length = 1e-7; length < 1e3; length *= 1.37) {
    for (const from of [0, length / 3, 7 * length, 12_345 * length]) {
      const sight = { from, to: from + length };
      const ticks = ticksOf(sight);
      assert.ok(ticks.length >= (from ? 2 : 3) && ticks.length <= 7, `${from} + ${length}: ${ticks}`);
      assert.ok(ticks.every((each) => each >= sight.from - 1e-6 * length && each <= sight.to + 1e-6 * length));
    }
  }
});

test("ticks say when they are, or, where three digits do not tell them apart, how much later than the first", () => {
  assert.deepEqual(textsOf([0, 0.5, 1]), ["0", "500 ms", "1 s"]);
  assert.deepEqual(textsOf([1.2, 1.25, 1.3]), ["1.2 s", "1.25 s", "1.3 s"]);
  assert.deepEqual(textsOf([1.23456, 1.23458, 1.2346]), ["1.23456 s", "+20 µs", "+40 µs"]);
  assert.deepEqual(textsOf([0.012345, 0.0123455, 0.012346]), ["12.3450 ms", "+500 ns", "+1 µs"]);
  assert.deepEqual(textsOf([]), []);
  // No two say the same.
  for (let from = 1e-6; from < 10; from *= 3.1)
    for (let length = from * 1e-6; length < from * 100; length *= 1.9) {
      const texts = textsOf(ticksOf({ from, to: from + length }));
      assert.equal(new Set(texts).size, texts.length, `${from} + ${length}: ${texts}`);
    }
});
