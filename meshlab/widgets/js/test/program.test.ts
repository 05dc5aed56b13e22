/** The program as a tree: what is seen where folds are open, what a search finds, and what a filter leaves. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { firstBeyond, nextHit, Tree } from "../src/program_tree.ts";
import type { ProgramData, Sent } from "../src/types.ts";

const KINDS = ["phase", "scope", "function", "loop", "block", "alike", "line", "step", "collective", "slice"];

type Written = {
  at: number;
  kind: string;
  label?: string;
  name?: string;
  source?: string;
  times?: number;
  makes?: number;
  sent?: Partial<Sent>;
};

/**
 * A program as Python sends it.
 * @param written `at`: how deep
 */
function program(written: Written[]): ProgramData {
  const strings = ["", "batch", "hidden", "data"];
  const text = (text: string = "") => (strings.includes(text) ? strings.indexOf(text) : strings.push(text) - 1);
  const collectives: any[] = [];
  const last: number[] = [];
  const nodes: any = {
    parent: [],
    kind: [],
    label: [],
    name: [],
    source: [],
    value: [],
    uses: [],
    makes: [],
    reads: [],
    collective: [],
    times: [],
  };
  for (const [i, { at, kind, label, name, source, times = 1, makes = -1, sent }] of written.entries()) {
    nodes.parent.push(at ? last[at - 1] : -1);
    last[at] = i;
    nodes.kind.push(KINDS.indexOf(kind));
    for (const [column, value] of Object.entries({ label, name, source })) nodes[column].push(text(value));
    nodes.value.push(0);
    nodes.uses.push(0);
    nodes.makes.push(makes);
    nodes.reads.push([]);
    nodes.times.push(times);
    nodes.collective.push(sent ? collectives.length : -1);
    if (sent)
      collectives.push({
        key: "data",
        wire: 1,
        times: 1,
        dims: [],
        value: "",
        source: "",
        code: "",
        because: "",
        ...sent,
      });
  }
  const types = [
    [
      0,
      [
        [1, 8, 4, 3],
        [2, 16, 16, 0],
      ],
      0,
    ],
  ] as any;
  return { kinds: KINDS, strings, types, collectives, nodes };
}

const NET = () =>
  new Tree(
    program([
      { at: 0, kind: "phase", label: "forward" },
      { at: 1, kind: "function", label: "loss" },
      { at: 2, kind: "line", label: "hidden = dot(x, w)", source: "net.py:3" },
      { at: 3, kind: "step", name: "dot_general", source: "net.py:3", makes: 0 },
      {
        at: 3,
        kind: "collective",
        name: "all-reduce",
        sent: { id: "a", kind: "all-reduce", wire: 10, because: "`cols` is summed" },
      },
      { at: 3, kind: "step", name: "max", source: "net.py:3", makes: 0 },
      { at: 2, kind: "step", label: "return log(hidden)", name: "log", source: "net.py:4" },
      { at: 0, kind: "phase", label: "update" },
      { at: 1, kind: "loop", name: "scan", times: 32 },
      { at: 2, kind: "step", label: "x * 2", name: "mul", source: "net.py:9" },
      {
        at: 2,
        kind: "collective",
        name: "all-gather",
        sent: { id: "b", kind: "all-gather", wire: 3, times: 32, key: "model" },
      },
    ]),
  );

test("groups know what is inside, and add up what is sent", () => {
  const tree = NET();
  assert.deepEqual([tree.end[0], tree.end[2], tree.end[7], tree.end[10]], [7, 6, 11, 11]);
  assert.deepEqual([tree.folds(0), tree.folds(6)], [true, false]);
  assert.deepEqual(tree.above(4), [2, 1, 0]);
  assert.deepEqual([tree.bytes[0], tree.bytes[2], tree.bytes[7]], [10, 10, 96]);
  assert.deepEqual([tree.counts[0], tree.counts[7], tree.counts[9]], [1, 1, 0]);
  assert.deepEqual([...(tree.axes.get(7) ?? [])], ["model"]);
  assert.deepEqual([tree.nodeOf.get("a"), tree.nodeOf.get("b")], [4, 10]);
});

