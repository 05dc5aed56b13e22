/** Colours of numbers go from 0 to both sides; a cell says what it is of the tensor; numbers are those of a run that ended. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { cellText, places, runOf, short, statisticText } from "../src/heat.ts";
import { ABOVE, BELOW, heatColour } from "../src/heat_scale.ts";
import { luminance } from "../src/identity.ts";

const job = (phase: string, taken: number): any => ({ current: { number: 3, phase, taken } });

test("there are numbers of the latest run, once it has ended after a step", () => {
  assert.equal(runOf(job("done", 5)), 3);
  assert.equal(runOf(job("cancelled", 2)), 3);
  assert.equal(runOf(job("failed", 2)), 3);
  assert.equal(runOf(job("failed", 0)), 0);
  assert.equal(runOf(job("running", 2)), 0);
  assert.equal(runOf(job("compiling", 0)), 0);
  assert.equal(runOf({ current: null } as any), 0);
  assert.equal(runOf(undefined), 0);
});

test("a scale begins at 0, or goes as far down as up", () => {
  assert.equal(heatColour(0, 2, false), ABOVE[0]);
  assert.equal(heatColour(2, 2, false), ABOVE[5]);
  assert.equal(heatColour(0, 2, true), ABOVE[0]);
  assert.equal(heatColour(2, 2, true), ABOVE[5]);
  assert.equal(heatColour(-2, 2, true), BELOW[5]);
  assert.equal(heatColour(-0.8, 2, true), BELOW[2]);
  assert.equal(heatColour(9, 2, true), ABOVE[5], "what is beyond has the last colour");
  assert.equal(heatColour(0, 0, true), ABOVE[0], "all are 0");
  assert.equal(heatColour(1, null, false), ABOVE[0], "no number is finite");
});

test("the further from 0 the darker, on both sides", () => {
  for (const side of [1, -1]) {
    const steps = Array.from({ length: 41 }, (_, i) => luminance(heatColour((side * i) / 40, 1, true)));
    assert.ok(steps.every((each, i) => i === 0 || each < steps[i - 1]));
  }
});

test("cells fill their block, each as long as its range", () => {
  assert.deepEqual(places([4, 6, 7, 8], 10, 20), [10, 20, 25, 30]);
  assert.deepEqual(places([5], 10, 0), [10]);
});

const shards = { place: "x", dims: ["a", "b", "c"], blocks: { facets: [], down: 0, across: 2 } } as any;
const cells = {
  statistic: "mean",
  blocks: [
    {
      down: [0, 1, 3],
      across: [8, 10, 12],
      values: [1, 2.5, null, 0.00012],
      least: [0, 0.5, null, 0],
      most: [2, 4, null, 1],
    },
  ],
} as any;
const said = (text: string) => text.replaceAll("\u2060", "");

test("a cell says its range, its number, and what is no number", () => {
  assert.equal(said(cellText(shards, cells, 0, 1)), "x at a 0, c 10–11: mean 2.5, from 0.5 to 4");
  assert.equal(said(cellText(shards, cells, 0, 2, [4, 1])), "x at a 1–2, c 8–9: 4 NaN, 1 infinite");
  assert.equal(said(cellText(shards, cells, 0, 3, [2, 0])), "x at a 1–2, c 10–11: mean 1.20e-4, from 0 to 1; 2 NaN");
  const scalar = { place: "loss", dims: [], blocks: { facets: [], down: -1, across: -1 } } as any;
  const one = { statistic: "value", blocks: [{ down: [0, 1], across: [0, 1], values: [-2.5] }] } as any;
  assert.equal(cellText(scalar, one, 0, 0), "loss: −2.5");
  const cube = { ...shards, blocks: { facets: [1], down: 0, across: 2 } };
  const part = { ...cells, blocks: [{ ...cells.blocks[0], facets: [[4, 6]] }] };
  assert.equal(said(cellText(cube, part, 0, 1)), "x at b 4–5, a 0, c 10–11: mean 2.5, from 0.5 to 4");
});

test("numbers are short and have a real minus", () => {
  assert.deepEqual([0, -0.123456, 1234567, 123456, 0.00001234, null].map(short), [
    "0",
    "−0.123",
    "1.23e+6",
    "123456",
    "1.23e-5",
    "none",
  ]);
});

test("it is said which number a cell shows", () => {
  const of = (each: any) => statisticText(each as any);
  assert.equal(of({ statistic: "value", each: [0, 1] }), "Each cell is one number");
  assert.equal(of({ statistic: "mean", each: [12, 16] }), "Each cell is the mean of 12 to 16 numbers");
  assert.equal(
    of({ statistic: "mean magnitude", each: [4, 4] }),
    "Each cell is the mean magnitude of 4 numbers, since numbers of both signs would cancel",
  );
  assert.equal(
    of({ statistic: "magnitude", complex: true, each: [1, 1] }),
    "Each cell is the magnitude of one complex number",
  );
  assert.equal(
    of({ statistic: "mean magnitude", complex: true, each: [4, 4] }),
    "Each cell is the mean magnitude of 4 complex numbers",
  );
});
