/** What is said ahead of the changes that a remedy makes: which quantities get better, and which worse. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { effects, verdictsOf } from "../src/remedies.ts";
import { price } from "./views.ts";

const now = (seconds: number | null, peak: number | null = null): any => ({
  time: seconds === null ? null : { estimate: seconds },
  peak_memory: peak === null ? null : { bytes: peak },
  work: 0.5,
  communication: { total: 100 },
});
const said = (then: object, view: any) => verdictsOf(effects(price(then), view)).map(({ text }) => text);

test("what goes one way has a verdict, which names what changes where not all does", () => {
  assert.deepEqual(said({ seconds: 1, peak: 900, bytes: 90 }, now(2, 1000)), ["▼ better:"]);
  assert.deepEqual(said({ seconds: 3, peak: 1100, bytes: 110 }, now(2, 1000)), ["▲ worse:"]);
  assert.deepEqual(said({ seconds: 2, peak: 1100, bytes: 100 }, now(2, 1000)), ["▲ worse in peak:"]);
  assert.deepEqual(said({ seconds: 1, peak: 1000, bytes: 90 }, now(2, 1000)), ["▼ better in step, traffic:"]);
});

test("where quantities go different ways there is no verdict, but which is which", () => {
  const both = ["▼ better in step, traffic,", "▲ worse in peak:"];
  assert.deepEqual(said({ seconds: 1, peak: 1100, bytes: 0 }, now(2, 1000)), both);
  assert.deepEqual(said({ seconds: 1, bytes: 900 }, now(2)), ["▼ better in step,", "▲ worse in traffic:"]);
  const full = ["▼ better in step,", "▲ worse in traffic, room:"];
  assert.deepEqual(said({ seconds: 1, bytes: 900, fits: false }, now(2)), full);
  // What does not fit now either gets no worse by that.
  const tight = { ...now(2, 1000), peak_memory: { bytes: 1000, fits: false } };
  const less = { seconds: 1, peak: 900, bytes: 90, fits: false };
  assert.deepEqual(said(less, tight), ["▼ better in step, peak, traffic:"]);
  assert.equal(effects(price(less), tight).at(-1)?.text, "✕ still does not fit: 900 B");
});

test("without a machine work is said, and what changes by next to nothing is neither", () => {
  const both = ["▼ better in traffic,", "▲ worse in work:"];
  assert.deepEqual(said({ seconds: null, work: 1, bytes: 0 }, now(null)), both);
  assert.deepEqual(said({ seconds: null, work: 0.5, bytes: 10 }, now(null)), ["▼ better:"]);
  assert.deepEqual(said({ seconds: null, work: 0.5, bytes: 100 }, now(null)), ["no gain:"]);
  assert.deepEqual(said({ seconds: 2.0001, bytes: 100 }, now(2)), ["no gain:"]);
});
