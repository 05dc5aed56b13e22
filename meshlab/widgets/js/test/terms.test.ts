import assert from "node:assert/strict";
import { test } from "node:test";
import { firstTerm, learn, TERMS } from "../src/terms.ts";

learn({ "all-reduce": "Each device has the sum." });

test("each term has a sentence", () => {
  for (const [term, text] of Object.entries(TERMS)) {
    assert.match(text, /^[A-Z].*\.$/, term);
  }
});

test("terms are found in text, in the plural and at its beginning too", () => {
  const found = (text: string) => {
    const term = firstTerm(text);
    return term && [term.term, text.slice(term.start, term.end)];
  };
  assert.deepEqual(found("2 all-reduces over data"), ["all-reduce", "all-reduces"]);
  assert.deepEqual(found("Wire bytes that one device sends"), ["wire bytes", "Wire bytes"]);
  assert.deepEqual(found("the preset ZeRO-2, say"), ["ZeRO", "ZeRO-2"]);
  assert.deepEqual(found("the peak of a device"), ["peak memory", "peak"]);
  assert.deepEqual(found("the peak memory of a device"), ["peak memory", "peak memory"]);
  assert.deepEqual(found("on the Pareto front"), ["Pareto front", "Pareto front"]);
  assert.deepEqual(found("a Pareto set"), ["Pareto front", "Pareto"]);
});

test("what is part of another word is no term", () => {
  for (const text of ["a gap-free row", "impartial", "repeaks", "my-gap", ""])
    assert.equal(firstTerm(text), null, text);
});

test("terms that are known already are passed over", () => {
  assert.equal(firstTerm("replicated, and replicated", new Set(["replicated"])), null);
  assert.equal(firstTerm("replicated or sharded", new Set(["replicated"]))?.term, "sharded");
});
