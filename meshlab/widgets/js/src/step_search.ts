/** A search through the slices of a step: names, lines, dims, collectives and mesh axes, all words of it in one of them. */
import type { Facts, Row } from "./step_rows.ts";

export type Hit = { row: Row; i: number };
/** `hits` are in the order of time; `of` has for each row what is known of those in it (`Row.of`). */
export type Found = { hits: Hit[]; of: Map<Row, Set<number>> };

/** @returns all that is searched of a slice */
function textOf({ kind, name, dims, source, code }: Facts, { lane }: Row): string {
  return `${kind} ${name} ${dims} ${lane ?? ""} ${source} ${code}`.toLowerCase();
}

/** The slices in which all words stand. */
export function search(rows: Row[], query: string): Found {
  const words = query.toLowerCase().split(/\s+/).filter(Boolean);
  const found: Found = { hits: [], of: new Map() };
  if (!words.length) return found;
  for (const row of rows) {
    // What is known of a slice is known of many.
    const known: Map<number, boolean> = new Map();
    for (let i = 0; i < row.begin.length; i++) {
      const of = row.of[i];
      let is = known.get(of);
      if (is === undefined) {
        const text = textOf(row.facts(i), row);
        is = words.every((word) => text.includes(word));
        known.set(of, is);
      }
      if (is) found.hits.push({ row, i });
    }
    found.of.set(row, new Set([...known].flatMap(([of, is]) => (is ? [of] : []))));
  }
  found.hits.sort((one, other) => one.row.begin[one.i] - other.row.begin[other.i]);
  return found;
}

/**
 * The hit behind the one that was gone to last, or ahead of it; from the end it begins anew.
 * @param last the hit that was gone to last, by its number; -1 for none
 * @param from the time from which on hits are in sight
 */
export function next(hits: Hit[], last: number, step: 1 | -1, from: number): number {
  if (!hits.length) return -1;
  if (last >= 0) return (last + step + hits.length) % hits.length;
  const first = hits.findIndex(({ row, i }) => row.end[i] > from);
  return Math.max(0, first);
}
