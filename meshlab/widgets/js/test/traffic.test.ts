/** The table of collectives sorts and filters, and the cells of the matrix have levels. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { counted, matches, sorted } from "../src/collectives.ts";
import { levelOf, levelsOf } from "../src/matrix.ts";
import type { Collective } from "../src/types.ts";
import { view } from "./views.ts";

const row = (parts: Partial<Collective>): Collective =>
  ({
    kind: "all-reduce",
    key: "data",
    value: "x",
    dims: ["batch"],
    dtype: "float32",
    source: "model.py:3",
    code: "",
    because: "`batch` is summed.",
    ...parts,
  }) as Collective;

test("numbers sort as numbers and names as words, equal ones as they came", () => {
  const rows = [row({ total: 9, value: "w10" }), row({ total: 100, value: "w2" }), row({ total: 9, value: "w1" })];
  const [a, b, c] = rows;
  assert.deepEqual(sorted(rows, { by: "total", down: true }), [b, a, c]);
  assert.deepEqual(sorted(rows, { by: "total", down: false }), [a, c, b]);
  assert.deepEqual(sorted(rows, { by: "value", down: false }), [c, b, a]);
});

test("a filter finds all its words in whatever a row says", () => {
  const one = row({ kind: "all-gather", key: "data+model" });
  assert.ok(matches(one, "GATHER model.py"));
  assert.ok(matches(one, "summed float32 batch"));
  assert.ok(!matches(one, "gather expert"));
  assert.ok(matches(one, ""));
});

test("what is counted says how many match", () => {
  const rows = [row({}), row({})];
  const shown = { ...view, collectives: { rows, count: 40, left_out: 1 } };
  assert.equal(counted(shown, 2), "3 collectives, which a step executes 40 times.");
  assert.equal(counted(shown, 1), "3 collectives, which a step executes 40 times. 1 of them match.");
});

test("few different bytes are levels of their own, many are powers", () => {
  assert.deepEqual(levelsOf([5, 10, 10, 5.0000001]), [10, 5.0000001]);
  const many = levelsOf([1, 2, 5, 10, 50, 100, 1000, 100000]);
  assert.equal(many.length, 5);
  assert.equal(levelOf(many, 100000), 0);
  assert.equal(levelOf(many, 1), 4);
  assert.ok(many.every((level, i) => i === 0 || level < many[i - 1]));
});
