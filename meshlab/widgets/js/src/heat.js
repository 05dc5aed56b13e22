// @ts-check
/**
 * The numbers that the devices hold after a run, as a heat map in the slices of the tensor that is shown. What each cell
 * is comes from Python (`views/devices/heat.py`); a slice keeps its colour and pattern as a frame, and its letter.
 */
import { h, prose, s } from "./dom.js";
import { exact } from "./format.js";
import { heatColour } from "./heat_scale.js";
import { nextNumber } from "./numbers.js";
import { ACTIVE } from "./silence.js";
import { drawLetter, drawSlice, indices } from "./slices.js";

/**
 * @typedef {import("./types.js").Shards} Shards
 * @typedef {import("./types.js").Job} Job
 * @typedef {import("./types.js").Heat} Heat
 * @typedef {import("./types.js").HeatCells} HeatCells
 * @typedef {import("./types.js").HeatBlock} HeatBlock
 * @typedef {import("./board.js").Board} Board
 * @typedef {{x: number, y: number, w: number, h: number}} Box
 * @typedef {(number: number, box: Box, look: import("./slices.js").Look) => SVGElement[]} DrawBlock
 * @typedef {{before: HTMLElement | null, block: DrawBlock | null, notes: HTMLElement[]}} Drawn `before` stands ahead of the
 *   tensor, `block` draws one of its blocks and its letter, in place of those of the slice, and `notes` stand below
 */

// Pixels: the widest frame of a slice around its cells, and the side of its letter.
const [FRAME, LETTER] = [4, 11];
// Bars of the legend.
const STEPS = 25;
const NOTHING = /** @type {Drawn} */ ({ before: null, block: null, notes: [] });

/**
 * @param {Job | undefined} job
 * @returns {number} the run whose numbers there may be: the latest, once it has ended after a step; 0 where there is none
 */
export function runOf(job) {
  const run = job?.current;
  return run && !ACTIVE.includes(run.phase) && run.taken > 0 ? run.number : 0;
}

/**
 * What is drawn of a run's numbers with a tensor: nothing where there are none, and only the button until it is pressed.
 * @param {Board} board
 * @param {Shards} shards
 * @returns {Drawn}
 */
