/**
 * The rows of a step over time: what runs in each, and when. Few segments come with every drop (`Timeline`); all slices
 * are asked for (`Step`), as a tree of loops: of a loop that is closed one iteration is stretched over the time of all,
 * and of one that is opened each has its own time.
 */
import type { Sight } from "./step_sight.ts";
import type { Segment, Step, Timeline } from "./types.ts";

/** What is known of a slice. By second are `bytes`, `flops`, and shares of a measured step: it ran, or waited. */
export type Facts = {
  kind: string;
  name: string;
  dims: string;
  source: string;
  code: string;
  collective: string | null;
  times: number;
  bytes: number;
  flops: number;
  took: number;
  waited: number;
  /** The loop that opens with it, by its name; "" of all else. */
  loop: string;
};
/**
 * Slices, sorted. `reach` is the latest end up to each, `seconds` how long something runs in it, `of` the position in
 * `known` of what is known of it, below 0 of iterations; `id` names it for all views, and `facts` is all that is known.
 */
export type Row = {
  key: string;
  /** The mesh axes of a lane, "" of kernels; null of frames and of what is exposed. */
  lane: string | null;
  begin: ArrayLike<number>;
  end: ArrayLike<number>;
  seconds: ArrayLike<number>;
  reach: ArrayLike<number>;
  of: ArrayLike<number>;
  known: readonly Facts[];
  id: (i: number) => string;
  /** The slice that an id names, -1 for none. */
  find: (id: string) => number;
  facts: (i: number) => Facts;
};
export type Rows = { frames: Row[]; lanes: Row[]; memory: { begin: ArrayLike<number>; bytes: ArrayLike<number> } };

// Of so many slices each iteration is drawn; of more the first ones are, and the rest stays one.
const MOST = 300_000;
const COMPUTE = "compute";
const UNKNOWN = { bytes: 0, flops: 0, took: 0, waited: 0, loop: "" };

/** A row of what is sorted by its beginning. */
function row(made: Omit<Row, "reach">): Row {
  let latest = 0;
  const reach = Float64Array.from(made.end, (each) => {
    latest = Math.max(latest, each);
    return latest;
  });
  return { ...made, begin: Float64Array.from(made.begin), end: Float64Array.from(made.end), reach };
}

/** Of a segment what is known of a slice. */
function factsOf(segment: Segment): Facts {
  const { kind, name, source, collective, times } = segment;
  const dims = segment.dims.join(" ");
  return { kind, name, dims, source, code: "", collective, times, ...UNKNOWN };
}

/**
 * The rows that came with the layout: lanes of segments. A segment is named by its collective and how many that has had
 * before, so that it is known again when the step has changed and its collective has not; of kernels by their lane.
 */
export function coarseRows(timeline: Timeline): Rows {
  const lanes = timeline.lanes.map(({ key, segments }) => {
    const seen: Map<string, number> = new Map();
    const ids = segments.map(({ collective }) => {
      const of = collective ?? (key || COMPUTE);
      seen.set(of, (seen.get(of) ?? 0) + 1);
      return `${of}#${seen.get(of)}`;
    });
    const known = segments.map(factsOf);
    return row({
      key: key || COMPUTE,
      lane: key,
      begin: segments.map((each) => each.begin),
      end: segments.map((each) => each.end),
      seconds: segments.map((each) => each.seconds),
      of: segments.map((_, i) => i),
      known,
      id: (i) => ids[i],
      find: (id) => ids.indexOf(id),
      facts: (i) => known[i],
    });
  });
  const memory = { begin: timeline.memory.map(([at]) => at), bytes: timeline.memory.map(([, bytes]) => bytes) };
  return { frames: [], lanes, memory };
}

/**
 * What stands in a row while slices are laid out: `part` is the share of its executions that a slice stands for, and
 * `nth` which one it is of those.
 */
type Laid = Record<"begin" | "end" | "slice" | "what" | "part" | "nth", number[]> & { loop: string[] };
/** A loop, or all of the step: where its time is drawn, and which of its executions. */
type Place = { from: number; begin: number; scale: number; part: number; nth: number };

/** Lays the slices of a step out. */
class Layout {
  step: Step;
  opened: Set<string>;
  inside: number[][];
  /** The number of the loop that a slice is, by the slice. */
  loopOf = new Map<number, number>();
  rows: Laid[];
  memory = { begin: [] as number[], bytes: [] as number[] };
  points: number[][][];

