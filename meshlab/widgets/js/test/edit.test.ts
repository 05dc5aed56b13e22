/** What edits propose, and what a pin says. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { free, isIdle, leastPart, pinIntent, pinText, suggested, tracedText } from "../src/edit.ts";
import { TRAY } from "../src/hand.ts";

const pins = { batch: "data", rows: null };

test("a pin is put where the chip is, and taken off again", () => {
  const hidden = { op: "pin", args: { dim: "hidden", axis: "model" }, label: "Pin: on model in searches" };
  assert.deepEqual(pinIntent({ pins }, "hidden", "model"), hidden);
  assert.deepEqual(pinIntent({ pins }, "hidden", TRAY)?.args, { dim: "hidden" });
  assert.deepEqual(pinIntent({ pins }, "batch", "model")?.op, "unpin");
  assert.equal(pinIntent({ pins }, "hidden", "model@params/*"), null);
  assert.deepEqual(
    ["batch", "rows", "hidden"].map((dim) => pinText({ pins }, dim)),
    ["pinned to data", "pinned unsharded", ""],
  );
});

test("names and parts that are proposed are free", () => {
  assert.deepEqual([leastPart(8), leastPart(9), leastPart(7), leastPart(1)], [2, 3, null, null]);
  assert.equal(free("outer", ["data"]), "outer");
  assert.equal(free("outer", ["outer", "outer_2"]), "outer_3");
  assert.deepEqual(["~seq", "~seq_2", "~1"].map(suggested), ["seq_other", "seq_2_other", "dim_1"]);
});

test("a tracing is told of when it has ended", () => {
  assert.equal(tracedText(null), null);
  assert.equal(tracedText({ sizes: "batch=2", model: "", phase: "tracing", text: "" }), null);
  assert.equal(tracedText({ sizes: "batch=2", model: "", phase: "refused", text: "no" })?.mood, "refused");
  assert.match(tracedText({ sizes: "batch=2", model: "", phase: "done", text: "" })?.text ?? "", /batch=2/);
  assert.match(
    tracedText({ sizes: "", model: "mixtral-8x7b", phase: "done", text: "" })?.text ?? "",
    /^mixtral-8x7b is open/,
  );
});

test("a mesh axis is idle where no rule has it, at no place either", () => {
  const column: (rules: Record<string, string[]>, within?: Record<string, string[]>) => any = (rules, within = {}) => ({
    columns: [{ rules, within: [{ at: "params/w", rules: within }] }],
  });
  assert.ok(isIdle(column({ batch: ["data"] }), "model"));
  assert.ok(!isIdle(column({ batch: ["data", "model"] }), "model"));
  assert.ok(!isIdle(column({}, { hidden: ["model"] }), "model"));
});
