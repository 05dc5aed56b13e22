/** Scales of a drawing with two axes, the values that are written beside them, and the Pareto front of its points. */

type Point = { x: number; y: number };
export type Scale = { at: (value: number) => number; ticks: number[] };

// From this ratio of the largest to the smallest on, a scale is logarithmic.
const WIDE = 8;

/** The points that no other is better than in both, from left to right; of equal ones the first. */
export function pareto<P extends Point>(points: P[]): P[] {
  const front = [];
  let lowest = Infinity;
  for (const point of [...points].sort((one, other) => one.x - other.x || one.y - other.y)) {
    if (point.y < lowest) front.push(point);
    lowest = Math.min(lowest, point.y);
  }
  return front;
}

/** A scale from 0 to 1 with room at both ends, and three or four values to write beside it. */
export function scaleOf(values: number[]): Scale {
  const [least, most] = [Math.min(...values), Math.max(...values)];
  const wide = least > 0 && most / least > WIDE;
  const bend = wide ? Math.log10 : (value: number) => value;
  const [begin, end] = [bend(least), bend(most)];
  const room = 0.1 * (end - begin) || 0.1 * Math.abs(end) || 1;
  const [low, high] = [wide ? begin - room : Math.max(0, begin - room), end + room];
  const at = (value: number) => (bend(value) - low) / (high - low);
  return { at, ticks: (wide ? powers(low, high) : steps(low, high)).filter((tick) => at(tick) >= 0 && at(tick) <= 1) };
}

/** @returns round values from low to high */
function steps(low: number, high: number): number[] {
  const unit = 10 ** Math.floor(Math.log10((high - low) / 3));
  const step = unit * ([1, 2, 5, 10].find((each) => (high - low) / (unit * each) <= 4) ?? 10);
  const first = Math.ceil(low / step);
  return Array.from({ length: Math.floor(high / step) - first + 1 }, (_, i) => (first + i) * step);
}

/**
 * @param low exponent of ten
 * @returns powers of ten; where there are few, 2 and 5 times them too
 */
function powers(low: number, high: number): number[] {
  const first = Math.floor(low);
  const stride = Math.max(1, Math.ceil((high - low) / 4));
  const tens = Array.from({ length: Math.ceil(high) - first + 1 }, (_, i) => first + i);
  const chosen = tens.filter((power) => power % stride === 0);
  return chosen.flatMap((power) => (high - low < 2 ? [1, 2, 5] : [1]).map((each) => each * 10 ** power));
}
