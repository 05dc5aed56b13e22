/**
 * The numbers that the devices hold after a run, as a heat map in the slices of the tensor that is shown. What each cell
 * is comes from Python (`views/devices/heat.py`); a slice keeps its colour and pattern as a frame, and its letter.
 */

import type { Board } from "./board.ts";
import { h, prose, s } from "./dom.ts";
import { exact } from "./format.ts";
import { heatColour } from "./heat_scale.ts";
import { nextNumber } from "./numbers.ts";
import { ACTIVE } from "./silence.ts";
import { type Box, drawLetter, drawSlice, indices, type Look } from "./slices.ts";
import type { Heat, HeatCells, Job, Shards } from "./types.ts";

type Numbers = Pick<Heat, "cells" | "when" | "read" | "sampled" | "unframed">;
type DrawBlock = (number: number, box: Box, look: Look) => SVGElement[];
/** `before` stands ahead of the tensor, `block` draws one of its blocks and its letter, in place of those of the slice, and `notes` stand below; `unframed` says that the slices are not those that the run had. */
export type Drawn = { before: HTMLElement | null; block: DrawBlock | null; notes: HTMLElement[]; unframed?: boolean };

// Pixels: the widest frame of a slice around its cells, and the side of its letter.
const [FRAME, LETTER] = [4, 11];
// Bars of the legend.
const STEPS = 25;
const NOTHING = { before: null, block: null, notes: [] } as Drawn;

/** @returns the run whose numbers there may be: the latest, once it has ended after a step; 0 where there is none */
export function runOf(job: Job | undefined): number {
  const run = job?.current;
  return run && !ACTIVE.includes(run.phase) && run.taken > 0 ? run.number : 0;
}

/**
 * What is drawn of a run's numbers with a tensor: nothing where there are none, and only the button until it is
 * pressed.
 */
export function heatOf(board: Board, shards: Shards): Drawn {
  const { reads, stage } = board;
  const run = runOf(board.model.get("job"));
  if (!run) return NOTHING;
  const { place } = shards;
  const { data: known, error: unknown } = reads.of("numbers", { place, run });
  if (unknown) return { ...NOTHING, notes: [drawError(unknown)] };
  if (!known) return NOTHING;
  if (!known.there) return { ...NOTHING, notes: known.why ? [h("div", {}, prose(known.why))] : [] };
  const before = drawToggle(board, known.run, known.when, stage.numbers);
  if (!stage.numbers) return { ...NOTHING, before };
  const { data, error } = reads.of("heat", { place, run, ...("isOther" in board ? { beside: true } : {}) });
  if (error) return { ...NOTHING, before, notes: [drawError(error)] };
  // The answer for the layout before does not fit the slices of this one: plain slices stand until the next has come.
  if (!data?.cells || String(data.parts) !== String(shards.parts)) return { ...NOTHING, before };
  return { before, ...drawHeat(shards, data) };
}

function drawError(why: string): HTMLElement {
  return h("div", { class: "mlb-error" }, `✕ ${why}`);
}

function drawToggle({ stage }: Board, run: number, when: string, on: boolean): HTMLElement {
  const turn = () => {
    stage.numbers = !on;
    stage.again("devices");
  };
  const look = { class: "mlb-button mlb-numbers", "aria-pressed": String(on), title: when };
  return h("button", { type: "button", ...look, onclick: turn }, `▦ numbers of run ${run}`);
}

/** @param heat of a run, or of a value that is looked at */
export function drawHeat(shards: Shards, heat: Numbers): Pick<Drawn, "block" | "notes" | "unframed"> {
  const { cells } = heat;
  const hatch = `mlb-odd-${nextNumber("heats")}`;
  /** By block and cell, how many NaN and how many infinite ones. */
  const odd: Map<number, Map<number, [number, number]>> = new Map();
  for (const [block, cell, nan, infinite] of cells.odd) {
    if (!odd.has(block)) odd.set(block, new Map());
    odd.get(block)?.set(cell, [nan, infinite]);
  }
  const unframed = heat.unframed !== "";
  return {
    block: (number, box, look) => [
      ...(number === 0 && odd.size ? [drawHatch(hatch)] : []),
      // The slice itself, of which the cells leave a frame.
      ...(unframed ? [] : drawSlice(shards, shards.blocks.slices[number], box, look, 1)),
      drawCells(shards, cells, number, unframed ? box : insetOf(box), odd.get(number) ?? new Map(), hatch),
      ...(unframed ? [] : drawCorner(shards, number, box, look)),
    ],
    notes: drawNotes(heat, hatch),
    unframed,
  };
}

