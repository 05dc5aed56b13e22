/** Colours of the theme in a chart's data, and how far a button zooms. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { coloured, scaled } from "../src/charts.ts";

test("variables become colours at any depth, in a copy, and nothing else changes", () => {
  const data = [
    { line: { color: "var(--ink)", width: 2 }, text: ["var(--ink) in a sentence"], y: [1, null], on: true },
  ];
  const made = coloured(data, (name) => ({ "--ink": "#171b22" })[name] ?? "none");
  assert.deepEqual(made, [
    { line: { color: "#171b22", width: 2 }, text: ["var(--ink) in a sentence"], y: [1, null], on: true },
  ]);
  assert.equal(data[0].line.color, "var(--ink)");
});

test("a step of zooming keeps the middle", () => {
  assert.deepEqual(scaled([0, 8], 0.5), [2, 6]);
  assert.deepEqual(scaled(scaled([-3, 8], 0.5), 2), [-3, 8]);
});
