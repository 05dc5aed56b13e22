/** The table of layouts that were tried: its order, what a filter leaves, and what layouts are called without Python. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { matches, sorted } from "../src/card_tools.ts";
import { columnsOf } from "../src/cards.ts";
import { titlesOf } from "../src/tried.ts";
import type { Card, View } from "../src/types.ts";

const columns = columnsOf({ machine: { on: "v5e" } } as View);

const card = (key: string, name: string, seconds: number | null, more: object = {}): Card => ({
  key,
  name,
  layout: "batch:data hidden:model",
  mesh: "",
  load: { op: "load", args: {} },
  now: false,
  baseline: false,
  machine: true,
  totals: { bytes: 1, arguments: 1, work: 1, collectives: 1, seconds, peak: 1, fits: seconds !== 9 },
  ...more,
});

const CARDS = [
  card("0", "start", 5),
  card("1", "wide 10", 2, { note: "For long sequences" }),
  card("2", "wide 9", null),
  card("10", "DP", 9, { mesh: "data × 4" }),
];
const order = (by: string, down: boolean) => sorted(CARDS, columns, { by, down }).map(({ key }) => key);

test("the table is sorted by number, by name, and by a figure of which what is not known is last", () => {
  assert.deepEqual(order("", true), ["10", "2", "1", "0"]);
  assert.deepEqual(order("", false), ["0", "1", "2", "10"]);
  assert.deepEqual(order("name", false), ["10", "0", "2", "1"]);
  assert.deepEqual(order("step", false), ["1", "0", "10", "2"]);
  assert.deepEqual(order("step", true), ["10", "0", "1", "2"]);
  assert.deepEqual(order("gone with the machine", true), ["10", "2", "1", "0"]);
});

test("equal figures stay with the latest first", () => {
  assert.deepEqual(order("peak", false), ["10", "2", "1", "0"]);
  assert.deepEqual(order("peak", true), ["10", "2", "1", "0"]);
});

test("a filter finds all its words in whatever is said of a layout", () => {
  const found = (filter: string) => CARDS.filter((each) => matches(each, filter)).map(({ key }) => key);
  assert.deepEqual(found(""), ["0", "1", "2", "10"]);
  assert.deepEqual(found("WIDE"), ["1", "2"]);
  assert.deepEqual(found("long wide"), ["1"]);
  assert.deepEqual(found("hidden:model start"), ["0"]);
  assert.deepEqual(found("#10"), ["10"]);
  assert.deepEqual(found("oom"), ["10"]);
  assert.deepEqual(found("data × 4"), ["10"]);
  assert.deepEqual(found("nothing of this"), []);
});

test("no two layouts are called alike, and labels come first", () => {
  const tried = [
    { number: 0, name: "start", state: 0 },
    { number: 1, name: "#1", state: 1 },
    { number: 2, name: "#2", state: 2 },
    { number: 3, name: "#3", label: "DP", state: 3 },
    { number: 4, name: "#4", state: 4 },
  ];
  const own = ({ state }: { state: number }) => (state === 1 || state === 2 ? ["DP", "DP over data"] : []);
  assert.deepEqual([...titlesOf(tried, own)].sort(), [
    [0, "start"],
    [1, "DP over data"],
    [2, "#2"],
    [3, "DP"],
    [4, "#4"],
  ]);
});
