// @ts-check
/** Where the losses of runs are drawn, which runs are, and what is written beside the axes. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { curvesOf, drawnRuns, MOST, stepTicks } from "../src/loss_curve.js";

/** @typedef {import("../src/types.js").RunRow} RunRow */

/** @type {(number: number, losses: number[], more?: Partial<RunRow>) => RunRow} */
const run = (number, losses, more = {}) =>
  /** @type {RunRow} */ ({ number, losses, taken: losses.length, stride: 1, reference: false, ...more });

test("ticks are whole steps, the first among them, and few", () => {
  assert.deepEqual(stepTicks(2), [1, 2]);
  assert.deepEqual(stepTicks(5), [1, 2, 3, 4, 5]);
  assert.deepEqual(stepTicks(40), [1, 10, 20, 30, 40]);
  assert.deepEqual(stepTicks(100), [1, 20, 40, 60, 80, 100]);
  for (let most = 6; most < 5000; most += 7) {
    const ticks = stepTicks(most);
    assert.ok(ticks.length >= 3 && ticks.length <= 7, `${most}: ${ticks}`);
    assert.ok(ticks.every((tick, i) => Number.isInteger(tick) && tick <= most && (i === 0 || tick > ticks[i - 1])));
  }
});

test("the reference is drawn however many runs there are, and every run has a mark of its own", () => {
  const rows = [9, 8, 7, 6, 5, 4].map((number) => run(number, [2, 1]));
  const drawn = drawnRuns([...rows, run(1, [2, 1], { reference: true }), run(0, [])]);
  assert.deepEqual(
    drawn.map((each) => each.run.number),
    [1, 6, 7, 8, 9],
  );
  assert.deepEqual(
    drawn.map((each) => each.mark),
    [0, 1, 2, 3, 4],
  );
  assert.equal(drawn.length, MOST);
});

test("a loss stands above its step, more of it higher up, and equal runs are marked at other steps", () => {
  const long = run(2, [3, 2, 1.5, 1], { taken: 40, stride: 10 });
  const { lines, x, y, up, across } = curvesOf([run(3, [3, 2, 1.5, 1], { taken: 40, stride: 10 }), long]);
  assert.deepEqual(lines[0].points, lines[1].points);
  assert.deepEqual(
    lines[0].points.map(([px]) => px),
    [1, 11, 21, 31].map(x),
  );
  assert.ok(y(3) < y(2) && y(2) < y(1));
  assert.ok(up.every((tick) => y(tick) >= 0 && y(tick) <= y(0.9)));
  assert.equal(across[0], 1);
  const many = run(
    5,
    Array.from({ length: 60 }, (_, i) => 3 - i / 60),
  );
  const marks = curvesOf([run(6, many.losses), many]).lines.map((line) => line.marked.map(String));
  assert.equal(marks[0].filter((each) => marks[1].includes(each)).length, 0);
});

test("losses that are no numbers are left out", () => {
  const { lines } = curvesOf([run(1, [2, Number.NaN, Number.POSITIVE_INFINITY, 1])]);
  assert.equal(lines[0].points.length, 2);
  assert.deepEqual(drawnRuns([run(1, [Number.NaN])]), []);
});
