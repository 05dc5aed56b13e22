/** What goes on in Python, so that the board must keep an eye on it. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { isUnderWay } from "../src/silence.ts";

const underWay = (view: object, current: object | null): boolean =>
  isUnderWay({ pending: false, search: null, tracing: null, ...view } as any, {
    current: current as any,
    runs: [],
    note: "",
    chart: null,
  });

test("a run, a look into it, a search, a tracing and pending costs are under way while they go on", () => {
  assert.equal(underWay({}, null), false);
  for (const phase of ["compiling", "running"]) assert.equal(underWay({}, { phase }), true);
  for (const phase of ["done", "cancelled", "failed"]) assert.equal(underWay({}, { phase }), false);
  assert.equal(underWay({ pending: true }, null), true);
  assert.equal(underWay({ search: { phase: "searching" } }, null), true);
  assert.equal(underWay({ search: { phase: "found" } }, null), false);
  assert.equal(underWay({ tracing: { phase: "tracing" } }, null), true);
  assert.equal(underWay({ look: { phase: "working" } }, null), true);
  assert.equal(underWay({ look: { phase: "done" } }, null), false);
});
