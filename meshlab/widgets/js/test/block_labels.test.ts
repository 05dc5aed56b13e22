/** What is written in and beside the blocks of a tensor: who holds them, where they begin, and their letters. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { devicesText, holdersOf, marginsOf, thinned } from "../src/block_labels.ts";

/**
 * A tensor of one cut axis, drawn across.
 * @param wide of one block
 */
function shards(parts: number, wide: number): any {
  const numbers = Array.from({ length: parts }, (_, i) => i);
  return {
    parts: [1, parts],
    slices: parts,
    shape: [8, 256 * parts],
    edges: [[0, 8], numbers.concat(parts).map((i) => 256 * i)],
    step: [8, 256],
    partial: [],
    blocks: {
      down: 0,
      across: 1,
      each: 1,
      width: parts * wide,
      height: 50,
      slices: numbers,
      x: numbers.map((i) => i * wide),
      y: numbers.map(() => 0),
      w: numbers.map(() => wide),
      h: numbers.map(() => 50),
    },
  };
}

test("devices are listed, or said as a range or by their first ones", () => {
  assert.equal(devicesText([0, 4]), "0, 4");
  assert.equal(devicesText([0, 1, 2, 3]), "0–3");
  assert.equal(devicesText([0, 4, 8, 12, 16]), "0, 4 … 16");
});

test("each slice is held by the devices whose squares show it, and by none that are known where squares are many", () => {
  const picture = { each: 1, cells: { devices: [2, 0, 3, 1] } } as any;
  const held = { held: [1, 0, 1, 0] };
  assert.deepEqual(
    [...holdersOf(picture, held)],
    [
      [1, [2, 3]],
      [0, [0, 1]],
    ],
  );
  assert.equal(holdersOf({ ...picture, each: 2 }, held).size, 0);
});

test("indices stand where blocks begin and where the last one ends; no two of them touch", () => {
  const wide = marginsOf(shards(4, 30));
  assert.deepEqual(
    wide.across.map(({ at, text }) => [at, text]),
    [
      [0, "0"],
      [30, "256"],
      [60, "512"],
      [90, "768"],
      [120, "1,024"],
    ],
  );
  assert.deepEqual(wide.letters, []);
  const narrow = marginsOf(shards(64, 2));
  assert.equal(narrow.across[0].text, "0");
  assert.equal(narrow.across.at(-1)?.text, "16,384");
  for (const [i, tick] of narrow.across.entries()) {
    const before = narrow.across[i - 1];
    if (before) assert.ok(tick.at - before.at >= (4.7 * (before.text.length + tick.text.length)) / 2);
  }
});

test("letters stand in the margin where blocks are too small for them, the first and the last among them", () => {
  const { letters, bottom } = marginsOf(shards(16, 4));
  assert.equal(letters[0].text, "A");
  assert.equal(letters.at(-1)?.text, "P");
  assert.ok(letters.length > 3 && bottom > 0);
});

test("of ticks without room the first is left", () => {
  const ticks = [0, 1, 2].map((at) => ({ at, text: "1,000" }));
  assert.deepEqual(
    thinned(ticks, () => 20).map(({ at }) => at),
    [0],
  );
});
