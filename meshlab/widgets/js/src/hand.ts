/**
 * A chip that has been picked up, by whatever means, and what each zone says to it. A zone is a mesh axis in a column:
 * `model` among the compute rules, `model@params/*` among the rules at a place; "" is the tray of dims without a
 * compute rule. Only data here: drawing is in zones.ts, events in pointer.ts and keyboard.ts.
 *
 * A drop moves the dim to exactly that axis; on a serial axis, which runs its blocks one after the other on each
 * device, it is added behind the axes of devices, where it always comes last. With `add` (Shift, or the switch on the
 * strip that stands there while it is held) the axis is added behind those that shard the dim in that column already, and the rule that the chip was taken
 * from stays. A chip of a dim with several axes that is dropped on the tray gives up one of them.
 */
export type Hand = {
  dim: string;
  from: string;
  by: "pointer" | "keyboard" | "click";
  target: string | null;
  add: boolean;
};
export type Verdict = { state: "here" | "legal" | "refused" | "unrecorded"; note: string; refusal?: RefusedDrop };

import { exact } from "./format.ts";
import type { Priced } from "./prices.ts";
import type { Chip, Column, Intent, Refusal, RefusedDrop, View } from "./types.ts";

export const TRAY = "";
/** The code of a refusal by a board without Python, of a layout that was not recorded: nothing is known of it. */
export const UNRECORDED = "unrecorded";

/** @returns the zone of an axis in the column of a place; "" for the compute rules */
export function zoneOf(axis: string, at: string): string {
  return at ? `${axis}@${at}` : axis;
}

export function partsOf(zone: string): { axis: string; at: string } {
  const [axis, ...at] = zone.split("@");
  return { axis, at: at.join("@") };
}

/** All zones, row by row; the tray is the last row. */
function rowsOf(view: View): string[][] {
  return [...view.mesh.axes.map((axis) => view.columns.map(({ at }) => zoneOf(axis.name, at))), [TRAY]];
}

export function zonesOf(view: View): string[] {
  return rowsOf(view).flat();
}

function columnOf(view: View, at: string): Column {
  const column = view.columns.find((each) => each.at === at);
  if (!column) throw new Error(`no column ${at}`);
  return column;
}

export function zoneName(view: View, zone: string): string {
  const { axis, at } = partsOf(zone);
  if (zone === TRAY) return "unsharded";
  return at ? `${axis}, for ${columnOf(view, at).label}` : axis;
}

export function chipOf(view: View, dim: string): Chip {
  const chip = view.chips.find((each) => each.name === dim);
  if (!chip) throw new Error(`no chip ${dim}`);
  return chip;
}

/** The mesh axes that shard a dim in a column, major first. */
function axesIn(view: View, dim: string, at: string): string[] {
  return view.columns.find((each) => each.at === at)?.rules[dim] ?? [];
}

/**
 * The axes that would shard a dim after a drop, in the column of the zone; of the tray, in the one it was taken from.
 */
export function axesAfter(view: View, hand: Hand, zone: string): string[] {
  const from = partsOf(hand.from);
  if (zone === TRAY) {
    const axes = axesIn(view, hand.dim, from.at);
    return hand.from === TRAY ? axes : axes.filter((axis) => axis !== from.axis);
  }
  const { axis, at } = partsOf(zone);
  const axes = axesIn(view, hand.dim, at);
  const inTime = (name: string) => view.mesh.axes.some((each) => each.name === name && each.inTime);
  const time = axes.filter(inTime);
  if (inTime(axis)) return time.includes(axis) ? axes : [...axes, axis];
  // Within a column a chip moves its own axis; the dim's others stay where the chip is one of several.
  if (hand.add || (hand.from !== TRAY && from.at === at && axes.length > 1)) {
    const others = hand.add ? axes : axes.filter((each) => each !== from.axis);
    if (others.includes(axis)) return others;
    return [...others.filter((each) => !inTime(each)), axis, ...others.filter(inTime)];
  }
  return [axis];
}

/**
 * What a zone says to a chip that is held.
 * @param price what Python said of it, if it has
 */
export function verdict(view: View, hand: Hand, zone: string, price?: Priced): Verdict {
  const chip = chipOf(view, hand.dim);
  const { at } = partsOf(zone === TRAY ? hand.from : zone);
  const after = axesAfter(view, hand, zone);
  const moves = leaves(hand, zone) !== null;
  if (!moves && after.join() === axesIn(view, hand.dim, at).join()) return { state: "here", note: "it is here" };
  if (after.length === 0) return { state: "legal", note: at ? "stored as it is computed" : `all ${exact(chip.size)}` };
  const refusal = price?.refused ?? (zone === TRAY || at || moves ? null : known(view, hand, zone, after));
  if (refusal) {
    const state = refusal.code === UNRECORDED ? "unrecorded" : "refused";
    return { state, note: refusal.text, refusal };
  }
  const sizes = Object.fromEntries(view.mesh.axes.map((axis) => [axis.name, axis.size]));
  const local = after.reduce((size, axis) => size / sizes[axis], chip.size);
  return { state: "legal", note: `${exact(Math.ceil(local))} of ${exact(chip.size)} on each device` };
}

/** The refusal of a compute rule, which came with the revision. */
function known(view: View, hand: Hand, zone: string, after: string[]): Refusal | null {
  const table = after.length > 1 ? view.additions : view.refusals;
  return table[hand.dim]?.[zone] ?? null;
}

/** The place of the rule that a drop takes away, since the chip was moved from its column; null where none is. */
function leaves(hand: Hand, zone: string): string | null {
  if (hand.from === TRAY || zone === TRAY || hand.add) return null;
  const { at } = partsOf(hand.from);
  return at === partsOf(zone).at ? null : at;
}

/** The intent that a drop sends. */
export function dropIntent(view: View, hand: Hand, zone: string): Intent {
  const axes = axesAfter(view, hand, zone);
  const { at } = partsOf(zone === TRAY ? hand.from : zone);
  const source = leaves(hand, zone);
  const args = { dim: hand.dim, ...(at ? { at } : {}), ...(source === null ? {} : { source }) };
  return axes.length ? { op: "place", args: { ...args, axes } } : { op: "remove", args };
}

export type Arrow = "ArrowRight" | "ArrowLeft" | "ArrowDown" | "ArrowUp";

/**
 * The next zone that takes the chip, going round: to the right and left along the rows, one after the other; down and up
 * to the next row that has one, of several there the nearest.
 * @param price what Python said of a zone
 * @returns null where no zone takes it
 */
export function nextLegal(
  view: View,
  hand: Hand,
  arrow: Arrow,
  price: (zone: string) => Priced | undefined = () => undefined,
): string | null {
  const rows = rowsOf(view);
  const start = hand.target ?? hand.from;
  const step = arrow === "ArrowRight" || arrow === "ArrowDown" ? 1 : -1;
  const across = arrow === "ArrowRight" || arrow === "ArrowLeft";
  const at = rows.find((row) => row.includes(start))?.indexOf(start) ?? 0;
  const lines = across ? rows.flat().map((zone) => [zone]) : rows;
  const from = lines.findIndex((line) => line.includes(start));
  for (let i = 1; i <= lines.length; i += 1) {
    const line = lines[(from + step * i + lines.length * i) % lines.length];
    const legal = line.filter((zone) => verdict(view, hand, zone, price(zone)).state === "legal");
    const away = (zone: string) => Math.abs(line.indexOf(zone) - at);
    if (legal.length) return legal.reduce((one, other) => (away(other) < away(one) ? other : one));
  }
  return null;
}