/** @returns where the cells are, within the frame of the slice */
function insetOf({ x, y, w, h: tall }: Box): Box {
  const by = Math.min(FRAME, 0.14 * w, 0.14 * tall);
  return { x: x + by, y: y + by, w: w - 2 * by, h: tall - 2 * by };
}

/** @returns the letter of a slice in its corner */
function drawCorner(shards: Shards, number: number, { x, y, w, h: tall }: Box, look: Look): SVGElement[] {
  if (shards.blocks.each > 1 || w < 2 * LETTER || tall < 1.3 * LETTER) return [];
  const letter = drawLetter(shards, shards.blocks.slices[number], { x: x + 2, y: y + 2, w: LETTER, h: LETTER }, look);
  return letter ? [letter] : [];
}

function drawCells(
  shards: Shards,
  cells: HeatCells,
  number: number,
  box: Box,
  odd: Map<number, [number, number]>,
  hatch: string,
): SVGElement {
  const block = cells.blocks[number];
  const wide = block.across.length - 1;
  const [xs, ys] = [places(block.across, box.x, box.w), places(block.down, box.y, box.h)];
  const drawn = block.values.map((value, i) => {
    const [row, column] = [Math.floor(i / wide), i % wide];
    const at = { x: xs[column], y: ys[row], width: xs[column + 1] - xs[column], height: ys[row + 1] - ys[row] };
    const size = { x: at.x.toFixed(2), y: at.y.toFixed(2), width: at.width.toFixed(2), height: at.height.toFixed(2) };
    const title = s("title", {}, cellText(shards, cells, number, i, odd.get(i)));
    const fill = value === null ? "#ffffff" : heatColour(value, cells.high, cells.diverging);
    const cell = s("rect", { ...size, fill, "data-cell": i, "shape-rendering": "crispEdges" }, title);
    if (!odd.has(i)) return [cell];
    return [cell, s("rect", { ...size, fill: `url(#${hatch})`, class: "mlb-odd", "data-odd": i })];
  });
  return s("g", { class: "mlb-heat", "data-heat": number }, drawn.flat());
}

/**
 * @param edges indices
 * @returns where they are, in pixels
 */
export function places(edges: number[], start: number, long: number): number[] {
  const [first, last] = [edges[0], edges[edges.length - 1]];
  return edges.map((edge) => start + (long * (edge - first)) / Math.max(1, last - first));
}

/**
 * @param number the block's
 * @param odd how many NaN and how many infinite ones there are
 * @returns what a cell is of the tensor, and what it shows
 */
export function cellText(
  { blocks, dims, place }: Shards,
  cells: HeatCells,
  number: number,
  cell: number,
  odd?: [number, number],
): string {
  const block = cells.blocks[number];
  const wide = block.across.length - 1;
  const [row, column] = [Math.floor(cell / wide), cell % wide];
  const rangeOf = (axis: number, range: [number, number]) => (axis < 0 ? "" : `${dims[axis]} ${indices(range)}`);
  const ranges = [
    ...blocks.facets.map((axis, i) => rangeOf(axis, block.facets[i])),
    rangeOf(blocks.down, [block.down[row], block.down[row + 1]]),
    rangeOf(blocks.across, [block.across[column], block.across[column + 1]]),
  ].filter(Boolean);
  const value = block.values[cell];
  const bounds = block.least && block.most ? `, from ${short(block.least[cell])} to ${short(block.most[cell])}` : "";
  const shown =
    value === null ? "" : `${cells.statistic === "value" ? "" : `${cells.statistic} `}${short(value)}${bounds}`;
  return `${place}${ranges.length ? ` at ${ranges.join(", ")}` : ""}: ${[shown, odd && oddText(...odd)].filter(Boolean).join("; ")}`;
}

function oddText(nan: number, infinite: number): string {
  return [nan > 0 && `${exact(nan)} NaN`, infinite > 0 && `${exact(infinite)} infinite`].filter(Boolean).join(", ");
}

