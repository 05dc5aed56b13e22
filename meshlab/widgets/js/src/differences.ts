/**
 * The numbers of two layouts side by side, one row each: what a panel of the stage has of the layout on the board and of
 * another one, matched by name, and how much more or less mine is.
 */
import { bytes, exact, seconds, signedBytes, signedCount, signedSeconds } from "./format.ts";
import { predicted } from "./model.ts";
import type { View } from "./types.ts";

export type Row = {
  key: string;
  label: string;
  mine: number | null;
  other: number | null;
  text: (value: number) => string;
  signed: (value: number) => string;
};
/** Labels and values by key, in order. */
type Numbers = (view: View) => Map<string, [string, number]>;

/** Rows of all keys that either layout has; one that only one of them has is nothing of the other. */
function matched(
  mine: View,
  other: View,
  numbers: Numbers,
  text: (value: number) => string,
  signed: (value: number) => string,
): Row[] {
  const [left, right] = [numbers(mine), numbers(other)];
  return [...new Map([...left, ...right])].map(([key, [label]]) => {
    const [one, two] = [left.get(key)?.[1] ?? 0, right.get(key)?.[1] ?? 0];
    return { key, label, mine: one, other: two, text, signed };
  });
}

function single(
  key: string,
  label: string,
  [mine, other]: View[],
  of: (view: View) => number | null | undefined,
  text: (value: number) => string,
  signed: (value: number) => string,
): Row {
  return { key, label, mine: of(mine) ?? null, other: of(other) ?? null, text, signed };
}

export function devicesRows(mine: View, other: View): Row[] {
  const views = [mine, other];
  const place = mine.shards?.place;
  const local = (view: View) => view.places.rows.find((row) => row.place === place)?.local_bytes;
  return [single("local", "on each device", views, local, bytes, signedBytes)];
}

/** How much more the other layout has; null where one of them is not known yet. */
export function differenceOf({ mine, other }: Row): number | null {
  if (mine === null || other === null) return null;
  const by = mine - other;
  // Sums of floating-point numbers that are equal but for their order.
  return Math.abs(by) > 1e-9 * Math.max(Math.abs(mine), Math.abs(other)) ? by : 0;
}

export function trafficRows(mine: View, other: View): Row[] {
  const views = [mine, other];
  const axes = (view: View) =>
    new Map(
      view.communication.by_axis.map((part) => [part.key, [`over ${part.key.replaceAll("+", " + ")}`, part.bytes]]),
    );
  return [
    single("sends", "sends", views, (view) => view.communication.total, bytes, signedBytes),
    ...matched(mine, other, axes as Numbers, bytes, signedBytes),
    single("collectives", "collectives", views, (view) => view.collectives.count, exact, signedCount),
  ];
}

export function memoryRows(mine: View, other: View): Row[] {
  const views = [mine, other];
  const stored = [
    single("arguments", "arguments", views, (view) => view.memory.arguments, bytes, signedBytes),
    single("outputs", "outputs", views, (view) => view.memory.outputs, bytes, signedBytes),
  ];
  if (!mine.machine.on) return stored;
  const peak = single("peak", "peak", views, (view) => view.peak_memory?.bytes, bytes, signedBytes);
  if (!mine.peak_memory || !other.peak_memory) return [peak, ...stored];
  const parts = (view: View) => new Map(view.peak_memory?.parts.map((part) => [part.name, [part.name, part.bytes]]));
  return [peak, ...matched(mine, other, parts as Numbers, bytes, signedBytes)];
}

export function timeRows(mine: View, other: View): Row[] {
  const views = [mine, other];
  const known = (view: View) => predicted(view.time);
  const step = single("step", "step", views, (view) => known(view)?.estimate, seconds, signedSeconds);
  if (!known(mine) || !known(other)) return mine.machine.on ? [step] : [];
  const parts = (view: View) => new Map(known(view)?.parts.map((part) => [part.key, [part.label, part.seconds]]));
  return [
    step,
    ...matched(mine, other, parts as Numbers, seconds, signedSeconds),
    single("exposed", "exposed", views, (view) => known(view)?.exposed, seconds, signedSeconds),
  ];
}
