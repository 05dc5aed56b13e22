// @ts-check
/** What the timeline says of a segment, and which collective of the plan it draws. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { zoomed } from "../src/enlarged.js";
import { decades } from "../src/roofline.js";
import { collectiveOf, titleOf } from "../src/timeline.js";
import { view } from "./views.js";

/** @typedef {import("../src/types.js").Segment} Segment */
/** @typedef {import("../src/types.js").Collective} Collective */

/** @type {(parts: Partial<Segment>) => Segment} */
const segment = (parts) => ({
  begin: 0.5,
  end: 0.75,
  seconds: 0.25,
  kind: "all-reduce",
  times: 1,
  name: "loss",
  dims: [],
  source: "",
  ...parts,
});

test("a segment is named by what runs, over what, how often, and for how long", () => {
  assert.equal(titleOf(segment({ kind: "compute", name: "dot", dims: ["batch"] }), ""), "dot [batch], 250 ms");
  assert.equal(titleOf(segment({}), "data"), "all-reduce over data: loss, 250 ms");
  const often = segment({ times: 1200, dims: ["batch", "hidden"] });
  assert.equal(titleOf(often, "data+model"), "all-reduce over data+model × 1,200: loss [batch hidden], 250 ms");
});

/** @type {(parts: Partial<Collective>) => Collective} */
const row = (parts) =>
  /** @type {Collective} */ ({ kind: "all-reduce", key: "data", value: "x", dims: ["batch"], times: 1, ...parts });

/** @param {Collective[]} rows */
const planned = (...rows) => ({ ...view, collectives: { rows, count: rows.length, left_out: 0 } });

test("a segment's collective has its kind, its axes and its name", () => {
  const other = row({ value: "loss", kind: "all-gather" });
  const elsewhere = row({ value: "loss", key: "model" });
  const mine = row({ value: "loss" });
  assert.equal(collectiveOf(planned(other, elsewhere, row({}), mine), segment({}), "data"), mine);
  assert.equal(collectiveOf(planned(other, elsewhere), segment({}), "data"), undefined);
});

test("where no name is the same, the dims are, if possible as often", () => {
  const looped = segment({ name: "?", dims: ["batch"], times: 3 });
  const once = row({});
  const often = row({ times: 3 });
  assert.equal(collectiveOf(planned(once, often), looped, "data"), often);
  assert.equal(collectiveOf(planned(row({ dims: ["hidden"] }), once), looped, "data"), once);
  assert.equal(collectiveOf(planned(row({ dims: ["hidden"] })), looped, "data"), undefined);
});

test("zoom doubles, halves, goes back to the whole, and has an end on both sides", () => {
  assert.equal(zoomed(1, 2), 2);
  assert.equal(zoomed(4, 0.5), 2);
  assert.equal(zoomed(1, 0.5), 1);
  assert.equal(zoomed(64, 2), 64);
  assert.equal(zoomed(16, 0), 1);
});

test("an axis of powers has all values inside", () => {
  for (const values of [[1.6, 240], [1e11, 1.97e14], [5]]) {
    const [low, high] = decades(values);
    assert.ok(values.every((value) => 10 ** low < value && value < 10 ** high));
  }
});
