/** What the timeline says of a slice, how loops are laid out, what is drawn of a row, how it zooms, searches and adds up. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { blocksOf, pathOf, sliceAt } from "../src/step_blocks.ts";
import { stairs } from "../src/step_memory.ts";
import { coarseRows, exposedRow, type Facts, fineRows, type Row, within } from "../src/step_rows.ts";
import { next, search } from "../src/step_search.ts";
import { around, between, isWhole, panned, showing, zoomed } from "../src/step_sight.ts";
import { sumsOf } from "../src/step_sums.ts";
import { nameOf, titleOf } from "../src/step_words.ts";
import type { Segment, Step, Timeline } from "../src/types.ts";

const facts = (parts: Partial<Facts>): Facts => ({
  kind: "all-reduce",
  name: "loss",
  dims: "",
  source: "",
  code: "",
  collective: null,
  times: 1,
  bytes: 0,
  flops: 0,
  took: 0,
  waited: 0,
  loop: "",
  ...parts,
});

const segment = (parts: Partial<Segment>): Segment => ({
  begin: 0.5,
  end: 0.75,
  seconds: 0.25,
  kind: "all-reduce",
  times: 1,
  name: "loss",
  collective: null,
  dims: [],
  source: "",
  ...parts,
});

const timeline = (lanes: Timeline["lanes"], seconds: number = 1): Timeline => ({
  seconds,
  lanes,
  exposed: [],
  phases: [],
  loops: [],
  memory: [
    [0, 5],
    [0.5, 9],
  ],
});

/**
 * Two kernels, then a loop of four iterations with a kernel and what it sends over `data` in it, and a kernel behind it:
 * 1 s, and the loop from 0.2 to 0.8.
 */
const step: Step = {
  seconds: 1,
  depth: 2,
  lanes: ["", "data"],
  strings: ["", "loop", "scan", "compute", "dot", "all-reduce", "loss", "a.py:3", "batch hidden", "5f"],
  what: {
    kind: [3, 1, 3, 5],
    name: [4, 2, 4, 6],
    dims: [8, 0, 0, 8],
    source: [7, 7, 7, 7],
    code: [0, 0, 0, 0],
    collective: [0, 0, 0, 9],
    times: [1, 4, 4, 4],
    bytes: [0, 0, 0, 100],
    flops: [10, 0, 20, 0],
    took: [0.5, 0, 1.5, 0.25],
    waited: [0, 0, 0, 0.25],
  },
  slices: {
    row: [2, 0, 2, 3, 2],
    begin: [0, 0.2, 0.2, 0.4, 0.8],
    seconds: [0.2, 0.6, 0.2, 0.4, 0.2],
    what: [0, 1, 2, 3, 0],
    loop: [-1, -1, 0, 0, -1],
  },
  loops: [1],
  measured: true,
  memory: [
    [0, 5],
    [0.2, 6],
    [0.5, 8],
    [0.8, 5],
  ],
};
const near = (one: number, other: number) => assert.ok(Math.abs(one - other) < 1e-9, `${one} is not ${other}`);
const [loop] = ["loop 0"];
const laneOf = (rows: Row[], lane: string) => rows.find((row) => row.lane === lane) as Row;

test("a slice is named by what runs, over what, how often, and for how long", () => {
  assert.equal(titleOf(facts({ kind: "compute", name: "dot", dims: "batch" }), "", 0.25), "dot [batch], 250 ms");
  assert.equal(titleOf(facts({}), "data", 0.25), "all-reduce over data: loss, 250 ms");
  const often = facts({ times: 1200, dims: "batch hidden" });
  assert.equal(titleOf(often, "data+model", 0.25), "all-reduce over data+model × 1,200: loss [batch hidden], 250 ms");
  assert.equal(titleOf(facts({ kind: "loop", name: "scan", times: 32 }), null, 1), "scan × 32, 1 s");
  assert.equal(nameOf(facts({ kind: "repetition", name: "3 of 32" })), "repetition 3 of 32");
});

