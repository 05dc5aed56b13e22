/** The memory of a device over the step, below its lanes: up to what a device has, or what is needed where that is more. */
import { h, s } from "./dom.ts";
import { bytes } from "./format.ts";
import type { Rows } from "./step_rows.ts";
import type { Sight } from "./step_sight.ts";
import type { View } from "./types.ts";

// A peak that is less of what a device has would not be seen.
const SHOWN = 1 / 30;
// Stretches that are narrower than this part of the width are drawn as one, as high as the highest.
const NARROW = 1 / 1500;

type Memory = Rows["memory"];
type Stretch = { left: number; right: number; bytes: number };

/** @returns the last point at or before a time; 0 where there is none */
function lastBefore(begin: ArrayLike<number>, time: number): number {
  let [low, high] = [0, begin.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if (begin[middle] <= time) low = middle + 1;
    else high = middle;
  }
  return Math.max(0, low - 1);
}

/**
 * What is alive over time, from the left edge to the right one.
 * @returns stretches, in parts of the width
 */
export function stairs({ begin, bytes: counts }: Memory, { from, to }: Sight, whole: number): Stretch[] {
  const found: Stretch[] = [];
  const x = (time: number) => Math.min(1, Math.max(0, (time - from) / (to - from)));
  for (let i = lastBefore(begin, from); i < begin.length && begin[i] < to; i++) {
    const [left, right] = [x(begin[i]), x(i + 1 < begin.length ? begin[i + 1] : whole)];
    const last = found.at(-1);
    if (last && right - last.left < NARROW) {
      last.right = right;
      last.bytes = Math.max(last.bytes, counts[i]);
    } else if (right > left) found.push({ left, right, bytes: counts[i] });
  }
  return found;
}

export class MemoryLane {
  memory: Memory;
  whole: number;
  name: HTMLElement;
  track: HTMLElement;
  /** The bytes that are as high as the lane. */
  most: number;
  shape: SVGElement;

  constructor(memory: Memory, whole: number, peak: View["peak_memory"]) {
    this.memory = memory;
    this.whole = whole;
    const highest = Array.from(memory.bytes).reduce((most, count) => Math.max(most, count), 1);
    const limit = peak?.limit ?? 0;
    // Of a device that is almost empty the shape is shown, without what it has.
    this.most = highest < SHOWN * limit ? highest : Math.max(limit, highest);
    const line = { x1: 0, x2: 100, y1: this.height(limit), y2: this.height(limit) };
    const text = peak ? `peak ${bytes(peak.bytes)} of ${bytes(limit)}` : "";
    this.shape = s("polygon", { class: peak?.fits === false ? "mlb-too-much" : "" });
    const drawing = s(
      "svg",
      { viewBox: "0 0 100 100", preserveAspectRatio: "none", role: "img", "aria-label": `memory of a device: ${text}` },
      this.shape,
      this.most >= limit && s("line", { ...line, "vector-effect": "non-scaling-stroke" }),
    );
    const scale = [this.most, this.most / 2].map((count) =>
      h("span", { class: "mlb-memory-tick", style: `top:${this.height(count).toFixed(1)}%` }, bytes(count)),
    );
    this.track = h("div", { class: "mlb-lane mlb-lane-memory", title: text }, drawing, scale);
    const needed = h("b", { class: "mlb-lane-peak" }, peak ? bytes(peak.bytes) : "");
    this.name = h("span", { class: "mlb-lane-name" }, h("span", {}, "memory"), needed);
  }

  /** @returns how far from above, in hundredths */
  height(count: number): number {
    return 100 - (100 * count) / this.most;
  }

  paint(sight: Sight) {
    const corners = stairs(this.memory, sight, this.whole).map(({ left, right, bytes: count }) => {
      const y = this.height(count).toFixed(2);
      return `${(100 * left).toFixed(2)},${y} ${(100 * right).toFixed(2)},${y}`;
    });
    this.shape.setAttribute("points", corners.length ? `0,100 ${corners.join(" ")} 100,100` : "");
  }
}
