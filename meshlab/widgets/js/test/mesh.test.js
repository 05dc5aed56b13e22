// @ts-check
/** How rows of devices are broken into lines. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { lineOf } from "../src/mesh.js";

test("a row of devices is broken into equal lines where it has a divisor, none too long", () => {
  assert.deepEqual(
    [1, 8, 16, 24, 64, 256].map((columns) => lineOf(columns, 16)),
    [1, 8, 16, 12, 16, 16],
  );
  assert.deepEqual(
    [8, 12, 10, 64, 11].map((columns) => lineOf(columns, 8)),
    [8, 6, 5, 8, 8],
  );
});
