// @ts-check
/** The axis of bytes, and which moment of the step is looked at. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { nothingChosen } from "../src/chosen.js";
import { momentOf, ticksTo } from "../src/moments.js";

test("ticks are round, begin at 0, stay below the top and are at most five", () => {
  assert.deepEqual(ticksTo(10), [0, 2.5, 5, 7.5, 10]);
  assert.deepEqual(ticksTo(484e3), [0, 200e3, 400e3]);
  assert.deepEqual(ticksTo(0), [0]);
  for (const top of [1, 7, 34304, 16e9, 1.7e12]) {
    const ticks = ticksTo(top);
    assert.ok(ticks.length >= 2 && ticks.length <= 5 && ticks[ticks.length - 1] <= top, `${top}: ${ticks}`);
  }
});

test("of no moment that the step still has, the peak is looked at", () => {
  const timeline = [1, 5, 5, 2].map((bytes, i) => ({ at: 3 * i, step: "dot", source: "", bytes }));
  const chosen = nothingChosen();
  assert.equal(momentOf({ chosen }, { timeline }), timeline[1]);
  assert.equal(momentOf({ chosen: { ...chosen, instant: 9 } }, { timeline }), timeline[3]);
  assert.equal(momentOf({ chosen: { ...chosen, instant: 10 } }, { timeline }), timeline[1]);
  assert.equal(momentOf({ chosen }, { timeline: [] }), undefined);
});
