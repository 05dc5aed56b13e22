/** Which layouts are best, how they differ from the baseline, and where their dots lie. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { againstBaseline } from "../src/baseline.ts";
import { documentOf } from "../src/beside.ts";
import { bestOf, columnsOf } from "../src/cards.ts";
import { faster, relative } from "../src/format.ts";
import { pareto, scaleOf } from "../src/scales.ts";
import { dotsOf } from "../src/scatter.ts";
import type { Card, Totals, View } from "../src/types.ts";

const totals: (seconds: number | null, peak: number | null, fits?: boolean | null) => Totals = (
  seconds,
  peak,
  fits = true,
) => ({
  bytes: 100 * (seconds ?? 1),
  arguments: 10,
  work: 0.5,
  collectives: 1,
  seconds,
  peak,
  fits,
});

const card: (key: string, totals: Totals | null, more?: object) => Card = (key, its, more = {}) => ({
  key,
  name: key,
  layout: "",
  mesh: "",
  load: { op: "load", args: { layout: { batch: "data" } } },
  now: false,
  baseline: false,
  machine: true,
  totals: its,
  ...more,
});

const view: (cards: object[], on?: string) => View = (cards, on = "v5e") =>
  ({ machine: { on }, document: '{"layout": {}, "schema": 2}', comparison: { cards } }) as any;

test("the front has what nothing is better than in both", () => {
  const points = [
    { x: 3, y: 1 },
    { x: 1, y: 9 },
    { x: 2, y: 5 },
    { x: 2.5, y: 5 },
    { x: 2, y: 5 },
    { x: 4, y: 2 },
  ];
  assert.deepEqual(pareto(points), [
    { x: 1, y: 9 },
    { x: 2, y: 5 },
    { x: 3, y: 1 },
  ]);
  assert.deepEqual(pareto([]), []);
});

test("a scale has room at both ends and round values beside it", () => {
  const near = scaleOf([40, 60]);
  assert.ok(near.at(40) > 0 && near.at(60) < 1);
  assert.deepEqual(near.ticks, [40, 50, 60]);
  const wide = scaleOf([1, 1000]);
  assert.ok(Math.abs(wide.at(10) - wide.at(1) - (wide.at(100) - wide.at(10))) < 1e-9);
  assert.deepEqual(wide.ticks, [1, 10, 100, 1000]);
  for (const values of [
    [0, 0],
    [5, 5],
    [0, 1e9],
  ]) {
    const scale = scaleOf(values);
    assert.ok(values.every((value) => scale.at(value) >= 0 && scale.at(value) <= 1));
    assert.ok(scale.ticks.length > 0 && scale.ticks.every(Number.isFinite));
  }
});

test("a layout is a dot when its totals are known", () => {
  const cards = [card("0", totals(2, 5)), card("1", null), card("2", totals(null, null, null))];
  assert.deepEqual(
    dotsOf(view(cards)).map(({ x, y }) => [x, y]),
    [[2, 5]],
  );
  assert.deepEqual(
    dotsOf(view(cards, "")).map(({ x, y }) => [x, y]),
    [
      [0.5, 200],
      [0.5, 100],
    ],
  );
});

test("the best fits, where any does", () => {
  const [step] = columnsOf(view([]));
  const over = card("1", totals(1, 99, false));
  assert.equal(bestOf(step, [card("0", totals(2, 5)), over, card("2", totals(3, 5))]), 2);
  assert.equal(bestOf(step, [over, card("2", totals(3, 99, false))]), 1);
  assert.equal(bestOf(step, [card("0", totals(2, 5)), card("1", null)]), null);
  assert.equal(bestOf(step, [card("0", totals(2, 5)), card("1", totals(2, 7))]), null);
});

test("without a machine bytes are compared among layouts that share the work alike", () => {
  const [work, sends] = columnsOf(view([], ""));
  const of = (share: number, bytes: number) => ({
    ...totals(null, null, null),
    work: share,
    bytes,
  });
  const cards = [card("0", of(1, 0)), card("1", of(0.25, 90)), card("2", of(0.25, 30))];
  assert.deepEqual([work.key, bestOf(work, cards), sends.key, bestOf(sends, cards)], ["work", 0.25, "sends", 30]);
});

test("the present layout is compared with the baseline, in seconds and from twice on by a factor", () => {
  const base = card("data parallel", totals(8, 5), { baseline: true });
  const against = (its: Totals | null) => againstBaseline(view([base, card("1", its, { now: true })]));
  assert.deepEqual(against(totals(2, 9))?.step, { text: "4× faster", sign: -6 });
  assert.equal(against(totals(20, 5))?.step.text, "2.5× slower");
  assert.equal(against(totals(9, 5))?.step.text, "+1 s");
  assert.deepEqual(against(totals(8.001, 5))?.step, { text: "", sign: 0 });
  assert.deepEqual(against(totals(2, 9))?.peak, { text: "+4 B", sign: 4 });
  assert.deepEqual(against(totals(8, 5))?.peak, { text: "", sign: 0 });
  assert.deepEqual(against({ ...totals(8, 5), work: 0.125 })?.work, { text: "from 50%", sign: -0.375 });
  assert.equal(against(totals(2, 9))?.sends.text, "−600 B");
  // What is not known yet is not said.
  assert.deepEqual(against(totals(null, null))?.step, { text: "", sign: 0 });
  assert.equal(against(null), null);
  assert.equal(againstBaseline(view([{ ...base, now: true }])), null);
});

test("nothing is the best while something is being worked out", () => {
  const [step, , sends] = columnsOf(view([]));
  const cards = [card("0", totals(2, 5)), card("1", totals(3, 5)), card("2", totals(null, null, null))];
  assert.equal(bestOf(step, cards), null);
  assert.equal(bestOf(sends, cards), 100);
  assert.equal(bestOf(step, cards.slice(0, 2)), 2);
  // Without a machine no step ever comes.
  assert.equal(bestOf(step, [...cards.slice(0, 2), { ...cards[2], machine: false }]), 2);
});

test("differences are percent, and from twice on a factor", () => {
  assert.deepEqual(
    [13, 130, 560, 100, 0, 99.97, 0.02, 104.4].map((value) => relative(value, 100)),
    ["−87%", "+30%", "× 5.6", "±0", "−100%", "±0", "−99.9%", "+4.4%"],
  );
  assert.deepEqual([faster(1, 30.2), faster(5, 1)], ["30× faster", "5× slower"]);
});

test("a baseline is sent as the present document with its layout", () => {
  assert.equal(documentOf(view([]), card("0", null)), '{"layout":{"batch":"data"},"schema":2}');
  const other = { load: { op: "restore", args: { document: "{}" } } };
  assert.equal(documentOf(view([]), card("0", null, other)), "{}");
});
