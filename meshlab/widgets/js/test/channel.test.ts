/** Silence and what ends it, by a clock that the test turns. */
import assert from "node:assert/strict";
import { beforeEach, mock, test } from "node:test";
import { Channel } from "../src/channel.ts";
import type { Answer } from "../src/types.ts";

/** A notebook's model, as far as a channel knows it: what was sent, and the way to answer. */
class Model {
  sent: any[] = [];
  listeners: Map<string, (...args: any[]) => void> = new Map();
  disconnected = false;

  get() {
    return 0;
  }

  on(event: string, listener: (...args: any[]) => void) {
    this.listeners.set(event, listener);
  }

  off(event: string) {
    this.listeners.delete(event);
  }

  send(message: any) {
    if (this.disconnected) throw new Error("no kernel");
    this.sent.push(message);
  }

  answer(asked: number, answer: Partial<Answer>) {
    this.listeners.get("msg:custom")?.({ id: this.sent[asked].id, rev: 0, ...answer });
  }

  /** What was sent last, and its number. */
  get last() {
    return this.sent.length - 1;
  }
}

const nack = { kind: "nack", reason: "no", fix: "" } as const;

let model: Model;
let silences: boolean[];
let channel: Channel;

beforeEach(() => {
  mock.timers.reset();
  mock.timers.enable({ apis: ["setTimeout", "setInterval", "Date"] });
  model = new Model();
  silences = [];
  channel = new Channel(model, (silent) => silences.push(silent));
  model.answer(0, { kind: "ack", now: 5 });
});

test("it begins with a question whether Python answers, and how its clock stands", () => {
  assert.deepEqual([model.sent[0].v, model.sent[0].kind, model.sent[0].good], [2, "hello", null]);
});

test("what is sent says until when it is good, by Python's clock", () => {
  mock.timers.tick(1000);
  channel.intent("undo");
  assert.equal(model.sent[1].good, 8);
});

test("the answer that took the shortest sets the clock", () => {
  const slow = new Channel(model, () => {});
  mock.timers.tick(400);
  model.answer(model.last, { kind: "ack", now: 100.2 });
  assert.equal(slow.ahead, 100_000);
  slow.intent("undo");
  mock.timers.tick(1000);
  model.answer(model.last, { kind: "ack", now: 777 });
  assert.equal(slow.ahead, 100_000);
  slow.intent("undo");
  mock.timers.tick(20);
  model.answer(model.last, { kind: "ack", now: 101.42 });
  assert.equal(slow.ahead, 100_010);
});

test("where no clock is known after a silence, it is asked for again", () => {
  const late = new Channel(model, () => {});
  const hello = model.last;
  mock.timers.tick(2000);
  model.answer(hello, { kind: "ack", now: 7 });
  assert.deepEqual([model.last, model.sent[model.last].kind], [hello + 1, "hello"]);
  model.answer(model.last, { kind: "ack", now: 7 });
  late.intent("undo");
  assert.equal(model.sent[model.last].good, 9);
});

test("an answer in time is handed to whoever asked", async () => {
  const asked = channel.intent("undo");
  assert.equal(model.sent[1].op, "undo");
  model.answer(1, { kind: "ack", rev: 1 });
  const answer = await asked;
  assert.equal(answer?.kind === "ack" && answer.rev, 1);
  mock.timers.tick(10_000);
  assert.deepEqual(silences, []);
});

test("after two seconds without an answer whoever asked is told so", async () => {
  const asked = channel.intent("undo");
  mock.timers.tick(1999);
  assert.deepEqual(silences, []);
  mock.timers.tick(1);
  assert.equal(await asked, null);
  assert.deepEqual(silences, [true]);
});

for (const [name, late] of [
  ["a refusal", nack],
  ["a list of prices", { kind: "prices", prices: [] }],
  ["an acknowledgement", { kind: "ack", rev: 1 }],
] as [string, Partial<Answer>][]) {
  test(`${name} that comes too late opens the board again`, async () => {
    const asked = channel.intent("place", { dim: "hidden", axes: ["model"] });
    mock.timers.tick(2000);
    assert.equal(await asked, null);
    model.answer(1, late);
    assert.deepEqual(silences, [true, false]);
    assert.equal(channel.silent, false);
  });
}

