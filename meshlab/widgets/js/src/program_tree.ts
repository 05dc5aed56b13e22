/**
 * The program as a tree, without a page: which rows are seen where folds are open, what a search finds, what a filter
 * leaves. Nodes come as columns, each behind its parent (`views/program/steps.py`), so that whatever is inside a node
 * stands between it and its `end`.
 */

import type { ProgramData, Sent } from "./types.ts";

export type Node = {
  kind: string;
  label: string;
  name: string;
  source: string;
  value: string;
  uses: string;
  makes: number;
  reads: number[];
  collective: Sent | null;
  times: number;
};
export type Filter = "all" | "collectives" | "matmuls";

/** What is multiplied in the matrix units, and the name that people know it by. */
const MATMULS = {
  dot_general: "matmul",
  ragged_dot: "matmul",
  ragged_dot_general: "matmul",
  conv_general_dilated: "convolution",
} as Record<string, string>;
// So many rows are opened at first, if what leads to a collective needs no more; then it is opened up to the most.
const FEW = 20;
const MANY = 400;

export class Tree {
  data: ProgramData;
  size: number;
  depth: Int32Array;
  /** One behind the last node inside. */
  end: Int32Array;
  /** How many collectives are inside, what one device sends for them in a step, and over which mesh axes. */
  counts: Int32Array;
  bytes: Float64Array;
  axes = new Map<number, Set<string>>();
  /** The node of each collective. */
  nodeOf = new Map<string, number>();
  /** What each node is found by. */
  texts: string[] | null = null;

  constructor(data: ProgramData) {
    this.data = data;
    const { parent, collective } = data.nodes;
    this.size = parent.length;
    this.depth = new Int32Array(this.size);
    this.end = new Int32Array(this.size).fill(0);
    this.counts = new Int32Array(this.size);
    this.bytes = new Float64Array(this.size);
    for (let i = 0; i < this.size; i += 1) this.depth[i] = parent[i] < 0 ? 0 : this.depth[parent[i]] + 1;
    for (let i = this.size - 1; i >= 0; i -= 1) {
      this.end[i] = Math.max(this.end[i], i + 1);
      if (parent[i] >= 0) this.end[parent[i]] = Math.max(this.end[parent[i]], this.end[i]);
    }
    for (let i = 0; i < this.size; i += 1) if (collective[i] >= 0) this.count(i, data.collectives[collective[i]]);
  }

  count(node: number, sent: Sent) {
    this.nodeOf.set(sent.id, node);
    for (const at of [node, ...this.above(node)]) {
      this.counts[at] += 1;
      this.bytes[at] += sent.wire * sent.times;
      const axes = this.axes.get(at) ?? new Set();
      this.axes.set(at, axes.add(sent.key));
    }
  }

  node(i: number): Node {
    const { nodes, strings, kinds, collectives } = this.data;
    return {
      kind: kinds[nodes.kind[i]],
      label: strings[nodes.label[i]],
      name: strings[nodes.name[i]],
      source: strings[nodes.source[i]],
      value: strings[nodes.value[i]],
      uses: strings[nodes.uses[i]],
      makes: nodes.makes[i],
      reads: nodes.reads[i],
      collective: nodes.collective[i] < 0 ? null : collectives[nodes.collective[i]],
      times: nodes.times[i],
    };
  }

  /** @returns whether there is anything inside */
  folds(i: number): boolean {
    return this.end[i] > i + 1;
  }

  /** The nodes around a node, the nearest first. */
  above(i: number): number[] {
    const { parent } = this.data.nodes;
    const found = [];
    for (let at = parent[i]; at >= 0; at = parent[at]) found.push(at);
    return found;
  }

  /** A type as text: `[batch/data 4, hidden 16] partial over model`. */
  typeText(type: number): string {
    if (type < 0) return "";
    const { strings, types } = this.data;
    const [, dims, partial] = types[type];
    const parts = dims.map(([dim, , local, axes]) => `${strings[dim]}${axes ? `/${strings[axes]}` : ""} ${local}`);
    return `[${parts.join(", ")}]${partial ? ` partial over ${strings[partial]}` : ""}`;
  }

  /** What each node is found by, in small letters. A line is found by what it says, and what it does by its steps. */
  get haystack(): string[] {
    if (this.texts) return this.texts;
    const types = this.data.types.map((_, i) => this.typeText(i));
    this.texts = Array.from({ length: this.size }, (_, i) => {
      const { kind, label, name, source, value, uses, makes, reads, collective, times } = this.node(i);
      const often = times > 1 ? `× ${times}` : "";
      if (collective) {
        const { because, key, dims, code } = collective;
        return [name, key, value, dims.join(" "), because.replaceAll("`", ""), source, code].join(" ").toLowerCase();
      }
      if (kind === "line") return `${label} ${source} ${value}`.toLowerCase();
      const alone = label ? source : "";
      const values = [makes, ...reads].map((type) => types[type] ?? "");
      return [label, name, MATMULS[name] ?? "", alone, value, uses, often, ...values].join(" ").toLowerCase();
    });
    return this.texts;
  }

