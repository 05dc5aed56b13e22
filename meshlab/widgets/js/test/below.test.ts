/** What the sign at the edge of the stage says is below. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { wordsOf } from "../src/below.ts";

test("rows of a list are counted, else the next heading is named", () => {
  assert.equal(wordsOf({ rows: 1, heading: "by source line" }), "↓ 1 more row");
  assert.equal(wordsOf({ rows: 1200, heading: "" }), "↓ 1,200 more rows");
  assert.equal(wordsOf({ rows: 0, heading: "by source line" }), "↓ by source line");
  assert.equal(wordsOf({ rows: 0, heading: "" }), "↓ more");
});
