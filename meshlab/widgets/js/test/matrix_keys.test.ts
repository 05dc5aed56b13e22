import assert from "node:assert/strict";
import { test } from "node:test";

import { cellAt } from "../src/matrix_keys.ts";
import type { MatrixCell } from "../src/types.ts";

// A ring of four in which 2 sends nothing, and 3 sends twice.
const CELLS: MatrixCell[] = [
  [0, 1, 8, ["x"]],
  [1, 2, 8, ["x"]],
  [3, 0, 8, ["x"]],
  [3, 2, 4, ["y"]],
];

test("arrow keys go from cell to cell, and end where the cells do", () => {
  assert.equal(cellAt(CELLS, 0, "ArrowRight"), 1);
  assert.equal(cellAt(CELLS, 3, "ArrowRight"), 3);
  assert.equal(cellAt(CELLS, 0, "ArrowLeft"), 0);
  assert.deepEqual(
    ["Home", "End"].map((key) => cellAt(CELLS, 2, key)),
    [0, 3],
  );
});

test("up and down go to the nearest cell of the next row that has one", () => {
  assert.equal(cellAt(CELLS, 1, "ArrowDown"), 3);
  assert.equal(cellAt(CELLS, 2, "ArrowUp"), 1);
  assert.equal(cellAt(CELLS, 0, "ArrowUp"), 0);
  assert.equal(cellAt(CELLS, 3, "ArrowDown"), 3);
});

test("other keys go nowhere", () => {
  assert.equal(cellAt(CELLS, 0, "Tab"), null);
});