test("an answer to another view of the same board opens it as well", async () => {
  channel.intent("undo");
  mock.timers.tick(2000);
  model.listeners.get("msg:custom")?.({ id: "another-1", kind: "ack", rev: 0 });
  assert.deepEqual(silences, [true, false]);
});

test("so does a new revision, without an answer", () => {
  channel.intent("undo");
  mock.timers.tick(2000);
  model.listeners.get("change:rev")?.();
  assert.deepEqual(silences, [true, false]);
});

test("one silence ends all that wait, and what is asked afterwards waits anew", async () => {
  const first = channel.intent("undo");
  mock.timers.tick(1000);
  const second = channel.intent("redo");
  mock.timers.tick(1000);
  assert.deepEqual([await first, await second], [null, null]);
  const third = channel.intent("reset");
  model.answer(3, nack);
  assert.equal((await third)?.kind, "nack");
  mock.timers.tick(10_000);
  assert.deepEqual(silences, [true, false]);
});

test("a model that cannot send is silent at once", async () => {
  model.disconnected = true;
  assert.equal(await channel.intent("undo"), null);
  assert.deepEqual(silences, [true]);
});

test("a kernel that dies while something is under way is noticed, though nobody asks it for anything", () => {
  channel.watch(true);
  mock.timers.tick(5000);
  assert.equal(model.sent[1].kind, "hello");
  model.answer(1, { kind: "ack" });
  mock.timers.tick(5000);
  assert.deepEqual(silences, []);
  mock.timers.tick(2000);
  assert.deepEqual(silences, [true]);
});

test("while Python is silent it is asked again, ever more rarely, and said to be silent once", () => {
  channel.intent("undo");
  mock.timers.tick(2000);
  const asked = () => model.sent.slice(2).map(({ kind }) => kind);
  mock.timers.tick(5000);
  assert.deepEqual(asked(), ["hello"]);
  mock.timers.tick(2000);
  mock.timers.tick(9999);
  assert.deepEqual(asked(), ["hello"]);
  mock.timers.tick(1);
  assert.deepEqual(asked(), ["hello", "hello"]);
  assert.deepEqual(silences, [true]);
  model.answer(model.last, { kind: "ack" });
  assert.deepEqual(silences, [true, false]);
  mock.timers.tick(600_000);
  assert.equal(asked().length, 2);
});

test("where nothing is under way, Python is left alone", () => {
  channel.watch(true);
  channel.watch(true);
  channel.watch(false);
  mock.timers.tick(60_000);
  assert.equal(model.sent.length, 1);
});

test("a connection that was cut is noticed at once, and that it is back as well", () => {
  model.disconnected = true;
  model.listeners.get("comm_live_update")?.();
  assert.deepEqual([silences, channel.cut], [[true], true]);
  model.disconnected = false;
  model.listeners.get("comm_live_update")?.();
  model.answer(1, { kind: "ack" });
  assert.deepEqual([silences, channel.cut], [[true, false], false]);
});

test("prices of several intents are asked for in one message", async () => {
  const intents = [{ op: "remove", args: { dim: "a" } }];
  const asked = channel.prices(intents, true);
  const { kind, peak } = model.sent[1];
  assert.deepEqual([kind, model.sent[1].intents, peak], ["prices", intents, true]);
  model.answer(1, { kind: "prices", prices: [{ bytes: 1, seconds: null, peak: 5, fits: true, work: 1 }] });
  const answer = await asked;
  const [first] = answer?.kind === "prices" ? answer.prices : [];
  assert.equal(!first.refused && first.peak, 5);
});

test("a closed channel hears nothing and waits for nothing", () => {
  channel.intent("undo");
  channel.watch(true);
  channel.close();
  mock.timers.tick(10_000);
  assert.deepEqual(silences, []);
  assert.equal(model.listeners.size, 0);
});

test("who waits when a board closes is told that no answer comes, and nothing is said of silence", async () => {
  const asked = channel.send("library", {});
  channel.close();
  assert.equal(await asked, null);
  assert.equal(await channel.send("read", {}), null, "nor is anything asked later");
  mock.timers.tick(120_000);
  assert.deepEqual([silences, model.sent.length], [[], 2]);
});