test("a moment is its collective and how many it has had before; of kernels that of the lane", () => {
  const sends = segment({ collective: "5f" });
  const lanes = [
    { key: "", segments: [segment({})] },
    { key: "data", segments: [sends, segment({}), sends] },
  ];
  const { lanes: rows } = coarseRows(timeline(lanes));
  assert.deepEqual([0, 1, 2].map(rows[1].id), ["5f#1", "data#1", "5f#2"]);
  assert.equal(rows[0].id(0), "compute#1");
  assert.equal(rows[1].find("5f#2"), 2);
  assert.equal(rows[1].find("5f#3"), -1);
});

test("a loop that is closed is one iteration over the time of all, and each has its own time where it is opened", () => {
  const closed = fineRows(step, new Set());
  assert.deepEqual(Array.from(closed.frames[0].begin), [0.2]);
  const [iterations] = [closed.frames[1]];
  assert.equal(iterations.begin.length, 1);
  assert.equal(iterations.facts(0).name, "iterations 1 to 4, drawn as one");
  assert.equal(iterations.facts(0).loop, closed.frames[0].facts(0).loop);
  assert.deepEqual(Array.from(laneOf(closed.lanes, "").begin), [0, 0.2, 0.8]);
  assert.equal(laneOf(closed.lanes, "data").facts(0).times, 4);

  const open = fineRows(step, new Set([loop]));
  assert.equal(open.frames[1].begin.length, 4);
  assert.equal(open.frames[1].facts(2).name, "iteration 3");
  const sent = laneOf(open.lanes, "data");
  assert.equal(sent.begin.length, 4);
  for (const i of [0, 1, 2, 3]) {
    near(sent.begin[i], 0.2 + 0.15 * i + 0.05);
    near(sent.end[i], 0.2 + 0.15 * (i + 1));
    assert.equal(sent.facts(i).times, 1);
  }
  assert.equal(laneOf(open.lanes, "").begin.length, 6);
  // Every slice has an id, by which it is found again.
  const ids = [0, 1, 2, 3].map(sent.id);
  assert.equal(new Set(ids).size, 4);
  assert.deepEqual(ids.map(sent.find), [0, 1, 2, 3]);
  assert.deepEqual(ids.map(laneOf(open.lanes, "").find), [-1, -1, -1, -1]);
});

test("memory is that of an iteration in each of them", () => {
  const { memory } = fineRows(step, new Set([loop]));
  assert.equal(memory.begin.length, 2 + 2 * 4);
  assert.deepEqual(
    Array.from(memory.begin).map((each) => Math.round(1000 * each)),
    [0, 200, 275, 350, 425, 500, 575, 650, 725, 800],
  );
  assert.deepEqual(Array.from(fineRows(step, new Set()).memory.bytes), [5, 6, 8, 5]);
});

test("what is drawn of memory goes on between its points, to both edges", () => {
  const memory = { begin: [0, 0.5], bytes: [5, 9] };
  assert.deepEqual(stairs(memory, { from: 0, to: 1 }, 1), [
    { left: 0, right: 0.5, bytes: 5 },
    { left: 0.5, right: 1, bytes: 9 },
  ]);
  assert.deepEqual(stairs(memory, { from: 0.6, to: 0.8 }, 1), [{ left: 0, right: 1, bytes: 9 }]);
  // Of many points in a pixel the highest is seen.
  const many = { begin: Array.from({ length: 1e5 }, (_, i) => i / 1e5), bytes: [...Array(99_999).fill(1), 7] };
  const drawn = stairs(many, { from: 0, to: 1 }, 1);
  assert.ok(drawn.length < 2000);
  assert.equal(drawn.at(-1)?.bytes, 7);
  assert.equal(drawn.at(-1)?.right, 1);
});

