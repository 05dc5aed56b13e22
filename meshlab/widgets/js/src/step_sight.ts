/** The part of a step that is in sight, in seconds from its beginning: how it zooms and pans. It never leaves the step. */

export type Sight = { from: number; to: number };

// The least that is shown of a step, as a part of it: a kernel of a microsecond in a step of a minute fills the width.
const LEAST = 1e-8;
// What is brought into sight has so much of the width on either side.
const ROOM = 0.25;

/** @returns a sight of that length that begins there, or as near as it can */
function of(from: number, length: number, whole: number): Sight {
  const long = Math.min(whole, Math.max(whole * LEAST, length));
  const first = Math.min(Math.max(0, from), whole - long);
  return { from: first, to: first + long };
}

/**
 * @param by how many times as wide all is drawn
 * @param at the time that stays where it is
 */
export function zoomed({ from, to }: Sight, whole: number, by: number, at: number = (from + to) / 2): Sight {
  const length = Math.min(whole, Math.max(whole * LEAST, (to - from) / by));
  const share = to > from ? (at - from) / (to - from) : 0;
  return of(at - share * length, length, whole);
}

/** @param by how far, in widths of what is in sight */
export function panned({ from, to }: Sight, whole: number, by: number): Sight {
  return of(from + by * (to - from), to - from, whole);
}

/** A stretch with room on both sides. */
export function around(begin: number, end: number, whole: number): Sight {
  const room = ROOM * (end - begin);
  return of(begin - room, end - begin + 2 * room, whole);
}

/** What is in sight, moved as little as shows a stretch; where it is longer, from its beginning on. */
export function showing(sight: Sight, begin: number, end: number, whole: number): Sight {
  const length = sight.to - sight.from;
  const room = Math.min(ROOM * length, (length - (end - begin)) / 2);
  if (begin < sight.from || room < 0) return of(begin - Math.max(0, room), length, whole);
  return end > sight.to ? of(end + room - length, length, whole) : sight;
}

export function isWhole({ from, to }: Sight, whole: number): boolean {
  return to - from >= whole * (1 - 1e-9);
}

/** What is between two, on the way from one to the other: as fast to the eye when zooming as when panning. */
export function between(one: Sight, other: Sight, share: number): Sight {
  const [first, last] = [one.to - one.from, other.to - other.from];
  const length = first * (last / first) ** share;
  // Where lengths differ the way is that of the length, so that a point that stays does stay.
  const way = Math.abs(last - first) > 1e-9 * Math.max(first, last) ? (length - first) / (last - first) : share;
  const from = one.from + (other.from - one.from) * way;
  return { from, to: from + length };
}
