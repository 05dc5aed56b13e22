// @ts-check
/**
 * A chip that has been picked up, by whatever means, and what each zone says to it. A zone is the name of a mesh axis,
 * or "" for the tray of unsharded dims. Only data here: drawing is in zones.js, events in pointer.js and
 * keyboard.js.
 *
 * A drop moves the dim to exactly that axis. With `add` (Shift, or the switch on the board) the axis is added behind
 * those that split the dim already. A chip of a dim with several axes that is dropped on the tray gives up one of them.
 *
 * @typedef {import("./types.js").View} View
 * @typedef {import("./types.js").Chip} Chip
 * @typedef {import("./types.js").Refusal} Refusal
 * @typedef {{dim: string, from: string, by: "pointer" | "keyboard" | "click", target: string | null, add: boolean}} Hand
 * @typedef {{state: "here" | "legal" | "refused", note: string, refusal?: Refusal}} Verdict
 */
import { exact } from "./format.js";

export const TRAY = "";

/**
 * @param {View} view
 * @returns {string[]} all zones, in the order of the keyboard
 */
export function zonesOf(view) {
  return [...view.mesh.axes.map((axis) => axis.name), TRAY];
}

/**
 * @param {string} zone
 * @returns {string}
 */
export function zoneName(zone) {
  return zone === TRAY ? "unsharded" : zone;
}

/**
 * @param {View} view
 * @param {string} dim
 * @returns {Chip}
 */
export function chipOf(view, dim) {
  const chip = view.chips.find((each) => each.name === dim);
  if (!chip) throw new Error(`no chip ${dim}`);
  return chip;
}

/**
 * The axes that would split a dim after a drop.
 * @param {View} view
 * @param {Hand} hand
 * @param {string} zone
 * @returns {string[]}
 */
export function axesAfter(view, hand, zone) {
  const { axes } = chipOf(view, hand.dim);
  if (zone === TRAY) return hand.from === TRAY ? axes : axes.filter((axis) => axis !== hand.from);
  if (!hand.add) return [zone];
  return axes.includes(zone) ? axes : [...axes, zone];
}

/**
 * What a zone says to a chip that is held.
 * @param {View} view
 * @param {Hand} hand
 * @param {string} zone
 * @returns {Verdict}
 */
export function verdict(view, hand, zone) {
  const chip = chipOf(view, hand.dim);
  const after = axesAfter(view, hand, zone);
  if (after.join() === chip.axes.join()) return { state: "here", note: "it is here" };
  if (after.length === 0) return { state: "legal", note: `all ${exact(chip.size)} on each device` };
  if (zone !== TRAY) {
    const table = after.length > 1 ? view.additions : view.refusals;
    const refusal = table[hand.dim]?.[zone];
    if (refusal) return { state: "refused", note: refusal.text, refusal };
  }
  const sizes = Object.fromEntries(view.mesh.axes.map((axis) => [axis.name, axis.size]));
  const local = after.reduce((size, axis) => size / sizes[axis], chip.size);
  return { state: "legal", note: `${exact(local)} of ${exact(chip.size)} on each device` };
}

/**
 * The intent that a drop sends.
 * @param {View} view
 * @param {Hand} hand
 * @param {string} zone
 * @returns {{op: string, args: Record<string, unknown>}}
 */
export function dropIntent(view, hand, zone) {
  const axes = axesAfter(view, hand, zone);
  return axes.length ? { op: "place", args: { dim: hand.dim, axes } } : { op: "remove", args: { dim: hand.dim } };
}

/**
 * The next zone that takes the chip, going round.
 * @param {View} view
 * @param {Hand} hand
 * @param {1 | -1} step
 * @returns {string | null} null where no zone takes it
 */
export function nextLegal(view, hand, step) {
  const zones = zonesOf(view);
  const start = zones.indexOf(hand.target ?? hand.from);
  for (let i = 1; i <= zones.length; i += 1) {
    const zone = zones[(start + step * i + zones.length * i) % zones.length];
    if (verdict(view, hand, zone).state === "legal") return zone;
  }
  return null;
}
