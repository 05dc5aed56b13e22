/** What the timeline says of a segment, and which collective of the plan it draws. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { zoomed } from "../src/enlarged.ts";
import { momentsOf, titleOf } from "../src/timeline.ts";
import type { Segment } from "../src/types.ts";

const segment = (parts: Partial<Segment>): Segment => ({
  begin: 0.5,
  end: 0.75,
  seconds: 0.25,
  kind: "all-reduce",
  times: 1,
  name: "loss",
  collective: null,
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

test("a moment is its collective and how many it has had before; of kernels that of the lane", () => {
  const sends = segment({ collective: "5f" });
  assert.deepEqual(
    momentsOf({ key: "data", segments: [sends, segment({ collective: null }), sends] }).map(({ id }) => id),
    ["5f#1", "data#1", "5f#2"],
  );
  assert.deepEqual(
    momentsOf({ key: "", segments: [segment({ collective: null })] }).map(({ id }) => id),
    ["compute#1"],
  );
});

test("zoom doubles, halves, goes back to the whole, and has an end on both sides", () => {
  assert.equal(zoomed(1, 2), 2);
  assert.equal(zoomed(4, 0.5), 2);
  assert.equal(zoomed(1, 0.5), 1);
  assert.equal(zoomed(64, 2), 64);
  assert.equal(zoomed(16, 0), 1);
});
