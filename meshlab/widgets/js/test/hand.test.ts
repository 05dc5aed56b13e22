/** What zones say to a chip, and what a drop sends. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { axesAfter, dropIntent, nextLegal, partsOf, TRAY, verdict, zoneName, zoneOf, zonesOf } from "../src/hand.ts";
import type { View } from "../src/types.ts";
import { classes, hand, refusal, view } from "./views.ts";

test("a drop moves a dim, or adds an axis, or takes one away", () => {
  assert.deepEqual(axesAfter(view, hand("hidden", "data"), "model"), ["model"]);
  assert.deepEqual(axesAfter(view, hand("hidden", "data", true), "model"), ["data", "model"]);
  assert.deepEqual(axesAfter(view, hand("hidden", "data"), TRAY), []);
  const axes = ["model"];
  assert.deepEqual(dropIntent(view, hand("hidden", "data"), "model"), { op: "place", args: { dim: "hidden", axes } });
  assert.deepEqual(dropIntent(view, hand("hidden", "data"), TRAY), { op: "remove", args: { dim: "hidden" } });
});

test("a drop on an axis in time is added behind the axes of devices, and one of devices goes in front of it", () => {
  const { size } = view.mesh;
  const mesh = { axes: [...view.mesh.axes, { name: "micro", size: 4, inTime: true }], size };
  const timed = { ...view, mesh } as View;
  assert.deepEqual(axesAfter(timed, hand("hidden", "data"), "micro"), ["data", "micro"]);
  assert.deepEqual(axesAfter(timed, hand("classes", TRAY), "micro"), ["micro"]);
  const compute = { ...view.columns[0], rules: { hidden: ["data", "micro"] } };
  const both = { ...timed, columns: [compute, ...view.columns.slice(1)] };
  assert.deepEqual(axesAfter(both, hand("hidden", "data"), "model"), ["model", "micro"]);
  assert.deepEqual(axesAfter(both, hand("hidden", "data", true), "model"), ["data", "model", "micro"]);
  assert.deepEqual(axesAfter(both, hand("hidden", "micro"), TRAY), ["data"]);
  assert.deepEqual(axesAfter(both, hand("hidden", "data"), "micro"), ["data", "micro"]);
});

test("of several axes a chip moves its own", () => {
  const both = hand("rows", "data");
  assert.deepEqual(axesAfter(view, both, TRAY), ["model"]);
  assert.deepEqual(axesAfter(view, both, "model"), ["model"]);
  assert.deepEqual(axesAfter(view, hand("rows", "model"), "data"), ["data"]);
});

test("a zone is an axis in a column, but where a column takes no rules", () => {
  assert.deepEqual(zonesOf(view), ["data", "data@params/*", "model", "model@params/*", TRAY]);
  for (const zone of zonesOf(view)) assert.equal(zoneOf(partsOf(zone).axis, partsOf(zone).at), zone);
  assert.deepEqual(partsOf("model@a@b"), { axis: "model", at: "a@b" });
  assert.equal(zoneName(view, "model@params/*"), "model, for params");
  assert.equal(zoneName(view, TRAY), "unsharded");
});

test("a drop at a place makes a rule there, and takes away the one that was moved", () => {
  const at = "params/*";
  const axes = ["model"];
  const stored = { op: "place", args: { dim: "classes", at, axes } };
  assert.deepEqual(dropIntent(view, hand("classes", TRAY), "model@params/*"), stored);
  const moved = { op: "place", args: { dim: "hidden", at, source: "", axes } };
  assert.deepEqual(dropIntent(view, hand("hidden", "data"), "model@params/*"), moved);
  const added = { op: "place", args: { dim: "hidden", at, axes: ["model"] } };
  assert.deepEqual(dropIntent(view, hand("hidden", "data", true), "model@params/*"), added);
  const back = { op: "place", args: { dim: "cols", source: at, axes: ["data"] } };
  assert.deepEqual(dropIntent(view, hand("cols", "data@params/*"), "data"), back);
  assert.deepEqual(dropIntent(view, hand("cols", "data@params/*"), TRAY), { op: "remove", args: { dim: "cols", at } });
});

test("a zone says what each device would hold, or why not", () => {
  assert.deepEqual(verdict(view, hand("hidden", "data"), "model"), { state: "legal", note: "4 of 16 on each device" });
  assert.deepEqual(verdict(view, hand("hidden", "data", true), "model").note, "2 of 16 on each device");
  assert.equal(verdict(view, hand("hidden", "data"), "data").state, "here");
  const said = verdict(view, hand("classes", TRAY), "model");
  assert.deepEqual([said.state, said.note, said.refusal?.fix], ["refused", refusal.text, refusal.fix]);
  assert.equal(verdict(view, hand("cols", "data@params/*"), TRAY).note, "stored as it is computed");
  assert.equal(verdict(view, hand("hidden", "data"), TRAY).note, "all 16");
});

test("what Python said of a zone counts, also where the page knew of no refusal", () => {
  const stored = hand("hidden", TRAY);
  assert.equal(verdict(view, stored, "model@params/*").state, "legal");
  const said = verdict(view, stored, "model@params/*", { refused: classes });
  assert.deepEqual([said.state, said.refusal?.columns], ["refused", classes.columns]);
});

test("the keyboard passes over zones that refuse", () => {
  const held = hand("classes", TRAY);
  assert.equal(nextLegal(view, held, "ArrowRight"), "data");
  assert.equal(nextLegal(view, { ...held, target: "data" }, "ArrowRight"), "data@params/*");
  const stored = (zone: string) => (partsOf(zone).at ? { refused: refusal } : undefined);
  assert.equal(nextLegal(view, { ...held, target: "data" }, "ArrowRight", stored), "data");
  assert.equal(nextLegal(view, hand("hidden", "data"), "ArrowLeft"), TRAY);
  const none = { refused: refusal };
  for (const arrow of ["ArrowRight", "ArrowDown"] as const)
    assert.equal(
      nextLegal(view, held, arrow, () => none),
      null,
    );
});

test("down and up go to the next row that takes the chip, there to the nearest zone", () => {
  assert.equal(nextLegal(view, hand("hidden", "data"), "ArrowDown"), "model");
  assert.equal(nextLegal(view, { ...hand("hidden", "data"), target: "model" }, "ArrowDown"), TRAY);
  const held = { ...hand("classes", TRAY), target: "data" };
  // `model` refuses it in this column; the row goes on.
  assert.equal(nextLegal(view, held, "ArrowDown"), "model@params/*");
  assert.equal(nextLegal(view, { ...held, target: "model@params/*" }, "ArrowUp"), "data@params/*");
});
