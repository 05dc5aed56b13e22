// @ts-check
/**
 * The numbers of two layouts side by side, one row each: what a panel of the stage has of the layout on the board and of
 * another one, matched by name, and how much more or less mine is.
 */
import { bytes, exact, seconds, signedBytes, signedCount, signedSeconds } from "./format.js";

/**
 * @typedef {import("./types.js").View} View
 * @typedef {{
 *   key: string, label: string, mine: number | null, other: number | null, text: (value: number) => string,
 *   signed: (value: number) => string
 * }} Row
 * @typedef {(view: View) => Map<string, [string, number]>} Numbers labels and values by key, in order
 */

/**
 * Rows of all keys that either layout has; one that only one of them has is nothing of the other.
 * @param {View} mine
 * @param {View} other
 * @param {Numbers} numbers
 * @param {(value: number) => string} text
 * @param {(value: number) => string} signed
 * @returns {Row[]}
 */
function matched(mine, other, numbers, text, signed) {
  const [left, right] = [numbers(mine), numbers(other)];
  return [...new Map([...left, ...right])].map(([key, [label]]) => {
    const [one, two] = [left.get(key)?.[1] ?? 0, right.get(key)?.[1] ?? 0];
    return { key, label, mine: one, other: two, text, signed };
  });
}

/**
 * @param {string} key
 * @param {string} label
 * @param {View[]} views
 * @param {(view: View) => number | null | undefined} of
 * @param {(value: number) => string} text
 * @param {(value: number) => string} signed
 * @returns {Row}
 */
function single(key, label, [mine, other], of, text, signed) {
  return { key, label, mine: of(mine) ?? null, other: of(other) ?? null, text, signed };
}

/** @type {(mine: View, other: View) => Row[]} */
export function devicesRows(mine, other) {
  const views = [mine, other];
  const place = mine.shards?.place;
  const local = (/** @type {View} */ view) => view.places.rows.find((row) => row.place === place)?.local_bytes;
  return [single("local", "on each device", views, local, bytes, signedBytes)];
}

/**
 * How much more the other layout has; null where one of them is not known yet.
 * @param {Row} row
 * @returns {number | null}
 */
export function differenceOf({ mine, other }) {
  if (mine === null || other === null) return null;
  const by = mine - other;
  // Sums of floating-point numbers that are equal but for their order.
  return Math.abs(by) > 1e-9 * Math.max(Math.abs(mine), Math.abs(other)) ? by : 0;
}

/** @type {(mine: View, other: View) => Row[]} */
export function trafficRows(mine, other) {
  const views = [mine, other];
  const axes = (/** @type {View} */ view) =>
    new Map(
      view.communication.by_axis.map((part) => [part.key, [`over ${part.key.replaceAll("+", " + ")}`, part.bytes]]),
    );
  return [
    single("sends", "sends", views, (view) => view.communication.total, bytes, signedBytes),
    ...matched(mine, other, /** @type {Numbers} */ (axes), bytes, signedBytes),
    single("collectives", "collectives", views, (view) => view.collectives.count, exact, signedCount),
  ];
}

/** @type {(mine: View, other: View) => Row[]} */
export function memoryRows(mine, other) {
  const views = [mine, other];
  const stored = [
    single("arguments", "arguments", views, (view) => view.memory.arguments, bytes, signedBytes),
    single("outputs", "outputs", views, (view) => view.memory.outputs, bytes, signedBytes),
  ];
  if (!mine.machine.on) return stored;
  const peak = single("peak", "peak", views, (view) => view.peak_memory?.bytes, bytes, signedBytes);
  if (!mine.peak_memory || !other.peak_memory) return [peak, ...stored];
  const parts = (/** @type {View} */ view) =>
    new Map(view.peak_memory?.parts.map((part) => [part.name, [part.name, part.bytes]]));
  return [peak, ...matched(mine, other, /** @type {Numbers} */ (parts), bytes, signedBytes)];
}

/** @type {(mine: View, other: View) => Row[]} */
export function timeRows(mine, other) {
  const views = [mine, other];
  const known = (/** @type {View} */ view) => (view.time && !view.time.missing ? view.time : null);
  const step = single("step", "step", views, (view) => known(view)?.estimate, seconds, signedSeconds);
  if (!known(mine) || !known(other)) return mine.machine.on ? [step] : [];
  const parts = (/** @type {View} */ view) =>
    new Map(view.time?.parts.map((part) => [part.key, [part.label, part.seconds]]));
  return [
    step,
    ...matched(mine, other, /** @type {Numbers} */ (parts), seconds, signedSeconds),
    single("exposed", "exposed", views, (view) => view.time?.exposed, seconds, signedSeconds),
  ];
}
