/**
 * The mark of a mesh axis: one colour and one pattern, the same in zones, chips, grid and charts. The pattern and the
 * axis's name say what the colour says, for those who do not see it. Python says which it is, so that it stays with the
 * axis's name when others come and go (meshlab/widgets/state/marks.py); sets of several axes have marks of their own.
 */
import { h } from "./dom.ts";
import type { View } from "./types.ts";

// That of sets for which no colour is left (state/marks.py).
const SEVERAL = 6;

/** The class that colours an element in the mark of an axis or a set of axes. */
export function markClass(view: View, key: string): string {
  return `mlb-mark-${view.groups.find((group) => group.key === key)?.mark ?? SEVERAL}`;
}

/** A small square in the mark of an axis. */
export function swatch(view: View, key: string): HTMLElement {
  return h("span", { class: `mlb-swatch ${markClass(view, key)}`, "aria-hidden": "true" });
}

/** The name of an axis or a set of axes after its swatch. */
export function axisLabel(view: View, key: string): HTMLElement {
  return h("span", { class: "mlb-axis-label" }, swatch(view, key), key.replaceAll("+", " + "));
}
