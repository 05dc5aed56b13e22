/** What panels ask for: once for each revision, and what was known stays until the next has come. */
import assert from "node:assert/strict";
import { beforeEach, test } from "node:test";
import { Reads } from "../src/reads.ts";

type Question = { what: string; args: any; answer: (answer: any) => void };

let asked: Question[];
let drawn: string[];
let board: any;
let reads: Reads;

beforeEach(() => {
  asked = [];
  drawn = [];
  board = {
    readOnly: false,
    channel: {
      send: (_kind: string, content: { what: string; args: any }) =>
        new Promise((answer) => asked.push({ ...content, answer })),
    },
    stage: {
      answered: (what: string) => drawn.push(what),
      tellBusy: () => drawn.push("busy told"),
    },
  };
  reads = new Reads(board);
});

const answer = async (data: any) => {
  asked.at(-1)?.answer(data);
  await Promise.resolve();
  await Promise.resolve();
};

test("it is asked for once, and drawn when it has come", async () => {
  assert.equal(reads.of("program", { scope: "a" }).data, null);
  reads.of("program", { scope: "a" });
  assert.deepEqual(
    asked.map(({ what, args }) => [what, args]),
    [["program", { scope: "a" }]],
  );
  await answer({ kind: "read", data: 7 });
  assert.deepEqual(drawn, ["program"]);
  assert.deepEqual(reads.of("program", { scope: "a" }), { data: 7, fresh: true, asked: false, error: "" });
  assert.equal(asked.length, 1);
});

test("other arguments are another question", () => {
  reads.of("program", { scope: "a" });
  reads.of("program", { scope: "b" });
  assert.equal(asked.length, 2);
});

test("after a change the last answer stays until the next has come, and what was asked before it is dropped", async () => {
  reads.of("program");
  await answer({ kind: "read", data: 1 });
  reads.changed(["selection"]);
  assert.equal(reads.of("program").fresh, true);
  reads.changed(["board"]);
  assert.deepEqual(reads.of("program"), { data: 1, fresh: false, asked: false, error: "" });
  const [, late] = asked;
  reads.changed(["costs"]);
  reads.of("program");
  late.answer({ kind: "read", data: 2 });
  await Promise.resolve();
  await answer({ kind: "read", data: 3 });
  assert.equal(reads.of("program").data, 3);
});

test("a panel that is shown only now has nothing of before", async () => {
  reads.of("program");
  await answer({ kind: "read", data: 1 });
  reads.of("matrix");
  await answer({ kind: "read", data: 2 });
  reads.changed(["board"]);
  board.readOnly = true;
  reads.forget(["program"]);
  assert.equal(reads.of("program").data, 1, "where Python is silent it is all there is");
  board.readOnly = false;
  reads.forget(["board", "program"]);
  assert.equal(reads.of("program").data, null);
  assert.equal(reads.of("matrix").data, 2);
  reads.forget(["matrix"]);
  await answer({ kind: "read", data: 3 });
  assert.equal(reads.of("matrix").data, 3, "what is on its way is asked for once");
  assert.equal(asked.length, 4);
});

test("a refusal is an answer, silence is none", async () => {
  reads.of("program");
  await answer(null);
  assert.equal(reads.of("program").error, "");
  assert.equal(asked.length, 2);
  await answer({ kind: "nack", reason: "no", fix: "Try." });
  assert.equal(reads.of("program").error, "no Try.");
  assert.equal(asked.length, 2);
});

test("what Python did not answer is drawn again once it is heard, and asked for then", async () => {
  for (const scope of ["a", "b"]) {
    reads.of("program", { scope });
    await answer(null);
  }
  reads.of("matrix");
  await answer({ kind: "read", data: 1 });
  reads.of("step");
  drawn = [];
  reads.heard();
  assert.deepEqual(drawn, ["program"], "neither what is known nor what is on its way");
});

test("a board that can only be read asks nothing", () => {
  board.readOnly = true;
  reads.of("program");
  assert.equal(asked.length, 0);
});

test("the latest are remembered", async () => {
  for (let number = 0; number < 40; number += 1) {
    reads.of("program", { number });
    await answer({ kind: "read", data: number });
  }
  assert.ok(reads.known.size <= 24);
  assert.equal(reads.of("program", { number: 39 }).data, 39);
});

test("a panel waits until what it reads has come, or is known not to come", async () => {
  reads.of("program", { scope: "a" });
  assert.equal(reads.waits(["board", "program"]), true);
  assert.equal(reads.waits(["matrix"]), false);
  await answer({ kind: "read", data: 7 });
  assert.equal(reads.waits(["program"]), false);
  reads.of("matrix");
  await answer(null);
  assert.equal(reads.waits(["matrix"]), false);
  assert.deepEqual(drawn, ["program", "busy told"]);
});

test("what waits for costs is on its way until they come, and what was known stays", async () => {
  reads.of("moments");
  await answer({ kind: "read", data: "before" });
  reads.changed(["board"]);
  reads.of("moments");
  await answer({ kind: "read", data: { pending: true } });
  assert.deepEqual(reads.of("moments"), { data: "before", fresh: false, asked: true, error: "" });
  assert.ok(reads.waits(["moments"]));
  assert.equal(asked.length, 2, "it is not asked again in vain");
  reads.changed(["costs"]);
  reads.of("moments");
  await answer({ kind: "read", data: "after" });
  assert.deepEqual(reads.of("moments"), { data: "after", fresh: true, asked: false, error: "" });
});

test("another layout beside makes answers stale, and what is selected does not", async () => {
  reads.of("moments", { beside: true });
  await answer({ kind: "read", data: 1 });
  reads.changed(["selection", "places"]);
  assert.equal(reads.of("moments", { beside: true }).fresh, true);
  reads.changed(["beside"]);
  assert.equal(reads.of("moments", { beside: true }).fresh, false);
});

test("what a search has found follows the search, and the way from yours the board as well", async () => {
  for (const what of ["met", "way", "moments"] as const) {
    reads.of(what);
    await answer({ kind: "read", data: { pending: true } });
  }
  const fresh = () => (["met", "way", "moments"] as const).map((what) => reads.of(what).fresh);
  reads.changed(["search"]);
  reads.of("met");
  await answer({ kind: "read", data: 1 });
  reads.of("way");
  await answer({ kind: "read", data: 2 });
  assert.deepEqual(fresh(), [true, true, false]);
  reads.changed(["board"]);
  assert.deepEqual([reads.of("met").fresh, reads.of("way").fresh], [true, false]);
});

test("what was asked of a search before it went on is dropped, and what was asked of plans is not", async () => {
  reads.of("moments");
  reads.of("way");
  const [plans, early] = asked;
  reads.changed(["search"]);
  reads.of("way");
  early.answer({ kind: "read", data: "early" });
  plans.answer({ kind: "read", data: "plans" });
  await answer({ kind: "read", data: "late" });
  assert.deepEqual([reads.of("moments").data, reads.of("way").data], ["plans", "late"]);
});
