/** Which step is looked at, which drawn point shows it, and how it is marked. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { nothingChosen } from "../src/chosen.ts";
import { momentOf, positionOf, withMoment } from "../src/moments.ts";

test("of no step that there still is, the peak is looked at", () => {
  const chosen = nothingChosen();
  const peak = { at: 3, steps: 10 };
  assert.equal(momentOf({ chosen }, peak), 3);
  assert.equal(momentOf({ chosen: { ...chosen, instant: 0 } }, peak), 0);
  assert.equal(momentOf({ chosen: { ...chosen, instant: 9 } }, peak), 9);
  assert.equal(momentOf({ chosen: { ...chosen, instant: 10 } }, peak), 3);
});

test("a step that is not drawn is shown by the nearest that is", () => {
  assert.equal(positionOf([2, 5, 11], 5), 1);
  assert.equal(positionOf([2, 5, 11], 0), 0);
  assert.equal(positionOf([2, 5, 11], 9), 2);
  assert.equal(positionOf([2, 5, 11], 99), 2);
});

test("a moment is marked in a copy, which stays the same while it does", () => {
  const curve = {
    x: [0, 1, 2],
    y: [5, 9, 4],
    customdata: [
      ["dot", "5 B", ""],
      ["add", "9 B", ""],
      ["exp", "4 B", ""],
    ],
  };
  const chart = { data: [curve, { name: "moment", x: [1, 1], y: [0, 9] }], layout: { uirevision: 7 }, label: "" };
  const marked = withMoment(chart, 2);
  assert.deepEqual(marked.data[1], { name: "moment", x: [2, 2], y: [0, 4], text: ["", "4 B"] });
  assert.equal(marked.data[0], curve);
  assert.equal(marked.layout, chart.layout);
  assert.deepEqual(chart.data[1].x, [1, 1]);
  assert.equal(withMoment(chart, 2), marked);
  assert.notEqual(withMoment(chart, 0), marked);
});