  constructor(step: Step, opened: Set<string>) {
    const { slices, loops, depth, lanes } = step;
    this.step = step;
    this.opened = opened;
    for (const [loop, slice] of loops.entries()) this.loopOf.set(slice, loop);
    // The slices of each loop, and at the end those in none.
    this.inside = Array.from({ length: loops.length + 1 }, () => []);
    for (let i = 0; i < slices.row.length; i++) this.inside.at(slices.loop[i])?.push(i);
    this.points = this.pointsOf();
    const empty = () => ({ begin: [], end: [], slice: [], what: [], part: [], nth: [], loop: [] });
    this.rows = Array.from({ length: depth + lanes.length }, empty);
    this.lay(-1, { from: 0, begin: 0, scale: 1, part: 1, nth: 0 });
  }

  /** The points of memory of each loop, and at the end those of none. */
  pointsOf(): number[][][] {
    const { loops, slices, memory } = this.step;
    const points: number[][][] = Array.from({ length: loops.length + 1 }, () => []);
    for (const point of memory) {
      let innermost = -1; // that which began last
      for (const [loop, i] of loops.entries()) {
        const later = point[0] - slices.begin[i];
        if (later >= 0 && later < slices.seconds[i]) innermost = loop;
      }
      points.at(innermost)?.push(point);
    }
    return points;
  }

  /** How many slices are laid out for one iteration of a loop. */
  count(loop: number): number {
    const { slices, what } = this.step;
    const of = (i: number): number => {
      const number = this.loopOf.get(i);
      if (number === undefined) return 1;
      const told = this.opened.has(nameOf(number)) ? what.times[slices.what[i]] : 1;
      return 1 + told * (1 + this.count(number));
    };
    return (this.inside.at(loop) ?? []).reduce((sum, i) => sum + of(i), 0);
  }

  lay(loop: number, { from, begin, scale, part, nth }: Place) {
    const { slices, what } = this.step;
    const points = this.points.at(loop) ?? [];
    let next = 0;
    const remember = (until: number) => {
      for (; next < points.length && points[next][0] <= until; next++) {
        this.memory.begin.push(begin + (points[next][0] - from) * scale);
        this.memory.bytes.push(points[next][1]);
      }
    };
    for (const i of this.inside.at(loop) ?? []) {
      const at = begin + (slices.begin[i] - from) * scale;
      const place = { from: slices.begin[i], begin: at, scale, part, nth };
      const number = this.loopOf.get(i);
      remember(slices.begin[i]);
      this.add(slices.row[i], i, slices.what[i], { ...place, scale: slices.seconds[i] * scale }, number);
      if (number !== undefined) this.iterate(i, number, place, what.times[slices.what[i]]);
    }
    remember(Infinity);
  }

  /** Lays what is in a loop out: once for all iterations, or once for each. */
  iterate(slice: number, loop: number, place: Place, times: number) {
    const { slices } = this.step;
    const whole = slices.seconds[slice] * place.scale;
    const many = this.opened.has(nameOf(loop)) ? Math.floor(MOST / (1 + this.count(loop))) : 0;
    const told = Math.min(times, many);
    const lay = (first: number, count: number) => {
      const share = count / times;
      const begin = place.begin + (first / times) * whole;
      const at = { ...place, begin, nth: place.nth * times + first };
      if (times > 1)
        this.add(slices.row[slice] + 1, slice, -1 - first, { ...at, scale: whole * share, part: count }, loop);
      this.lay(loop, { ...at, scale: place.scale * share, part: place.part * share });
    };
    for (let first = 0; first < told; first++) lay(first, 1);
    if (times > told) lay(told, times - told);
  }

  /**
   * @param what that of a slice; of iterations the first one, counted down from -1, and `part` is how many they are
   * @param place its `scale` is how long it is
   */
  add(at: number, slice: number, what: number, { begin, scale, part, nth }: Place, loop?: number) {
    const laid = this.rows[at];
    laid.begin.push(begin);
    laid.end.push(begin + scale);
    laid.slice.push(slice);
    laid.what.push(what);
    laid.part.push(part);
    laid.nth.push(nth);
    laid.loop.push(loop === undefined ? "" : nameOf(loop));
  }
}

