/**
 * The prices of all zones while a chip is held: first the time and the bytes of each, the nearest first, a few in one
 * question; then the peaks, which take longer. Whatever was answered for a revision is remembered, so that a chip over
 * which the pointer rests is priced before it is lifted.
 */

import type { Channel } from "./channel.ts";
import { dropIntent, type Hand, TRAY, verdict, zonesOf } from "./hand.ts";
import type { Intent, Price, RefusedPrice, View } from "./types.ts";

/** What a drop would cost, or why it is refused. */
export type Priced = Price | RefusedPrice;

// Zones in one question: a drop waits for no more than one, of which Python answers as much as is not long.
const TIMES = 5;
const PEAKS = 2;

/**
 * The zone that is best to drop on: the one with the shortest step; without a machine the one with the least work on
 * each device, and of equals the fewest bytes sent (as `state/advice.py`), if it is better than what is there.
 */
export function best(prices: Map<string, Priced>, now: Pick<Price, "seconds" | "work" | "bytes">): string | null {
  let choice = null;
  let least = now;
  for (const [zone, price] of prices) {
    if (price.refused || price.fits === false || (now.seconds !== null && price.seconds === null)) continue;
    if (isBetter(price, least)) [choice, least] = [zone, price];
  }
  return choice;
}

/** @returns whether one is better by more than a thousandth */
function isBetter(
  one: Pick<Price, "seconds" | "work" | "bytes">,
  other: Pick<Price, "seconds" | "work" | "bytes">,
): boolean {
  const less = (a: number, b: number) => a < b * (1 - 1e-3);
  if (one.seconds !== null && other.seconds !== null) return less(one.seconds, other.seconds);
  return less(one.work, other.work) || (!less(other.work, one.work) && less(one.bytes, other.bytes));
}

export class Prices {
  channel: Channel;
  onAnswer: () => void;
  revision = -1;
  /** By the intent, as text. */
  known = new Map<string, Priced>();
  round = 0;

  /** @param onAnswer called when prices have come */
  constructor(channel: Channel, onAnswer: () => void) {
    this.channel = channel;
    this.onAnswer = onAnswer;
  }

  of(view: View, hand: Hand, zone: string): Priced | undefined {
    return this.known.get(JSON.stringify(dropIntent(view, hand, zone)));
  }

  ofIntent(intent: Intent): Priced | undefined {
    return this.known.get(JSON.stringify(intent));
  }

  /**
   * Asks for the price of one intent.
   * @param peak whether the peak is asked for as well
   * @returns whether it was answered, for this revision
   */
  async askIntent(intent: Intent, revision: number, peak: boolean): Promise<boolean> {
    this.forget(revision);
    const answer = await this.channel.prices([intent], peak);
    if (answer?.kind !== "prices" || answer.rev !== this.revision || revision !== this.revision) return false;
    this.known.set(JSON.stringify(intent), answer.prices[0]);
    return true;
  }

  /** All prices that are known for a hand. */
  all(view: View, hand: Hand): Map<string, Priced> {
    const pairs = zonesOf(view).map((zone) => [zone, this.of(view, hand, zone)]);
    return new Map(pairs.filter(([, price]) => price) as [string, Priced][]);
  }

  /** Forgets what was answered for another revision. */
  forget(revision: number) {
    if (revision !== this.revision) this.known.clear();
    this.revision = revision;
  }

  /**
   * Asks for the prices of a hand's zones, in order, until another is asked for or `stop` is called.
   * @param order the zones, nearest first
   * @param peaks whether peaks are asked for as well
   */
  async ask(view: View, hand: Hand, revision: number, order: string[], peaks: boolean) {
    this.forget(revision);
    this.round += 1;
    const mine = this.round;
    const zones = order.filter((zone) => !this.settled(view, hand, zone));
    const answered = await this.batches(view, hand, zones, TIMES, false, mine);
    const legal = zones.filter((zone) => zone !== TRAY && !this.of(view, hand, zone)?.refused);
    if (answered && peaks) await this.batches(view, hand, legal, PEAKS, true, mine);
  }

  /** @returns whether nothing is to be asked of a zone */
  settled(view: View, hand: Hand, zone: string): boolean {
    const price = this.of(view, hand, zone);
    if (price) return price.refused || typeof price.peak === "number" ? true : view.slow;
    return verdict(view, hand, zone).state === "here";
  }

  /** @returns whether all were answered, for the revision that they were asked for */
  async batches(view: View, hand: Hand, zones: string[], size: number, peak: boolean, mine: number): Promise<boolean> {
    for (let start = 0; start < zones.length && mine === this.round; ) {
      const intents = zones.slice(start, start + size).map((zone) => dropIntent(view, hand, zone));
      const answer = await this.channel.prices(intents, peak);
      if (answer?.kind !== "prices" || answer.prices.length === 0 || answer.rev !== this.revision) return false;
      // Where they take long, fewer are answered than were asked for.
      start += answer.prices.length;
      answer.prices.forEach((price, i) => {
        this.known.set(JSON.stringify(intents[i]), price);
      });
      if (mine === this.round) this.onAnswer();
    }
    return mine === this.round;
  }

  stop() {
    this.round += 1;
  }
}