test("a loop of too many iterations keeps the rest as one", () => {
  const many = { ...step, what: { ...step.what, times: [1, 1_000_000, 1_000_000, 1_000_000] } };
  const { frames, lanes } = fineRows(many, new Set([loop]));
  const last = frames[1].begin.length - 1;
  assert.ok(last > 10_000 && last < 1_000_000);
  assert.match(frames[1].facts(last).name, /^iterations [\d]+ to 1000000, drawn as one$/);
  near(frames[1].end[last], 0.8);
  let busy = 0;
  within(laneOf(lanes, "data"), { from: 0, to: 1 }, (_, seconds) => {
    busy += seconds;
  });
  assert.ok(Math.abs(busy - 0.4) < 1e-6);
});

test("sums of all, open or not, are those of the step; of a part each slice has its part", () => {
  for (const opened of [new Set<string>(), new Set([loop])]) {
    const sums = sumsOf(fineRows(step, opened).lanes, { from: 0, to: 1 });
    near(sums.lanes[0].seconds, 0.6);
    near(sums.lanes[1].seconds, 0.4);
    near(sums.bytes, 40);
    near(sums.flops, 0.4 * 10 + 0.2 * 20);
    near(sums.exposed, 0.4);
  }
  const part = sumsOf(fineRows(step, new Set()).lanes, { from: 0.3, to: 0.6 });
  near(part.lanes[0].seconds, 0.1);
  near(part.bytes, 20);
  near(part.exposed, 0.2);
  // A joined segment has less in it than it is long.
  const joined = coarseRows(timeline([{ key: "", segments: [segment({ begin: 0, end: 1, seconds: 0.5 })] }]));
  near(sumsOf(joined.lanes, { from: 0, to: 0.5 }).lanes[0].seconds, 0.25);
});

test("what is exposed is what no kernel covers", () => {
  const { lanes } = fineRows(step, new Set());
  const gaps = exposedRow(laneOf(lanes, ""), 1);
  assert.deepEqual([Array.from(gaps.begin), Array.from(gaps.end)], [[0.4], [0.8]]);
});

/** A row of slices that begin and end there. */
const rowOf = (edges: [number, number][]): Row => {
  const segments = edges.map(([begin, end]) => segment({ begin, end, seconds: end - begin }));
  return coarseRows(timeline([{ key: "", segments }], 1)).lanes[0];
};

test("wide slices are told apart, narrow ones are one path, and those that touch are one shape", () => {
  const edges = Array.from({ length: 1000 }, (_, i): [number, number] => [i / 1000, (i + 1) / 1000]);
  const row = rowOf([...edges.slice(0, 500), [0.5, 1]]);
  const all = { tones: 1, tone: () => 0 };
  const { wide, narrow } = blocksOf(row, { from: 0, to: 1 }, 500, all);
  assert.deepEqual(wide, [500]);
  assert.equal(narrow[0].length, 2);
  near(narrow[0][1], 250);
  assert.equal(pathOf([0, 2.25]), "M0.0 0H2.3V1H0.0Z");
  // Enlarged a hundred times they are wide, and what is not in sight is not drawn.
  const near100 = blocksOf(row, { from: 0.1, to: 0.11 }, 500, all);
  assert.ok(near100.wide.length >= 10 && near100.wide.length <= 12);
  assert.equal(near100.narrow[0].length, 0);
  // Some must be told apart in any case; others have a path of their own.
  const told = blocksOf(row, { from: 0, to: 1 }, 500, { tones: 2, tone: (i) => (i === 7 ? -1 : i > 400 ? 1 : 0) });
  assert.deepEqual(told.wide, [7, 500]);
  assert.deepEqual(
    told.narrow.map((each) => each.length),
    [4, 2],
  );
});

test("however many slices there are, no more shapes are drawn than there are half pixels", () => {
  const edges = Array.from({ length: 50_000 }, (_, i): [number, number] => [i / 50_000, (i + 0.5) / 50_000]);
  const { wide, narrow } = blocksOf(rowOf(edges), { from: 0, to: 1 }, 400, { tones: 1, tone: () => 0 });
  assert.equal(wide.length, 0);
  assert.ok(narrow[0].length <= 4 * 400);
});

