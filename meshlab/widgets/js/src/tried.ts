/**
 * The layouts that were tried on a board without Python, by the rules of meshlab/widgets/state/tried.py: each once, of
 * many the latest, but for the one on the board and the baseline.
 */

/** @property state the number of its recorded state */
export type TriedLayout = { number: number; name: string; label?: string; note?: string; state: number };
export type Tried = { all: TriedLayout[]; count: number; baseline: number };

const MOST = 40;

export function triedOf({ all }: Tried, state: number): TriedLayout | undefined {
  return all.find((each) => each.state === state);
}

/**
 * What was tried after a layout; the same where nothing is new.
 * @param name for it; empty for its number
 * @param present the state on the board
 */
export function withLayout(tried: Tried, state: number, name: string, present: number): Tried {
  const known = triedOf(tried, state);
  if (known) {
    const both = bothNames(known, name);
    if (both === known.name) return tried;
    return { ...tried, all: tried.all.map((each) => (each === known ? { ...known, name: both } : each)) };
  }
  const more = [...tried.all, { number: tried.count, name: name || `#${tried.count}`, state }];
  const drop = more.find((each) => ![present, tried.baseline, state].includes(each.state));
  const all = more.length > MOST ? more.filter((each) => each !== drop) : more;
  return { ...tried, all, count: tried.count + 1 };
}

/** The names of a layout together; its number is none. */
function bothNames({ name, number }: TriedLayout, another: string): string {
  if (!another || name.split(", ").includes(another)) return name;
  return name === `#${number}` ? another : `${name}, ${another}`;
}

/**
 * What each layout is called, by its number; no two alike.
 * @param own what one is called by its plan, the shortest first
 */
export function titlesOf(tried: TriedLayout[], own: (each: TriedLayout) => string[]): Map<number, string> {
  const titles = new Map<number, string>();
  const taken = new Set<string>();
  const labelled = tried.filter(({ label }) => label);
  for (const each of [...labelled, ...tried.filter(({ label }) => !label)]) {
    const { number, name, label } = each;
    const sign = `#${number}`;
    const names = label ? [label] : name === sign ? [...own(each), sign] : [name];
    const title = names.find((one) => !taken.has(one)) ?? `${names[0]} ${sign}`;
    titles.set(number, title);
    taken.add(title);
  }
  return titles;
}
