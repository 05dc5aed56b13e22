/** What searches keep to: what keeps a dim off a mesh axis or lets it, and what is proved of an answer. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { isNever, isSilent, neverIntent } from "../src/keeps.ts";
import { provedText } from "../src/search.ts";

const kept = { forbidden: { vocab: ["model"] }, silent: ["data"], memory: "90%", seconds: "", rules: [], space: "" };

test("a dim is kept off a mesh axis, or let there again", () => {
  assert.deepEqual(neverIntent({ kept }, "vocab", "model"), { op: "allow", args: { dim: "vocab", axis: "model" } });
  assert.deepEqual(neverIntent({ kept }, "vocab", "data"), { op: "forbid", args: { dim: "vocab", axis: "data" } });
  assert.deepEqual(neverIntent({ kept }, "batch", "model").op, "forbid");
  assert.ok(isNever({ kept }, "vocab", "model") && !isNever({ kept }, "batch", "model"));
  assert.ok(isSilent({ kept }, "data") && !isSilent({ kept }, "model"));
});

test("what is proved is said in words", () => {
  const texts = { value: "2 s", bound: "1.5 s", seconds: "1 s", gap: "25%" };
  assert.equal(provedText({ gap: 0, texts }), "✓ proved: no searched layout costs less");
  assert.equal(provedText({ gap: 0.25, texts }), "not proved, gap 25%: every searched layout costs at least 1.5 s");
  const close = { ...texts, bound: "1.99 s", gap: "0.5%" };
  assert.equal(
    provedText({ gap: 0.005, texts: close }),
    "✓ proved within 0.5%: every searched layout costs at least 1.99 s",
  );
});
