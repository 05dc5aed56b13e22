/** Which zone is best, and what is asked of Python for a chip that is held, in which order. */
import assert from "node:assert/strict";
import { beforeEach, test } from "node:test";
import { dropIntent, TRAY, zonesOf } from "../src/hand.ts";
import { best, type Priced, Prices } from "../src/prices.ts";
import type { Answer, Price } from "../src/types.ts";
import { answered, type Figures, hand, price, refusal, view } from "./views.ts";

const priced = (zones: Record<string, Figures>): Map<string, Priced> =>
  new Map(Object.entries(zones).map(([zone, figures]) => [zone, answered(figures)]));

test("the best zone has the shortest step, and without a machine the least work, then the fewest bytes", () => {
  const zones = priced({ data: { seconds: 3, bytes: 1 }, model: { seconds: 2, bytes: 9 }, [TRAY]: { seconds: 4 } });
  assert.equal(best(zones, { seconds: 5, work: 1, bytes: 10 }), "model");
  assert.equal(best(zones, { seconds: 2, work: 1, bytes: 10 }), null);
  const now = { seconds: null, work: 0.5, bytes: 10 };
  const none = { seconds: null };
  const equal = priced({ data: { ...none, work: 0.5, bytes: 1 }, model: { ...none, work: 0.5, bytes: 9 } });
  assert.equal(best(equal, now), "data");
  const less = priced({ data: { ...none, work: 0.5, bytes: 1 }, model: { ...none, work: 0.25, bytes: 99 } });
  assert.equal(best(less, now), "model");
  assert.equal(best(priced({ data: { ...none, work: 1, bytes: 1 } }), now), null);
});

test("what is refused, does not fit, or is no better than a thousandth, is not the best", () => {
  const zones = priced({ a: { refused: refusal }, b: { seconds: 2, fits: false }, c: { seconds: 9.999 } });
  assert.equal(best(zones, { seconds: 10, work: 1, bytes: 0 }), null);
  assert.equal(best(priced({ a: { seconds: null } }), { seconds: 10, work: 1, bytes: 0 }), null);
  assert.equal(best(new Map(), { seconds: 10, work: 1, bytes: 0 }), null);
});

/** A channel that answers when it is told to. */
class Channel {
  asked: { intents: object[]; peak: boolean; answer: (answer: Partial<Answer> | null) => void }[] = [];

  prices(intents: object[], peak: boolean): Promise<any> {
    return new Promise((answer) => this.asked.push({ intents, peak, answer }));
  }
}

let channel: Channel;
let prices: Prices;
let drawn = 0;

beforeEach(() => {
  channel = new Channel();
  drawn = 0;
  prices = new Prices(channel as any, () => {
    drawn += 1;
  });
});

const later = () => new Promise((resolve) => setImmediate(resolve));
const held = hand("hidden", "data");
const order = ["model", "data@params/*", "model@params/*", TRAY, "data"];
const intents = (zones: string[]) => zones.map((zone) => dropIntent(view, held, zone));

function answer(figures: Figures[], rev = 1): Promise<unknown> {
  channel.asked[channel.asked.length - 1].answer({ kind: "prices", rev, prices: figures.map(answered) });
  return later();
}

test("zones are asked for in order, then the peaks of those that take it, two at a time", async () => {
  prices.ask(view, held, 1, order, true);
  assert.deepEqual(channel.asked[0].intents, intents(["model", "data@params/*", "model@params/*", TRAY]));
  await answer([{ bytes: 1 }, { refused: refusal }, { bytes: 3 }, { bytes: 4 }]);
  assert.deepEqual([channel.asked.length, channel.asked[1].peak, drawn], [2, true, 1]);
  assert.deepEqual(channel.asked[1].intents, intents(["model", "model@params/*"]));
  await answer([
    { bytes: 1, peak: 5 },
    { bytes: 3, peak: 7 },
  ]);
  assert.equal(channel.asked.length, 2);
  assert.deepEqual(
    [...prices.all(view, held).keys()].sort(),
    zonesOf(view)
      .filter((zone) => zone !== "data")
      .sort(),
  );
  assert.equal((prices.of(view, held, "model") as Price).peak, 5);
});

test("where the chip is nothing is asked, nor what was answered, nor peaks without a machine", async () => {
  prices.ask(view, held, 1, order, false);
  await answer([{ bytes: 1 }, { bytes: 2, peak: 2 }, { refused: refusal }, { bytes: 4, peak: 4 }]);
  assert.equal(channel.asked.length, 1);
  prices.ask(view, held, 1, order, false);
  assert.deepEqual(channel.asked[1].intents, intents(["model"]));
});

test("what is let go is asked no further, and what was answered is remembered", async () => {
  prices.ask(view, held, 1, order, true);
  prices.stop();
  await answer([{ bytes: 1 }, { bytes: 2 }, { bytes: 3 }, { bytes: 4 }]);
  assert.deepEqual([channel.asked.length, drawn], [1, 0]);
  assert.equal((prices.of(view, held, "model") as Price).bytes, 1);
});

test("another hand ends the questions for the last one", async () => {
  prices.ask(view, held, 1, order, true);
  const first = channel.asked[0];
  prices.ask(view, hand("classes", TRAY), 1, order, true);
  first.answer({ kind: "prices", rev: 1, prices: [price({}), price({}), price({}), price({})] });
  await later();
  assert.equal(channel.asked.length, 2);
});

test("what holds for another revision is dropped, and forgotten", async () => {
  prices.ask(view, held, 1, order, true);
  await answer([{ bytes: 1 }, { bytes: 2 }, { bytes: 3 }, { bytes: 4 }], 2);
  assert.deepEqual([channel.asked.length, prices.all(view, held).size], [1, 0]);
  prices.ask(view, held, 2, order, true);
  await answer([{ bytes: 1 }, { bytes: 2 }, { bytes: 3 }, { bytes: 4 }], 2);
  assert.equal(prices.all(view, held).size, 4);
  prices.forget(2);
  assert.equal(prices.all(view, held).size, 4);
  prices.forget(3);
  assert.equal(prices.all(view, held).size, 0);
});

test("where Python is silent nothing more is asked", async () => {
  prices.ask(view, held, 1, order, true);
  channel.asked[0].answer(null);
  await later();
  assert.deepEqual([channel.asked.length, drawn], [1, 0]);
});

test("where Python answers fewer than it was asked for, the rest is asked for again", async () => {
  prices.ask(view, held, 1, order, false);
  await answer([{ bytes: 1 }]);
  assert.deepEqual(channel.asked[1].intents, intents(["data@params/*", "model@params/*", TRAY]));
  await answer([{ bytes: 2 }, { bytes: 3 }, { bytes: 4 }]);
  assert.deepEqual([channel.asked.length, (prices.of(view, held, TRAY) as Price).bytes], [2, 4]);
  prices.forget(2);
  prices.ask(view, held, 2, order, false);
  await answer([], 2);
  assert.equal(channel.asked.length, 3);
});

test("where costs take long each zone is asked for once, and no peak", async () => {
  const slow = { ...view, slow: true };
  prices.ask(slow, held, 1, order.slice(0, 2), false);
  await answer([{ seconds: null }, { seconds: null }]);
  prices.ask(slow, held, 1, order.slice(0, 3), false);
  assert.deepEqual(channel.asked[1].intents, intents(["model@params/*"]));
});
