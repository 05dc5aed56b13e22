/**
 * Numbers for ids and names that must differ on a page. Each Explorer loads this code anew, so a count of a module's own
 * would begin again: it is the page that counts.
 */

const COUNTS = Symbol.for("meshlab.numbers");

/** @returns 1, 2, …, each of them once on a page */
export function nextNumber(what: string): number {
  const page = globalThis as { [COUNTS]?: Record<string, number> };
  page[COUNTS] ??= {};
  const counts = page[COUNTS];
  counts[what] = (counts[what] ?? 0) + 1;
  return counts[what];
}
