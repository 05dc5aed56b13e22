/** The schedule of a pipeline: which cell is at a place, where keys lead, what is in flight, and what is drawn. */
import assert from "node:assert/strict";
import test from "node:test";
import { cellsPath, inFlight, moved, nearest } from "../src/schedule.ts";

// Two stages of 1F1B with two micro-batches: the first waits in the middle, the second at both ends.
const FIRST = { begin: [0, 1, 4, 6], end: [1, 2, 6, 8], backward: [false, false, true, true], micro: [0, 1, 0, 1] };
const SECOND = { begin: [1, 2, 4, 5], end: [2, 4, 5, 7], backward: [false, true, false, true], micro: [0, 0, 1, 1] };
const LANES = [FIRST, SECOND].map((cells) => ({ waits: 1, text: "1 s", cells: { ...cells, chunk: [0, 1, 0, 1] } }));

test("a place is in a cell, or nearest to one", () => {
  const { cells } = LANES[0];
  assert.deepEqual(
    [0.5, 1.5, 2.4, 3.9, 7, 9].map((time) => nearest(cells, time)),
    [0, 1, 1, 2, 3, 3],
  );
});

test("a micro-batch is in flight from its forward cell until its backward one has ended", () => {
  const count = (lane: number) => LANES[lane].cells.begin.map((_, i) => inFlight(LANES[lane].cells, i));
  assert.deepEqual(count(0), [1, 2, 2, 1]);
  assert.deepEqual(count(1), [1, 1, 1, 1]);
});

test("keys lead through the cells of a stage, and to those beside them in time", () => {
  assert.deepEqual(moved(LANES, 0, -1, "ArrowRight"), [0, 0]);
  assert.deepEqual(moved(LANES, 0, 1, "ArrowRight"), [0, 2]);
  assert.deepEqual(moved(LANES, 0, 0, "ArrowLeft"), [0, 0]);
  assert.deepEqual(moved(LANES, 0, 0, "End"), [0, 3]);
  assert.deepEqual(moved(LANES, 0, 2, "ArrowDown"), [1, 2]);
  assert.deepEqual(moved(LANES, 1, 1, "ArrowUp"), [0, 1]);
  assert.equal(moved(LANES, 1, 1, "ArrowDown"), null);
  // What is looked at is of another layout's schedule.
  assert.deepEqual(moved(LANES, 5, 3, "ArrowLeft"), [0, 0]);
});

test("forward and backward cells are drawn apart, and odd chunks less high", () => {
  const { cells } = LANES[0];
  assert.equal(cellsPath(cells, 10, false), "M0.0 0V12H1000.0V0ZM1000.0 4V12H2000.0V4Z");
  assert.equal(cellsPath(cells, 10, true), "M4000.0 0V12H6000.0V0ZM6000.0 4V12H8000.0V4Z");
});
