/** What a drop would make of a goal's conditions, from its price alone. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { after, goalText } from "../src/goal.ts";
import type { Condition, Goal } from "../src/types.ts";
import { price, refusal } from "./views.ts";

const condition = (figures: Partial<Condition>): Condition => ({
  text: "sends at most 8 kB",
  state: "missed",
  value: "9.00 kB",
  because: "",
  price: "bytes",
  most: 8000,
  ...figures,
});

test("a price meets a bound, or misses it", () => {
  assert.deepEqual(after(condition({}), price({ bytes: 8000 })), { state: "met", value: "8.00 kB" });
  assert.deepEqual(after(condition({}), price({ bytes: 8001 })), { state: "missed", value: "8.00 kB" });
  const step = condition({ price: "seconds", most: 0.09 });
  assert.deepEqual(after(step, price({ seconds: 0.05 })), { state: "met", value: "50 ms" });
  const busy = condition({ price: "work", most: 0.2525 });
  assert.deepEqual(after(busy, price({ work: 0.25 })), { state: "met", value: "25% each" });
  const fits = condition({ price: "peak", most: 16e9, value: "20.0 GB of 16.0 GB" });
  assert.deepEqual(after(fits, price({ peak: 12e9 })), { state: "met", value: "12.0 GB" });
});

test("what a price does not tell, or does not change, is not said", () => {
  assert.equal(after(condition({}), undefined), null);
  assert.equal(after(condition({}), { refused: refusal }), null);
  assert.equal(after(condition({ price: null }), price({ bytes: 1 })), null);
  assert.equal(after(condition({ price: "seconds" }), price({ seconds: null })), null);
  assert.equal(after(condition({ price: "peak" }), price({ peak: null })), null);
  assert.equal(after(condition({}), price({ bytes: 9000 })), null);
});

test("the status line begins with a capital, and waits for costs", () => {
  const goal = { conditions: [], met: true, pending: false, heading: "goal met: its condition holds", quiet: false };
  assert.equal(goalText({ goal }), "Goal met: its condition holds.");
  assert.equal(goalText({ goal: { ...goal, pending: true } as Goal }), "");
  assert.equal(goalText({ goal: null }), "");
});
