/** When advice is asked for: after a while, and again once Python is heard, where it was silent meanwhile. */
import assert from "node:assert/strict";
import { beforeEach, mock, test } from "node:test";
import { Asking } from "../src/asking.ts";

let answers: ((answer: object | null) => void)[];
let board: any;
let asking: Asking;

beforeEach(() => {
  mock.timers.reset();
  mock.timers.enable({ apis: ["setTimeout"] });
  (globalThis as any).window = globalThis;
  answers = [];
  const send = (kind: string) => {
    assert.equal(kind, "advise");
    return new Promise((answer) => answers.push(answer));
  };
  board = { readOnly: false, hand: null, view: { slow: false, goal: null }, can: () => true, channel: { send } };
  asking = new Asking(board);
});

const answer = async (given: object | null) => {
  answers.at(-1)?.(given);
  await new Promise((resolve) => setImmediate(resolve));
};

test("advice is asked for once the board was left alone, and not again where Python answers", async () => {
  asking.advice();
  assert.equal(answers.length, 0);
  mock.timers.tick(1000);
  assert.equal(answers.length, 1);
  await answer({ kind: "ack" });
  asking.heard();
  assert.equal(answers.length, 1);
});

test("what was due while Python was silent is asked for when it is heard", () => {
  asking.advice();
  board.readOnly = true;
  mock.timers.tick(1000);
  assert.equal(answers.length, 0);
  board.readOnly = false;
  asking.heard();
  assert.equal(answers.length, 1);
  asking.heard();
  assert.equal(answers.length, 1);
});

test("what Python did not answer is asked for again when it is heard", async () => {
  asking.now();
  await answer(null);
  asking.heard();
  assert.equal(answers.length, 2);
  await answer({ kind: "ack" });
  asking.heard();
  assert.equal(answers.length, 2);
});
