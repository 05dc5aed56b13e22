/** The numbers of two layouts beside each other: matched by name, with their differences. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { devicesRows, differenceOf, memoryRows, type Row, timeRows, trafficRows } from "../src/differences.ts";
import type { View } from "../src/types.ts";

const view = (more: object): View =>
  ({ machine: { on: "v5e:2x4" }, memory: { arguments: 40, outputs: 8 }, ...more }) as unknown as View;

const written = (rows: Row[]): unknown[] =>
  rows.map((row) => {
    const [one, two] = [row.mine, row.other].map((value) => (value === null ? "…" : row.text(value)));
    const by = differenceOf(row);
    return [row.key, one, two, by === null ? "…" : row.signed(by)];
  });

test("bytes are matched by mesh axis, and one that only one layout uses is nothing of the other", () => {
  const sends = (parts: [string, number][], count: number): View => {
    const byAxis = parts.map(([key, bytes]) => ({ key, bytes }));
    const total = parts.reduce((sum, [, bytes]) => sum + bytes, 0);
    return view({ communication: { by_axis: byAxis, total }, collectives: { count } });
  };
  const rows = trafficRows(sends([["data", 4000]], 2), sends([["model", 1000]], 5));
  assert.deepEqual(written(rows), [
    ["sends", "4.00 kB", "1.00 kB", "+3.00 kB"],
    ["data", "4.00 kB", "0 B", "+4.00 kB"],
    ["model", "0 B", "1.00 kB", "−1.00 kB"],
    ["collectives", "2", "5", "−3"],
  ]);
});

test("what is not known yet is no number", () => {
  const time = { estimate: 2, exposed: 0.5, parts: [{ key: "compute", label: "compute-bound", seconds: 1.5 }] };
  assert.deepEqual(written(timeRows(view({ time }), view({ time: null }))), [["step", "2 s", "…", "…"]]);
  const quick = { ...time, estimate: 1.5, exposed: 0 };
  assert.deepEqual(written(timeRows(view({ time }), view({ time: quick }))), [
    ["step", "2 s", "1.5 s", "+500 ms"],
    ["compute", "1.5 s", "1.5 s", "±0"],
    ["exposed", "500 ms", "0 s", "+500 ms"],
  ]);
});

test("without a machine there is neither step nor peak", () => {
  const none = view({ machine: { on: "" }, time: null, peak_memory: null });
  assert.deepEqual(timeRows(none, none), []);
  assert.deepEqual(
    memoryRows(none, none).map((row) => row.key),
    ["arguments", "outputs"],
  );
});

test("the peak is matched by its parts, the tensor by its place", () => {
  const holds = (bytes: number, local: number, slices: number): View =>
    view({
      peak_memory: { bytes, parts: [{ name: "params", bytes }] },
      shards: { place: "w", slices, copies: 8 / slices },
      places: { rows: [{ place: "w", local_bytes: local }] },
    });
  assert.deepEqual(written(memoryRows(holds(1000, 8, 1), holds(500, 8, 1))), [
    ["peak", "1.00 kB", "500 B", "+500 B"],
    ["params", "1.00 kB", "500 B", "+500 B"],
  ]);
  assert.deepEqual(written(devicesRows(holds(1000, 32, 1), holds(1000, 8, 4))), [["local", "32 B", "8 B", "+24 B"]]);
});

test("equal sums are no difference, in whatever order they were added", () => {
  const time = { estimate: 0.1 + 0.2 + 0.3, exposed: 0, parts: [] };
  const rows = timeRows(view({ time }), view({ time: { ...time, estimate: 0.3 + 0.2 + 0.1 } }));
  assert.equal(differenceOf(rows[0]), 0);
});