test("a click finds the slice that is there, or the nearest", () => {
  const row = rowOf([
    [0.1, 0.2],
    [0.3, 0.30001],
    [0.6, 0.9],
  ]);
  assert.equal(sliceAt(row, 0.15, 0), 0);
  assert.equal(sliceAt(row, 0.302, 0.01), 1);
  assert.equal(sliceAt(row, 0.4, 0.01), -1);
  assert.equal(sliceAt(row, 0.95, 0.1), 2);
});

test("it zooms about a time, pans, and never leaves the step", () => {
  const whole = { from: 0, to: 10 };
  assert.deepEqual(zoomed(whole, 10, 2), { from: 2.5, to: 7.5 });
  assert.deepEqual(zoomed(whole, 10, 2, 0), { from: 0, to: 5 });
  assert.deepEqual(zoomed({ from: 2, to: 4 }, 10, 0.1), whole);
  assert.ok(isWhole(zoomed({ from: 2, to: 4 }, 10, 0.01), 10));
  const deep = zoomed({ from: 5, to: 5.0000002 }, 10, 1000);
  assert.ok(deep.to - deep.from > 0);
  assert.deepEqual(panned({ from: 2, to: 4 }, 10, 0.5), { from: 3, to: 5 });
  assert.deepEqual(panned({ from: 2, to: 4 }, 10, -9), { from: 0, to: 2 });
  assert.deepEqual(panned({ from: 2, to: 4 }, 10, 9), { from: 8, to: 10 });
  assert.deepEqual(around(4, 6, 10), { from: 3.5, to: 6.5 });
});

test("what is asked for comes into sight by the shortest way, and what is there stays", () => {
  const sight = { from: 2, to: 4 };
  assert.equal(showing(sight, 2.5, 3, 10), sight);
  const right = showing(sight, 5, 5.5, 10);
  assert.ok(right.to >= 5.5 && right.from <= 5 && right.to - right.from === 2);
  const left = showing(sight, 1, 1.5, 10);
  assert.ok(left.from <= 1 && left.to >= 1.5);
  assert.deepEqual(showing(sight, 5, 9, 10), { from: 5, to: 7 });
});

test("on the way from one sight to another the time between them stays where it is", () => {
  const [one, other] = [
    { from: 0, to: 8 },
    { from: 2, to: 4 },
  ];
  assert.deepEqual(between(one, other, 0), one);
  near(between(one, other, 1).from, 2);
  const half = between(one, other, 0.5);
  near(half.to - half.from, 4);
  // That is the point that is as far along in both.
  near(half.from + (half.to - half.from) * (1 / 3), 8 / 3);
});

test("a search looks for all words in what is known of a slice, in the order of time", () => {
  const { frames, lanes } = fineRows(step, new Set([loop]));
  const rows = [...frames, ...lanes];
  const found = search(rows, "reduce DATA");
  assert.equal(found.hits.length, 4);
  assert.ok(found.of.get(laneOf(lanes, "data"))?.has(3));
  assert.equal(search(rows, "hidden").hits.length, 2 + 4);
  assert.equal(search(rows, "scan").hits.length, 1);
  assert.equal(search(rows, "a.py:3 dot").hits.length, 6);
  assert.deepEqual(search(rows, " ").hits, []);
  assert.equal(search(rows, "nothing").hits.length, 0);
  const times = found.hits.map(({ row, i }) => row.begin[i]);
  assert.deepEqual(times, [...times].sort());
  assert.equal(next(found.hits, -1, 1, 0.4), 1); // the first in sight
  assert.equal(next(found.hits, 3, 1, 0), 0);
  assert.equal(next(found.hits, 0, -1, 0), 3);
  assert.equal(next([], -1, 1, 0), -1);
});
