/** One fetch for a page however many ask; where it fails, each of the others asks for itself. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { plotlyOf } from "../src/plotly.ts";

/** A board that fetches: what it was asked, and the way to fail. */
function makeBoard(): { fetch: () => Promise<ArrayBufferView>; fetched: number; fail: (why: string) => void } {
  const board = {
    fetched: 0,
    fail: (_why: string) => {},
    fetch: () => {
      board.fetched += 1;
      return new Promise<ArrayBufferView>((_, reject) => {
        board.fail = (why) => reject(Error(why));
      });
    },
  };
  return board;
}

const soon = () => new Promise((then) => setImmediate(then));

test("boards that ask at once share one fetch, and one that failed is begun anew by each that waited", async () => {
  const [gone, second, third] = [makeBoard(), makeBoard(), makeBoard()];
  const all = [gone, second, third].map(({ fetch }) => plotlyOf(fetch));
  const failures = Promise.allSettled(all);
  const counts = () => [gone, second, third].map(({ fetched }) => fetched);
  assert.deepEqual(counts(), [1, 0, 0]);
  gone.fail("the first kernel is gone");
  await assert.rejects(all[0], /the first kernel is gone/);
  await soon();
  assert.deepEqual(counts(), [1, 1, 0], "the first does not ask again in the name of the others");
  second.fail("nor here");
  await assert.rejects(all[1], /nor here/);
  await soon();
  third.fail("nowhere");
  await assert.rejects(all[2], /nowhere/);
  await failures;
  assert.deepEqual(counts(), [1, 1, 1]);
});

test("after a failure the next one asks again", async () => {
  const board = makeBoard();
  for (const why of ["one", "two"]) {
    const asked = plotlyOf(board.fetch);
    board.fail(why);
    await assert.rejects(asked, new RegExp(why));
  }
  assert.equal(board.fetched, 2);
});
