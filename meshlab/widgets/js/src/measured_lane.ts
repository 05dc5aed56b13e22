/**
 * What the slices of a lane took, measured, below the lane itself. Each slice stands where its prediction does, and is
 * filled by how long it took: to the middle where its share of the step is as predicted, to two thirds where it is twice
 * that, to a third where it is half; so nothing is cut off. Waiting for other devices is hatched, above the rest.
 */
import type { Board } from "./board.ts";
import { h } from "./dom.ts";
import { percent, seconds } from "./format.ts";
import { predicted } from "./model.ts";
import { profiledOf } from "./profile.ts";
import { Lane, type Marks } from "./step_lane.ts";
import { type Row, within } from "./step_rows.ts";
import type { Hit } from "./step_search.ts";
import type { Sight } from "./step_sight.ts";

export function measuredKey(key: string): string {
  return `measured ${key}`;
}

/** The measured row of a row: of the same slices, which are found in that one. */
export function measuredRow(row: Row): Row {
  return { ...row, key: measuredKey(row.key), find: () => -1 };
}

/** @returns how far a slice is filled that took so many times as long as predicted */
export function filled(times: number): number {
  return times / (1 + times);
}

/** Shares of the measured step, in all slices of a row: of running, and of waiting. */
export function sumsOfRow(row: Row): { took: number; waited: number } {
  const sums = { took: 0, waited: 0 };
  for (let i = 0; i < row.begin.length; i++) {
    const { took, waited } = row.facts(i);
    sums.took += took * row.seconds[i];
    sums.waited += waited * row.seconds[i];
  }
  return sums;
}

/**
 * How far each pixel of a row is filled, by what ran and by what waited as well; 0 where nothing is predicted.
 * @param whole seconds of the predicted step, in which shares of both are compared
 */
export function fills(row: Row, sight: Sight, width: number, whole: number): { took: number[]; all: number[] } {
  const count = Math.ceil(width);
  const [time, took, all] = [0, 0, 0].map(() => new Float64Array(count));
  const scale = width / (sight.to - sight.from);
  within(row, sight, (i) => {
    const facts = row.facts(i);
    const [left, right] = [row.begin[i], row.end[i]].map((at) => (at - sight.from) * scale);
    for (let x = Math.max(0, Math.floor(left)); x < Math.min(count, right); x++) {
      const part = Math.min(right, x + 1) - Math.max(left, x);
      if (part <= 0) continue;
      time[x] += part;
      took[x] += part * facts.took;
      all[x] += part * (facts.took + facts.waited);
    }
  });
  const level = (of: Float64Array) => Array.from(of, (each, x) => (time[x] ? filled((each / time[x]) * whole) : 0));
  const levels = level(all);
  return { took: levels.map((each, x) => (all[x] ? (each * took[x]) / all[x] : 0)), all: levels };
}

/** The outline of levels, as CSS clips by it. */
export function outline(levels: number[]): string {
  const points = ["0px 100%"];
  for (let x = 0; x < levels.length; x++) {
    if (levels[x] === levels[x - 1]) continue;
    const before = `${((1 - (levels[x - 1] ?? 0)) * 100).toFixed(1)}%`;
    points.push(`${x}px ${before}`, `${x}px ${((1 - levels[x]) * 100).toFixed(1)}%`);
  }
  const last = ((1 - (levels.at(-1) ?? 0)) * 100).toFixed(1);
  return `polygon(${points.join(", ")}, ${levels.length}px ${last}%, ${levels.length}px 100%)`;
}

export class MeasuredLane extends Lane {
  /** The lane of the predictions, in which slices are selected. */
  above: Row;
  took = h("div", { class: "mlb-measured-took", "aria-hidden": "true" });
  waited = h("div", { class: "mlb-measured-waited", "aria-hidden": "true" });

  constructor(board: Board, above: Row, options: ConstructorParameters<typeof Lane>[2]) {
    super(board, measuredRow(above), options);
    this.above = above;
    this.track.classList.add("mlb-measured");
    this.drawing.replaceWith(this.waited, this.took);
  }

  override named(): { said: string; shown: Node | string } {
    return { said: this.row.key, shown: h("span", { class: "mlb-measured-name" }, "↳ measured") };
  }

  override label(): string {
    const { waited } = sumsOfRow(this.row);
    const waits = waited ? `, and ${this.say(waited)} waiting for other devices` : "";
    return `${this.row.key}: ${this.sumText()}${waits}; filled to the line where it is as predicted`;
  }

  override sumText(): string {
    return this.say(sumsOfRow(this.row).took);
  }

  /** A share of the measured step, on attached devices in seconds. */
  say(share: number): string {
    const whole = profiledOf(this.board.view)?.seconds ?? null;
    return whole === null ? percent(share) : seconds(share * whole);
  }

  override titleOf(i: number): string {
    return `measured: ${super.titleOf(i)}`;
  }

  override nameOf(i: number): string {
    return this.say(this.row.facts(i).took * this.row.seconds[i]);
  }

  override partClass(): string {
    return "mlb-measured-part";
  }

  override paint(sight: Sight, width: number, marks: Marks) {
    super.paint(sight, width, marks);
    const whole = predicted(this.board.view.time)?.estimate ?? 0;
    const { took, all } = fills(this.row, sight, width, whole);
    this.took.style.clipPath = outline(took);
    this.waited.style.clipPath = outline(all);
  }

  override mark(button: HTMLElement, i: number, marks: Marks, found: Set<number> | undefined) {
    const { moment } = marks;
    const here: Hit | null = moment?.row === this.above ? { row: this.row, i: moment.i } : null;
    super.mark(button, i, { ...marks, moment: here }, found);
  }
}