function nameOf(loop: number): string {
  return `loop ${loop}`;
}

const NOTHING: Facts = {
  kind: "",
  name: "",
  dims: "",
  source: "",
  code: "",
  collective: null,
  times: 1,
  ...UNKNOWN,
};

/** @returns what an iteration is, or those that are drawn as one */
function factsOfIterations(first: number, times: number, loop: string): Facts {
  const name = `iteration${times === 1 ? "" : "s"} ${first + 1}${times === 1 ? "" : ` to ${first + times}, drawn as one`}`;
  return { ...NOTHING, kind: "iteration", name, times, loop };
}

/**
 * All slices of a step, in rows.
 * @param opened the loops of which each iteration is drawn, by their names
 */
export function fineRows(step: Step, opened: Set<string>): Rows {
  const { rows, memory } = new Layout(step, opened);
  const { strings, what, depth, lanes } = step;
  const known: Facts[] = what.kind.map((kind, i) => ({
    kind: strings[kind],
    name: strings[what.name[i]],
    dims: strings[what.dims[i]],
    source: strings[what.source[i]],
    code: strings[what.code[i]],
    collective: strings[what.collective[i]] || null,
    times: what.times[i],
    bytes: what.bytes[i],
    flops: what.flops[i],
    took: what.took[i],
    waited: what.waited[i],
    loop: "",
  }));
  const made = rows.map(({ begin, end, what: of, part, loop, slice, nth }, number) => {
    const facts = (i: number): Facts => {
      if (of[i] < 0) return factsOfIterations(-1 - of[i], part[i], loop[i]);
      const { times } = known[of[i]];
      // Of a loop it is how many iterations it has, of what is in it how often that runs in all.
      return { ...known[of[i]], loop: loop[i], times: loop[i] ? times : Math.max(1, Math.round(times * part[i])) };
    };
    const seconds = begin.map((each, i) => end[i] - each);
    const lane = number < depth ? null : lanes[number - depth];
    const key = lane === null ? `frame ${number}` : lane || COMPUTE;
    const id = (i: number) => `${known[of[i]]?.collective ?? key}~${slice[i]}.${nth[i]}`;
    const find = (wanted: string) => {
      const [, number, which] = /~(\d+)\.(\d+)$/.exec(wanted) ?? [];
      for (let i = 0; number !== undefined && i < slice.length; i++)
        if (slice[i] === Number(number) && nth[i] === Number(which) && id(i) === wanted) return i;
      return -1;
    };
    return row({ key, lane, begin, end, seconds, of, known, id, find, facts });
  });
  return { frames: made.slice(0, depth), lanes: made.slice(depth), memory };
}

/** The stretches of a step in which no kernel runs. */
export function exposedRow(kernels: Row, whole: number): Row {
  const [begin, end]: number[][] = [[], []];
  let until = 0;
  const gap = (from: number, to: number) => {
    if (to - from <= 1e-9 * whole) return;
    begin.push(from);
    end.push(to);
  };
  for (let i = 0; i < kernels.begin.length; i++) {
    gap(until, kernels.begin[i]);
    until = kernels.reach[i];
  }
  gap(until, whole);
  const seconds = begin.map((each, i) => end[i] - each);
  const known = [{ ...NOTHING, kind: "exposed" }];
  const [of, id, facts] = [begin.map(() => 0), (i: number) => `exposed~${i}`, () => known[0]];
  return row({ key: "exposed", lane: null, begin, end, seconds, of, known, id, find: () => -1, facts });
}

/** @returns the first slice that ends behind a time; all before it are over */
export function firstReaching({ reach }: Pick<Row, "reach">, time: number): number {
  let [low, high] = [0, reach.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if (reach[middle] > time) high = middle;
    else low = middle + 1;
  }
  return low;
}

/** Calls for each slice of a row that is in sight, with the seconds of it that are. */
export function within(row: Row, { from, to }: Sight, each: (i: number, seconds: number) => void) {
  for (let i = firstReaching(row, from); i < row.begin.length && row.begin[i] < to; i++) {
    const seen = Math.min(row.end[i], to) - Math.max(row.begin[i], from);
    if (seen > 0) each(i, (row.seconds[i] * seen) / (row.end[i] - row.begin[i]));
  }
}