/** @returns to three digits, with a real minus */
export function short(value: number | null): string {
  if (value === null) return "none";
  const size = Math.abs(value);
  const text =
    size !== 0 && (size < 1e-3 || size >= 1e6)
      ? size.toExponential(2)
      : String(Number(size.toPrecision(size >= 1e3 ? 6 : 3)));
  return `${value < 0 ? "−" : ""}${text}`;
}

/** @returns the hatch of what is no finite number */
function drawHatch(id: string): SVGElement {
  return s(
    "defs",
    {},
    s(
      "pattern",
      { id, width: 4, height: 4, patternUnits: "userSpaceOnUse" },
      s("path", { d: "M-1 1L1-1M0 4L4 0M3 5L5 3", class: "mlb-odd-lines" }),
    ),
  );
}

/** What the colours mean, whose the numbers are and where they were read. */
function drawNotes(heat: Numbers, hatch: string): HTMLElement[] {
  const { cells } = heat;
  const notes = [
    drawScale(cells, heat.sampled !== ""),
    h("div", {}, `${statisticText(cells)}. ${heat.when[0].toUpperCase()}${heat.when.slice(1)}.`),
  ];
  if (cells.nan + cells.infinite > 0) {
    const swatch = s(
      "svg",
      { class: "mlb-odd-swatch", viewBox: "0 0 14 14", width: 14, height: 14, "aria-hidden": "true" },
      s("rect", { x: 0.5, y: 0.5, width: 13, height: 13, fill: "#ffffff" }),
      s("rect", { x: 0.5, y: 0.5, width: 13, height: 13, fill: `url(#${hatch})`, class: "mlb-odd" }),
    );
    const left = cells.statistic.startsWith("mean") ? ", in no mean" : "";
    notes.push(h("div", { class: "mlb-odd-note" }, swatch, ` ${oddText(cells.nan, cells.infinite)}${left}`));
  }
  if (heat.unframed) notes.push(h("div", { class: "mlb-unframed" }, prose(heat.unframed)));
  if (heat.sampled) notes.push(h("div", {}, heat.sampled));
  notes.push(h("div", { class: heat.read.startsWith("✕") ? "mlb-error" : "mlb-read" }, heat.read));
  return notes;
}

/** @returns what a cell shows */
export function statisticText({ statistic, complex, each: [least, most] }: HeatCells): string {
  if (statistic === "value") return "Each cell is one number";
  if (statistic === "magnitude") return "Each cell is the magnitude of one complex number";
  const count = least === most ? exact(most) : `${exact(least)} to ${exact(most)}`;
  const why = statistic === "mean" || complex ? "" : ", since numbers of both signs would cancel";
  return `Each cell is the ${statistic} of ${count} ${complex ? "complex " : ""}numbers${why}`;
}

/**
 * The scale of the colours, with numbers at its ends, and the least and the greatest of all numbers.
 * @param sampled whether some numbers were not read
 */
function drawScale({ complex, diverging, high, least, most }: HeatCells, sampled: boolean): HTMLElement {
  const low = diverging ? -(high ?? 0) : 0;
  const bars = Array.from({ length: STEPS }, (_, i) => {
    const value = low + (((high ?? 0) - low) * i) / (STEPS - 1);
    const at = { x: i * 4, y: 0, width: 4, height: 10, "shape-rendering": "crispEdges" };
    return s("rect", { ...at, fill: heatColour(value, high, diverging) });
  });
  const look = { class: "mlb-heat-bar", viewBox: `0 0 ${4 * STEPS} 10`, style: `--wide: ${4 * STEPS}px` };
  const what = complex ? "magnitudes" : "numbers";
  const all =
    least === null
      ? "no finite number"
      : `${sampled ? `${what} that were read` : `all ${what}`}: ${short(least)} to ${short(most)}`;
  return h(
    "div",
    { class: "mlb-heat-legend", role: "group", "aria-label": "legend of the numbers" },
    h(
      "div",
      { class: "mlb-heat-scale" },
      h("span", {}, short(low)),
      s("svg", { ...look, "aria-hidden": "true" }, bars),
      h("span", {}, short(high)),
    ),
    h("div", {}, all),
  );
}
