// @ts-check
/**
 * The prices of all zones while a chip is held: first the time and the bytes of each, the nearest first, a few in one
 * question; then the peaks, which take longer. Whatever was answered for a revision is remembered, so that a chip over
 * which the pointer rests is priced before it is lifted.
 */
import { dropIntent, TRAY, verdict, zonesOf } from "./hand.js";

/**
 * @typedef {import("./types.js").View} View
 * @typedef {import("./types.js").Price} Price
 * @typedef {import("./hand.js").Hand} Hand
 * @typedef {import("./channel.js").Channel} Channel
 */

// Zones in one question: a drop waits for no more than one, of which Python answers as much as is not long.
const TIMES = 5;
const PEAKS = 2;

/**
 * The zone that is best to drop on: the one with the shortest step; without a machine the one with the least work on each
 * device, and of equals the fewest bytes sent (as `state/advice.py`), if it is better than what is there.
 * @param {Map<string, Price>} prices
 * @param {{seconds: number | null, work: number, bytes: number}} now
 * @returns {string | null}
 */
export function best(prices, now) {
  let choice = null;
  let least = now;
  for (const [zone, price] of prices) {
    if (price.refused || price.fits === false || (now.seconds !== null && price.seconds === null)) continue;
    if (isBetter(price, least)) [choice, least] = [zone, price];
  }
  return choice;
}

/**
 * @param {{seconds: number | null, work: number, bytes: number}} one
 * @param {{seconds: number | null, work: number, bytes: number}} other
 * @returns {boolean} whether one is better by more than a thousandth
 */
function isBetter(one, other) {
  const less = (/** @type {number} */ a, /** @type {number} */ b) => a < b * (1 - 1e-3);
  if (one.seconds !== null && other.seconds !== null) return less(one.seconds, other.seconds);
  return less(one.work, other.work) || (!less(other.work, one.work) && less(one.bytes, other.bytes));
}

export class Prices {
  /**
   * @param {Channel} channel
   * @param {() => void} onAnswer called when prices have come
   */
  constructor(channel, onAnswer) {
    this.channel = channel;
    this.onAnswer = onAnswer;
    this.revision = -1;
    /** @type {Map<string, Price>} by the intent, as text */
    this.known = new Map();
    this.round = 0;
  }

  /**
   * @param {View} view
   * @param {Hand} hand
   * @param {string} zone
   * @returns {Price | undefined}
   */
  of(view, hand, zone) {
    return this.known.get(JSON.stringify(dropIntent(view, hand, zone)));
  }

  /**
   * @param {{op: string, args: Record<string, unknown>}} intent
   * @returns {Price | undefined}
   */
  ofIntent(intent) {
    return this.known.get(JSON.stringify(intent));
  }

  /**
   * Asks for the price of one intent.
   * @param {{op: string, args: Record<string, unknown>}} intent
   * @param {number} revision
   * @param {boolean} peak whether the peak is asked for as well
   * @returns {Promise<boolean>} whether it was answered, for this revision
   */
  async askIntent(intent, revision, peak) {
    this.forget(revision);
    const answer = await this.channel.prices([intent], peak);
    if (!answer?.prices || answer.rev !== this.revision || revision !== this.revision) return false;
    this.known.set(JSON.stringify(intent), answer.prices[0]);
    return true;
  }

  /**
   * All prices that are known for a hand.
   * @param {View} view
   * @param {Hand} hand
   * @returns {Map<string, Price>}
   */
  all(view, hand) {
    const pairs = zonesOf(view).map((zone) => [zone, this.of(view, hand, zone)]);
    return new Map(/** @type {[string, Price][]} */ (pairs.filter(([, price]) => price)));
  }

  /**
   * Forgets what was answered for another revision.
   * @param {number} revision
   */
  forget(revision) {
    if (revision !== this.revision) this.known.clear();
    this.revision = revision;
  }

  /**
   * Asks for the prices of a hand's zones, in order, until another is asked for or `stop` is called.
   * @param {View} view
   * @param {Hand} hand
   * @param {number} revision
   * @param {string[]} order the zones, nearest first
   * @param {boolean} peaks whether peaks are asked for as well
   */
  async ask(view, hand, revision, order, peaks) {
    this.forget(revision);
    this.round += 1;
    const mine = this.round;
    const zones = order.filter((zone) => !this.settled(view, hand, zone));
    const answered = await this.batches(view, hand, zones, TIMES, false, mine);
    const legal = zones.filter((zone) => zone !== TRAY && !this.of(view, hand, zone)?.refused);
    if (answered && peaks) await this.batches(view, hand, legal, PEAKS, true, mine);
  }

  /**
   * @param {View} view
   * @param {Hand} hand
   * @param {string} zone
   * @returns {boolean} whether nothing is to be asked of a zone
   */
  settled(view, hand, zone) {
    const price = this.of(view, hand, zone);
    if (price) return Boolean(price.refused) || typeof price.peak === "number" || view.slow;
    return verdict(view, hand, zone).state === "here";
  }

  /**
   * @param {View} view
   * @param {Hand} hand
   * @param {string[]} zones
   * @param {number} size
   * @param {boolean} peak
   * @param {number} mine
   * @returns {Promise<boolean>} whether all were answered, for the revision that they were asked for
   */
  async batches(view, hand, zones, size, peak, mine) {
    for (let start = 0; start < zones.length && mine === this.round; ) {
      const intents = zones.slice(start, start + size).map((zone) => dropIntent(view, hand, zone));
      const answer = await this.channel.prices(intents, peak);
      if (!answer?.prices?.length || answer.rev !== this.revision) return false;
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
