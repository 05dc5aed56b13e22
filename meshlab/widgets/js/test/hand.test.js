// @ts-check
/** What zones say to a chip, and what a drop sends. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { axesAfter, dropIntent, nextLegal, TRAY, verdict } from "../src/hand.js";

/** @typedef {import("../src/hand.js").Hand} Hand */

const refusal = { code: "size", text: "10 is not divided by 4.", fix: "use `data`", source: "" };
const view = /** @type {import("../src/types.js").View} */ (
  /** @type {unknown} */ ({
    mesh: {
      axes: [
        { name: "data", size: 2 },
        { name: "model", size: 4 },
      ],
      size: 8,
    },
    chips: [
      { name: "hidden", size: 16, axes: ["data"], local: 8 },
      { name: "classes", size: 10, axes: [], local: 10 },
    ],
    refusals: { hidden: { data: null, model: null }, classes: { data: null, model: refusal } },
    additions: { hidden: { model: null } },
  })
);

/** @type {(dim: string, from: string, add?: boolean) => Hand} */
const hand = (dim, from, add = false) => ({ dim, from, by: "pointer", target: null, add });

test("a drop moves a dim, or adds an axis, or takes one away", () => {
  assert.deepEqual(axesAfter(view, hand("hidden", "data"), "model"), ["model"]);
  assert.deepEqual(axesAfter(view, hand("hidden", "data", true), "model"), ["data", "model"]);
  assert.deepEqual(axesAfter(view, hand("hidden", "data"), TRAY), []);
  const axes = ["model"];
  assert.deepEqual(dropIntent(view, hand("hidden", "data"), "model"), { op: "place", args: { dim: "hidden", axes } });
  assert.deepEqual(dropIntent(view, hand("hidden", "data"), TRAY), { op: "remove", args: { dim: "hidden" } });
});

test("a zone says what each device would hold, or why not", () => {
  assert.deepEqual(verdict(view, hand("hidden", "data"), "model"), { state: "legal", note: "4 of 16 on each device" });
  assert.deepEqual(verdict(view, hand("hidden", "data", true), "model").note, "2 of 16 on each device");
  assert.equal(verdict(view, hand("hidden", "data"), "data").state, "here");
  const said = verdict(view, hand("classes", TRAY), "model");
  assert.deepEqual([said.state, said.note, said.refusal?.fix], ["refused", refusal.text, refusal.fix]);
});

test("the keyboard passes over zones that refuse", () => {
  assert.equal(nextLegal(view, hand("classes", TRAY), 1), "data");
  assert.equal(nextLegal(view, { ...hand("classes", TRAY), target: "data" }, 1), "data");
  assert.equal(nextLegal(view, hand("hidden", "data"), 1), "model");
  assert.equal(nextLegal(view, hand("hidden", "data"), -1), TRAY);
});