export function heatOf(board, shards) {
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

/**
 * @param {string} why
 * @returns {HTMLElement}
 */
function drawError(why) {
  return h("div", { class: "mlb-error" }, `✕ ${why}`);
}

/**
 * @param {Board} board
 * @param {number} run
 * @param {string} when
 * @param {boolean} on
 * @returns {HTMLElement}
 */
function drawToggle({ stage }, run, when, on) {
  const turn = () => {
    stage.numbers = !on;
    stage.again("devices");
  };
  const look = { class: "mlb-button mlb-numbers", "aria-pressed": String(on), "data-key": "numbers", title: when };
  return h("button", { type: "button", ...look, onclick: turn }, `▦ numbers of run ${run}`);
}

/**
 * @param {Shards} shards
 * @param {Heat} heat
 * @returns {Pick<Drawn, "block" | "notes">}
 */
function drawHeat(shards, heat) {
  const { cells } = heat;
  const hatch = `mlb-odd-${nextNumber("heats")}`;
  /** @type {Map<number, Map<number, [number, number]>>} by block and cell, how many NaN and how many infinite ones */
  const odd = new Map();
  for (const [block, cell, nan, infinite] of cells.odd) {
    if (!odd.has(block)) odd.set(block, new Map());
    odd.get(block)?.set(cell, [nan, infinite]);
  }
  return {
    block: (number, box, look) => [
      ...(number === 0 && odd.size ? [drawHatch(hatch)] : []),
      // The slice itself, of which the cells leave a frame.
      ...drawSlice(shards, shards.blocks.slices[number], box, look, 1),
      drawCells(shards, cells, number, insetOf(box), odd.get(number) ?? new Map(), hatch),
      ...drawCorner(shards, number, box, look),
    ],
    notes: drawNotes(heat, hatch),
  };
}

/**
 * @param {Box} box
 * @returns {Box} where the cells are, within the frame of the slice
 */
function insetOf({ x, y, w, h: tall }) {
  const by = Math.min(FRAME, 0.14 * w, 0.14 * tall);
  return { x: x + by, y: y + by, w: w - 2 * by, h: tall - 2 * by };
}

/**
 * @param {Shards} shards
 * @param {number} number
 * @param {Box} box
 * @param {import("./slices.js").Look} look
 * @returns {SVGElement[]} the letter of a slice in its corner
 */
function drawCorner(shards, number, { x, y, w, h: tall }, look) {
  if (shards.blocks.each > 1 || w < 2 * LETTER || tall < 1.3 * LETTER) return [];
  const letter = drawLetter(shards, shards.blocks.slices[number], { x: x + 2, y: y + 2, w: LETTER, h: LETTER }, look);
  return letter ? [letter] : [];
}

/**
 * @param {Shards} shards
 * @param {HeatCells} cells
 * @param {number} number
 * @param {Box} box
 * @param {Map<number, [number, number]>} odd
 * @param {string} hatch
 * @returns {SVGElement}
 */
function drawCells(shards, cells, number, box, odd, hatch) {
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
 * @param {number[]} edges indices
 * @param {number} start
 * @param {number} long
 * @returns {number[]} where they are, in pixels
 */
export function places(edges, start, long) {
  const [first, last] = [edges[0], edges[edges.length - 1]];
  return edges.map((edge) => start + (long * (edge - first)) / Math.max(1, last - first));
}

/**
 * @param {Shards} shards
 * @param {HeatCells} cells
 * @param {number} number the block's
 * @param {number} cell
 * @param {[number, number]} [odd] how many NaN and how many infinite ones there are
 * @returns {string} what a cell is of the tensor, and what it shows
 */
export function cellText({ blocks, dims, place }, cells, number, cell, odd) {
  const block = cells.blocks[number];
  const wide = block.across.length - 1;
  const [row, column] = [Math.floor(cell / wide), cell % wide];
  const rangeOf = (/** @type {number} */ axis, /** @type {[number, number]} */ range) =>
    axis < 0 ? "" : `${dims[axis]} ${indices(range)}`;
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

/**
 * @param {number} nan
 * @param {number} infinite
 * @returns {string}
 */
function oddText(nan, infinite) {
  return [nan > 0 && `${exact(nan)} NaN`, infinite > 0 && `${exact(infinite)} infinite`].filter(Boolean).join(", ");
}

/**
 * @param {number | null} value
 * @returns {string} to three digits, with a real minus
 */
export function short(value) {
  if (value === null) return "none";
  const size = Math.abs(value);
  const text =
    size !== 0 && (size < 1e-3 || size >= 1e6)
      ? size.toExponential(2)
      : String(Number(size.toPrecision(size >= 1e3 ? 6 : 3)));
  return `${value < 0 ? "−" : ""}${text}`;
}

/**
 * @param {string} id
 * @returns {SVGElement} the hatch of what is no finite number
 */
function drawHatch(id) {
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

/**
 * What the colours mean, whose the numbers are and where they were read.
 * @param {Heat} heat
 * @param {string} hatch
 * @returns {HTMLElement[]}
 */
function drawNotes(heat, hatch) {
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
  if (heat.sampled) notes.push(h("div", {}, heat.sampled));
  notes.push(h("div", { class: heat.read.startsWith("✕") ? "mlb-error" : "mlb-read" }, heat.read));
  return notes;
}

/**
 * @param {HeatCells} cells
 * @returns {string} what a cell shows
 */
export function statisticText({ statistic, complex, each: [least, most] }) {
  if (statistic === "value") return "Each cell is one number";
  if (statistic === "magnitude") return "Each cell is the magnitude of one complex number";
  const count = least === most ? exact(most) : `${exact(least)} to ${exact(most)}`;
  const why = statistic === "mean" || complex ? "" : ", since numbers of both signs would cancel";
  return `Each cell is the ${statistic} of ${count} ${complex ? "complex " : ""}numbers${why}`;
}

/**
 * The scale of the colours, with numbers at its ends, and the least and the greatest of all numbers.
 * @param {HeatCells} cells
 * @param {boolean} sampled whether some numbers were not read
 * @returns {HTMLElement}
 */
function drawScale({ complex, diverging, high, least, most }, sampled) {
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
