/** A value of the step stands in the list with what tells it from others. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { valueText } from "../src/look.ts";

const value = { name: "hidden", dims: ["batch", "hidden"], shape: [8, 16], source: "net.py:27", times: 1 };

test("a value has its name, its dims and its line", () => {
  assert.equal(valueText(value), "hidden   batch 8 · hidden 16   net.py:27");
  assert.equal(valueText({ ...value, times: 12 }), "hidden   batch 8 · hidden 16   12 times   net.py:27");
  assert.equal(valueText({ ...value, name: "net.py:27" }), "net.py:27   batch 8 · hidden 16", "the line is its name");
  assert.equal(valueText({ name: "out/0", dims: [], shape: [], source: "", times: 1 }), "out/0   scalar");
});
