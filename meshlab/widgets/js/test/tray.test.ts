import assert from "node:assert/strict";
import { test } from "node:test";
import { advised, whyUnfit } from "../src/tray.ts";

const chips = ["a", "b", "c"].map((name) => ({ name, size: 8, axes: [], local: 8 }));

test("until advice has gone through all zones no dim has a mark", () => {
  assert.deepEqual(advised({ ranked: null }, chips), { unfit: [], best: null });
});

test("the dim with the best zone is known, and those that no zone takes", () => {
  const ranked = [
    { dim: "z", helps: true },
    { dim: "c", helps: true },
    { dim: "a", helps: false },
  ];
  assert.deepEqual(advised({ ranked }, chips), { unfit: [chips[1]], best: "c" });
});

test("what does not help has no star", () => {
  assert.equal(advised({ ranked: [{ dim: "a", helps: false }] }, chips).best, null);
});

test("a reason is said once", () => {
  const refusal = { code: "x", text: "It does not divide.", fix: "" };
  assert.equal(whyUnfit({ refusals: { a: { x: refusal, y: refusal } } }, "a"), "It does not divide.");
  assert.equal(whyUnfit({ refusals: { a: { x: null } } }, "b"), "");
});