test("only what is open is seen, and what is sent for a line beside it", () => {
  const tree = NET();
  const open = new Uint8Array(tree.size);
  assert.deepEqual(tree.visible(open), [0, 7]);
  open[0] = 1;
  open[1] = 1;
  assert.deepEqual(tree.visible(open), [0, 1, 2, 4, 6, 7]);
  assert.deepEqual([tree.level(2, open), tree.level(4, open), tree.under(4, open)], [2, 2, 1]);
  open[2] = 1;
  assert.deepEqual(tree.visible(open), [0, 1, 2, 3, 4, 5, 6, 7]);
  assert.deepEqual([tree.level(4, open), tree.under(4, open)], [3, 2]);
});

test("at first everything but the steps of lines is open, if it is little", () => {
  const tree = NET();
  assert.deepEqual(tree.visible(tree.openAtFirst()), [0, 1, 2, 4, 6, 7, 8, 9, 10]);
});

test("of a long program what leads to a collective is open at first", () => {
  const long = [];
  for (let part = 0; part < 500; part += 1) {
    long.push({ at: 0, kind: "function", label: `part_${part}` });
    for (let line = 0; line < 20; line += 1) long.push({ at: 1, kind: "step", label: `x = ${line}`, name: "sin" });
    if (part === 300) long.push({ at: 1, kind: "collective", sent: { id: "a", kind: "all-reduce" } });
  }
  const tree = new Tree(program(long));
  const rows = tree.visible(tree.openAtFirst());
  assert.ok(tree.size > 10_000);
  assert.equal(rows.length, 500 + 21);
  const few = new Tree(program(long.filter((_, i) => i > 280 * 21 && i < 320 * 21)));
  const seen = few.visible(few.openAtFirst());
  assert.ok(seen.includes(few.nodeOf.get("a") as number));
  assert.ok(seen.length < 100);
});

test("what was opened by hand is open in the next tree as well", () => {
  const [one, other] = [NET(), NET()];
  const [name] = [...one.names()].find(([, node]) => node === 2) ?? [""];
  assert.equal(other.opened(new Map([[name, true]]))[2], 1);
  assert.equal(other.opened(new Map([["elsewhere", true]]))[2], 0);
  assert.equal(new Set(one.names().keys()).size, one.names().size);
});

test("it is searched by dim, operation, line, kind and cause, in whatever order", () => {
  const tree = NET();
  const cases: [string, number[]][] = [
    ["batch/data", [3, 5]],
    ["hidden max", [5]],
    ["matmul", [3]],
    ["NET.PY:3", [2]],
    ["net.py:4 log", [6]],
    ["all-reduce", [4]],
    ["cols summed", [4]],
    ["model", [10]],
    ["× 32", [8]],
    ["  ", []],
    ["nowhere", []],
  ];
  for (const [text, found] of cases) assert.deepEqual(tree.search(text), found, text);
});

test("a filter leaves steps of a kind and what is around them, and a search stays within", () => {
  const tree = NET();
  assert.equal(tree.filtered("all"), null);
  const kept = tree.filtered("collectives") as Uint8Array;
  assert.deepEqual(tree.visible(kept, kept), [0, 1, 2, 4, 7, 8, 10]);
  const matmuls = tree.filtered("matmuls") as Uint8Array;
  assert.deepEqual(tree.visible(matmuls, matmuls), [0, 1, 2, 3]);
  assert.deepEqual(tree.search("batch", kept), []);
  assert.deepEqual(tree.search("batch", matmuls), [3]);
});

test("hits are gone through in order, round the end", () => {
  assert.deepEqual([nextHit([2, 5, 9], -1, 1), nextHit([2, 5, 9], 5, 1), nextHit([2, 5, 9], 9, 1)], [2, 9, 2]);
  assert.deepEqual([nextHit([2, 5, 9], -1, -1), nextHit([2, 5, 9], 5, -1), nextHit([], 5, 1)], [9, 2, -1]);
});

test("the rows in sight are found by where they end", () => {
  const ends = [10, 20, 30, 40];
  assert.deepEqual(
    [0, 10, 25, 40, 99].map((point) => firstBeyond(ends, point)),
    [0, 1, 2, 3, 3],
  );
  assert.equal(firstBeyond([], 5), 0);
});
