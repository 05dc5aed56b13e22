/** What each device has after each hop is what Python's own play of the same table gives; the words go with it. */
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";

import { pictureText } from "../src/hop_picture.ts";
import { hopAt, lastOf, nameOf, positionText, stateAt } from "../src/hop_states.ts";
import { sumsText } from "../src/hops.ts";
import type { Hops } from "../src/types.ts";

type Table = Record<string, { sent: Hops; states: [number, [number, number][]][][] }>;
const table: Table = JSON.parse(readFileSync(new URL("hops.json", import.meta.url), "utf8"));

for (const [kind, { sent, states }] of Object.entries(table))
  test(`${kind}: each device has what Python's play gives`, () => {
    assert.equal(states.length, sent.hops.length + 1);
    for (const [position, expected] of states.entries()) {
      const state = stateAt(sent, position);
      const held = [...state].map(([device, pieces]) => [
        device,
        [...pieces].map(([piece, { addends }]) => [piece, addends]).sort(([one], [other]) => one - other),
      ]);
      assert.deepEqual(held, expected);
    }
    // Afterwards it is as after the last hop.
    assert.deepEqual(stateAt(sent, lastOf(sent)), stateAt(sent, sent.hops.length));
  });

test("each piece stands in a cell of its own, before and after it is sent", () => {
  for (const { sent } of Object.values(table))
    for (let position = 0; position <= sent.hops.length; position += 1)
      for (const pieces of stateAt(sent, position).values()) {
        const cells = [...pieces].map(([piece, { came }]) => sent.pieces[piece][came ? 2 : 1]);
        assert.equal(new Set(cells).size, cells.length);
        assert.ok(cells.every((cell) => cell < sent.columns * (sent.lines.length || 1)));
      }
});

test("positions go from before over the hops to afterwards", () => {
  const { sent } = table["all-gather"];
  assert.equal(lastOf(sent), 4);
  assert.deepEqual(
    [0, 1, 3, 4].map((position) => nameOf(sent, position)),
    ["Before", "Hop 1 of 3", "Hop 3 of 3", "After"],
  );
  assert.equal(hopAt(sent, 0), undefined);
  assert.equal(hopAt(sent, 4), undefined);
  assert.equal(positionText(sent, 0), "Before: params/w1 has `hidden` split over `data`.");
  assert.equal(positionText(sent, 1), "Hop 1 of 3: each device sends its slice, 256 B, to the next.");
  assert.equal(positionText(sent, 4), "After: params/w1 is whole on each device.");
  assert.equal(lastOf({ hops: [] }), 0);
});

test("what a picture shows is said: letters of slices, numbers of equal parts, and how much of a sum", () => {
  const gather = { ...table["all-gather"].sent, parts: "slices", sums: false, size: 4 } as Hops;
  assert.equal(pictureText(gather, stateAt(gather, 0)).split("; ")[1], "device 2 has B");
  const reduce = { ...table["all-reduce"].sent, parts: "numbers", sums: true, size: 4 } as Hops;
  assert.equal(pictureText(reduce, stateAt(reduce, 2)).split("; ")[0], "device 0 has 1 Σ 1 of 4, 2 Σ 3 of 4");
  const nothing = { ...gather, devices: [0], start: [[]], hops: [] } as Hops;
  assert.equal(pictureText(nothing, stateAt(nothing, 0)), "device 0 has nothing.");
});

test("the sums say the formula, how often, and on a machine how long", () => {
  const board = { view: { machine: { on: "v5e:2x4" } } } as any;
  const hops = { formula: "(n − 1) × 256 B = 768 B", times: 1, size: 4, seconds: null } as Hops;
  assert.equal(sumsText(board, hops), "Each device sends (n − 1) × 256 B = 768 B; n = 4 devices.");
  assert.equal(
    sumsText(board, { ...hops, times: 3, seconds: 2e-6 }),
    "Each device sends (n − 1) × 256 B = 768 B, 3 times a step; n = 4 devices." +
      " On v5e:2x4 that takes 2 µs each time, by all links that the machine has for it.",
  );
});
