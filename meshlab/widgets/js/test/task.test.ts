/** What is written as a prediction, and what is said of it. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { numberOf, verdictText } from "../src/task.ts";

test("a number is read with commas or without; what is none is refused", () => {
  assert.deepEqual(["3072", " 3,072 ", "1_024", "0.5", "-2", "1e6"].map(numberOf), [3072, 3072, 1024, 0.5, -2, 1e6]);
  assert.deepEqual(["", " ", "many", "3 kB", "1e999", "NaN"].map(numberOf), [null, null, null, null, null, null]);
});

test("a verdict has the number, and what was predicted", () => {
  const said = (predicted: number | null, number: number | null, right: boolean | null) =>
    verdictText({ predicted, number, right });
  assert.equal(said(3072, 3072, true), "3,072, as you predicted.");
  assert.equal(said(2048, 3072, false), "3,072; you predicted 2,048.");
  assert.equal(said(21, 21.84217, true), "21.8422; you predicted 21, which is near enough.");
  assert.equal(said(null, null, null), "");
});
