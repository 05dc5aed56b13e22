/**
 * The terms of art of the page, a sentence each: the one glossary. `explained` makes the first of each term in a panel a
 * button with its sentence; panels write plain text. What each collective does Python says (`collectives/kinds.py`).
 */
import { type Child, h } from "./dom.ts";

export const TERMS: Record<string, string> = {
  collective: "An operation in which a group of devices exchange data, such as an all-reduce.",
  "peak memory":
    "The most bytes that a device holds at any moment of a step; updated arguments reuse their memory (donate=True).",
  exposed: "Communication during which no kernel runs: the step waits for it.",
  overlapped: "Communication during which kernels run: it takes no time of its own.",
  sharded: "Split over a mesh axis: each device along it has another slice.",
  replicated: "Not split over a mesh axis: each device along it has the same values.",
  partial: "Each device has a partial sum; the value is their total, which a collective still has to reduce.",
  payload: "The bytes of a collective's operand on one device.",
  "wire bytes": "What one device sends for a collective, as rings send it: for an all-reduce almost twice the payload.",
  dim: "A dimension of the program's tensors, by its name; a layout shards it wherever it occurs.",
  "mesh axis":
    "One of the directions of a mesh, by its name: what is sharded over it has a slice for each device along it.",
  activation: "A value of the forward pass that is kept for the backward pass.",
  temporaries: "Values that live within a step: activations, gradients, what a kernel needs for itself.",
  carried: "Passed from one iteration of a loop, or from one step, to the next: parameters and optimizer state.",
  donate: "A step's results reuse the memory of its arguments, so a device does not hold both.",
  gap: "How far the best layout found may be from the optimum.",
  "Pareto front": "For a layout on the front, no other layout is both faster and smaller.",
  pinned: "A dim that searches keep on its mesh axis, or unsharded.",
  regret: "By how much the step gets longer if one decision is changed and all others are optimised again.",
  FSDP: "Fully sharded data parallel: parameters, gradients and optimizer state are sharded, and gathered where needed.",
  ZeRO: "Data parallel that shards the optimizer's state (ZeRO-1), gradients as well (2), and parameters as well (3).",
  "compute-bound": "Limited by how fast the matrix units multiply.",
  "memory-bound": "Limited by how fast a device reads and writes its own memory.",
  "communication-bound": "Limited by what is sent between devices.",
  "launch-bound": "Limited by how fast a device can start kernels.",
  "arithmetic intensity": "The FLOPs of a kernel for each byte of memory that it reads or writes, in FLOP/B.",
  ridge: "The arithmetic intensity at which memory and the matrix units limit a kernel alike.",
  roofline:
    "The most FLOP/s that a kernel can reach, by its arithmetic intensity: first memory is the limit, then the matrix units.",
  MFU: "Model FLOPs utilisation: the model's FLOPs in a second, as a share of the devices' peak; recomputation does not count.",
  HFU: "Hardware FLOPs utilisation: as MFU, but recomputation counts.",
  "micro-batch": "A part of the batch, one of several that a device runs one after the other.",
};

// How a term is written, where that is not its name with an s or without.
const SPELT = {
  "peak memory": "peak(?: memory)?",
  ZeRO: "zero-[123]",
  "Pareto front": "pareto(?: front)?",
  donate: "donate[ds]?",
  "mesh axis": "mesh ax[ei]s",
  "arithmetic intensity": "arithmetic intensity|FLOP/B",
  "micro-batch": "micro-batch(?:es)?",
} as Record<string, string>;
/** How a term is written, as a pattern. */
type Written = { term: string; text: string };
let written = patterns();
let any = anyOf(written);

/** @returns the longest first */
function patterns(): Written[] {
  return Object.keys(TERMS)
    .map((term) => ({ term, text: SPELT[term] ?? `${term}s?` }))
    .sort((one, other) => other.text.length - one.text.length);
}

function anyOf(terms: Written[]) {
  return new RegExp(`(?<![\\w-])(?:${terms.map(({ text }) => `(${text})`).join("|")})(?![\\w-])`, "i");
}

/** Adds terms to the glossary. */
export function learn(terms: Record<string, string>) {
  Object.assign(TERMS, terms);
  written = patterns();
  any = anyOf(written);
}

// What is pressed, chosen or a name of the user's is no prose.
const NO_PROSE =
  "button, select, summary, a, code, svg, label, figcaption, .mlb-axis-label, [role=button], [role=img], [role=tree], [aria-hidden=true]";

/**
 * Where the first term of a text is.
 * @param known terms that are explained already
 */
export function firstTerm(
  text: string,
  known: Set<string> = new Set(),
): { term: string; start: number; end: number } | null {
  for (let from = 0; from < text.length; ) {
    const match = any.exec(text.slice(from));
    if (!match) return null;
    const { term } = written[match.slice(1).findIndex((group) => group !== undefined)];
    const start = from + match.index;
    if (!known.has(term)) return { term, start, end: start + match[0].length };
    from = start + match[0].length;
  }
  return null;
}

/** The terms that a panel explains, but for those in one of its parts. */
export function termsOf(panel: Element, part: Element): Set<string> {
  const buttons = [...panel.querySelectorAll("[data-term]")].filter((each) => !part.contains(each));
  return new Set(buttons.map((each) => each.getAttribute("data-term") ?? ""));
}

/**
 * What a panel is to show, with the first of each term as a button with its sentence.
 * @param children as `h` takes them
 * @param known terms that are explained already
 */
export function explained(children: (Child | Child[])[], known: Set<string> = new Set()): Node[] {
  const all = h("div", {}, ...children);
  const texts = [];
  const walker = document.createTreeWalker(all, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) texts.push(walker.currentNode as Text);
  for (const text of texts) {
    if (text.parentElement?.closest(NO_PROSE)) continue;
    for (let rest = text; rest; ) {
      const match = firstTerm(rest.data, known);
      if (!match) break;
      const { term } = match;
      known.add(term);
      const word = rest.splitText(match.start);
      rest = word.splitText(match.end - match.start);
      const look = { type: "button", class: "mlb-term", "data-term": term, "data-hint": TERMS[term] };
      word.replaceWith(h("button", { key: `term ${term}`, ...look }, word.data));
    }
  }
  return [...all.childNodes];
}