  /**
   * The nodes that have each of the words.
   * @param kept of which a filter leaves these
   */
  search(text: string, kept: Uint8Array | null = null): number[] {
    const words = text.toLowerCase().split(/\s+/).filter(Boolean);
    if (!words.length) return [];
    const found = [];
    const { haystack } = this;
    for (let i = 0; i < this.size; i += 1) {
      if (kept && !kept[i]) continue;
      if (words.every((word) => haystack[i].includes(word))) found.push(i);
    }
    return found;
  }

  /**
   * What a filter leaves: steps of a kind, and all that is around them.
   * @returns 1 for each node that is left; null for all
   */
  filtered(filter: Filter): Uint8Array | null {
    if (filter === "all") return null;
    const kept = new Uint8Array(this.size);
    for (let i = 0; i < this.size; i += 1) {
      const { kind, name, collective } = this.node(i);
      const wanted = filter === "collectives" ? collective !== null : kind === "step" && name in MATMULS;
      if (wanted) for (const at of [i, ...this.above(i)]) kept[at] = 1;
    }
    return kept;
  }

  /**
   * The rows that are seen. What is sent for a line is seen while its steps are folded, too: it stands beside the line.
   */
  visible(open: Uint8Array, kept: Uint8Array | null = null): number[] {
    const { collective } = this.data.nodes;
    const rows = [];
    for (let i = 0; i < this.size; ) {
      const here = !kept || kept[i];
      if (here) rows.push(i);
      if (here && !open[i] && this.isLine(i))
        for (let at = i + 1; at < this.end[i]; at += 1) if (collective[at] >= 0 && (!kept || kept[at])) rows.push(at);
      i = here && open[i] ? i + 1 : this.end[i];
    }
    return rows;
  }

  isLine(i: number): boolean {
    return this.data.kinds[this.data.nodes.kind[i]] === "line";
  }

  /**
   * The node that a row stands under: not the line, for what is seen beside a line whose steps are folded.
   * @returns -1 for the outermost
   */
  under(i: number, open: Uint8Array): number {
    const { parent } = this.data.nodes;
    const folded = this.above(i).find((at) => !open[at] && this.isLine(at));
    return parent[folded ?? i];
  }

  /**
   * How deep a row stands.
   * @returns 0 for the outermost
   */
  level(i: number, open: Uint8Array): number {
    const under = this.under(i, open);
    return under < 0 ? 0 : this.depth[under] + 1;
  }

  /**
   * What is open at first: what leads to a collective, and of the rest what is outermost while it fits. The steps of
   * lines are folded.
   */
  openAtFirst(): Uint8Array {
    const { parent } = this.data.nodes;
    const open = new Uint8Array(this.size);
    const inside = new Map([[-1, 0]]);
    for (let i = 0; i < this.size; i += 1) inside.set(parent[i], (inside.get(parent[i]) ?? 0) + 1);
    const outermost = inside.get(-1) ?? 0;
    let rows = outermost;
    const groups = [...inside.keys()].filter((i) => i >= 0 && !this.isLine(i));
    const byDepth = groups.sort((one, other) => this.depth[one] - this.depth[other] || one - other);
    for (const [most, wanted] of [
      [MANY, (i) => this.counts[i] > 0],
      [FEW, () => true],
    ] as [number, (i: number) => boolean][]) {
      for (const i of byDepth) {
        const reached = parent[i] < 0 || open[parent[i]];
        const more = inside.get(i) ?? 0;
        if (!reached || open[i] || !wanted(i) || rows + more > outermost + most) continue;
        open[i] = 1;
        rows += more;
      }
    }
    return open;
  }

  /** Names of the nodes that fold, which are the same in the program of another layout. */
  names(): Map<string, number> {
    const { parent } = this.data.nodes;
    const names = new Map();
    const seen = new Map();
    const of = [] as string[];
    for (let i = 0; i < this.size; i += 1) {
      if (!this.folds(i)) continue;
      const { kind, label, source } = this.node(i);
      const text = `${of[parent[i]] ?? ""}/${kind} ${label} ${source}`;
      const often = seen.get(text) ?? 0;
      seen.set(text, often + 1);
      of[i] = `${text} ${often}`;
      names.set(of[i], i);
    }
    return names;
  }

  /**
   * What was open or closed by hand, in this tree of another one.
   * @param chosen by name
   */
  opened(chosen: Map<string, boolean>): Uint8Array {
    const open = this.openAtFirst();
    if (!chosen.size) return open;
    for (const [name, i] of this.names()) {
      const wanted = chosen.get(name);
      if (wanted !== undefined) open[i] = Number(wanted);
    }
    return open;
  }
}

/**
 * The next of some rows in order, round the end.
 * @param hits in order
 * @returns -1 where there are none
 */
export function nextHit(hits: number[], from: number, step: 1 | -1): number {
  if (!hits.length) return -1;
  if (step > 0) return hits.find((hit) => hit > from) ?? hits[0];
  return hits.filter((hit) => hit < from).at(-1) ?? hits[hits.length - 1];
}

/**
 * The first of some offsets, in order, that is beyond a point.
 * @returns its position; the last one where none is
 */
export function firstBeyond(offsets: ArrayLike<number>, point: number): number {
  let low = 0;
  let high = offsets.length - 1;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (offsets[middle] > point) high = middle;
    else low = middle + 1;
  }
  return low;
}
