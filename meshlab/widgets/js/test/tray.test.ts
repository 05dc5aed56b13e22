import assert from "node:assert/strict";
import { test } from "node:test";
import { arranged, whyUnfit } from "../src/tray.ts";

const chips = ["a", "b", "c"].map((name) => ({ name, size: 8, axes: [], local: 8 }));
const names = (some: { name: string }[]) => some.map(({ name }) => name);

test("until advice has gone through all zones dims are as they are", () => {
  assert.deepEqual(arranged({ ranked: null }, chips), { fit: chips, unfit: [], best: null });
});

test("the dim with the best zone comes first, those that no zone takes are folded", () => {
  const ranked = [
    { dim: "c", helps: true },
    { dim: "z", helps: true },
    { dim: "a", helps: false },
  ];
  const { fit, unfit, best } = arranged({ ranked }, chips);
  assert.deepEqual([names(fit), names(unfit), best], [["c", "a"], ["b"], "c"]);
});

test("what does not help has no star", () => {
  const { best } = arranged({ ranked: [{ dim: "a", helps: false }] }, chips);
  assert.equal(best, null);
});

test("a reason is said once", () => {
  const refusal = { code: "x", text: "It does not divide.", fix: "" };
  assert.equal(whyUnfit({ refusals: { a: { x: refusal, y: refusal } } }, "a"), "It does not divide.");
  assert.equal(whyUnfit({ refusals: { a: { x: null } } }, "b"), "No zone takes it.");
});
