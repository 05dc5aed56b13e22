/** Whether what would remove a collective makes the step better. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { verdictOf } from "../src/remedies.ts";
import { price } from "./views.ts";

const now = (seconds: number | null): any => ({
  time: seconds === null ? null : { estimate: seconds },
  work: 0.5,
  communication: { total: 100 },
});

test("a remedy is better by the step that it makes shorter, whatever it sends less", () => {
  assert.equal(verdictOf(price({ seconds: 1, bytes: 900 }), now(2)), "better");
  assert.equal(verdictOf(price({ seconds: 3, bytes: 1 }), now(2)), "worse");
  assert.equal(verdictOf(price({ seconds: 2.0001 }), now(2)), "same");
  assert.equal(verdictOf(price({ seconds: 1, fits: false }), now(2)), "worse");
});

test("without a machine work counts, and of equal work bytes", () => {
  assert.equal(verdictOf(price({ seconds: null, work: 1, bytes: 0 }), now(null)), "worse");
  assert.equal(verdictOf(price({ seconds: null, work: 0.5, bytes: 10 }), now(null)), "better");
  assert.equal(verdictOf(price({ seconds: null, work: 0.5, bytes: 100 }), now(null)), "same");
});
