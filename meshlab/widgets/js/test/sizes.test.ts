/** What the slider of sizes says, and which sizes are written below it. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { compact, matching } from "../src/models.ts";
import { labelled, nearest, pointText, rowsOf, tracingText } from "../src/sizes.ts";

const point = { size: 64, seconds: 1.92, peak: 21e9, bytes: 30e6, arguments: 5e6, refused: "" };

test("a point is told in the figures that are drawn", () => {
  const timed = rowsOf(true, 16e9);
  assert.equal(
    pointText(point, timed),
    "step 1.92 s · peak 21.0 GB, more than the 16.0 GB of a device · sends 30.0 MB",
  );
  assert.equal(pointText({ ...point, seconds: null }, rowsOf(true, null)), "peak 21.0 GB · sends 30.0 MB");
  assert.equal(pointText(point, rowsOf(false, null)), "sends 30.0 MB · arguments 5.00 MB");
  assert.equal(pointText({ ...point, refused: "no" }, timed), "✕ no");
  assert.equal(pointText(undefined, timed), "not worked out yet");
});

test("sizes are written where they have room, the present one in any case", () => {
  assert.deepEqual(labelled([1, 2, 4, 8], 4).sort(), [1, 2, 4, 8]);
  const many = Array.from({ length: 24 }, (_, i) => 1000 + i);
  const written = labelled(many, 1011);
  assert.ok(written.includes(1011) && written.includes(1000) && written.includes(1023));
  assert.ok(written.length < 8);
});

test("what is typed goes to the nearest size", () => {
  assert.deepEqual([nearest([1, 2, 4, 8], 5), nearest([1, 2, 4, 8], 100), nearest([], 3)], [4, 8, 3]);
});

test("what is traced is named", () => {
  assert.equal(
    tracingText({ sizes: "batch=2", model: "", phase: "tracing", text: "" }),
    "Tracing again with batch=2 …",
  );
  assert.equal(tracingText({ sizes: "", model: "gpt2", phase: "tracing", text: "" }), "Opening gpt2 …");
});

test("models are found by words of their names and groups", () => {
  const rows = [
    { name: "llama3-8b", group: "Language", parameters: 8, sizes: {} },
    { name: "vit-b16", group: "Vision", parameters: 8, sizes: {} },
  ];
  assert.deepEqual(
    ["", "LLAMA 8b", "vision", "vision llama"].map((typed) => matching(rows, typed).length),
    [2, 1, 1, 0],
  );
  assert.deepEqual([8_030_261_248, 999_900, 7872, 12, 0].map(compact), ["8.03 B", "1 M", "7.87 k", "12", "0"]);
});
