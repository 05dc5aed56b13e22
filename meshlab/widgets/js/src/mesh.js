// @ts-check
/**
 * The mesh as a grid of devices, and which slice of the selected tensor each holds. Devices with the same letter hold
 * the same slice. The last axis runs to the right, the one before it downwards, the others give one grid each.
 */
import { h, s } from "./dom.js";
import { bytes, exact, letter, plural } from "./format.js";
import { axisLabel, swatch } from "./marks.js";

// A dash at which a line does not break.
const DASH = "\u2060–\u2060";

/**
 * @typedef {import("./types.js").View} View
 * @typedef {import("./types.js").Shards} Shards
 * @typedef {import("./types.js").Tile} Tile
 * @typedef {import("./board.js").Board} Board
 */

/**
 * The tensor to choose.
 * @param {Board} board
 * @returns {HTMLElement[]}
 */
export function drawTensors(board) {
  const { shards, places } = board.view;
  if (!shards) return [];
  const options = places.rows.map((row) => {
    const dims = row.dims.map((dim, i) => `${dim} ${exact(row.shape[i])}`).join(" · ");
    return h(
      "option",
      { value: row.place, selected: row.place === shards.place },
      `${row.place}   ${dims || "scalar"}`,
    );
  });
  const picker = h("select", { class: "mlb-select", "data-key": "tensor", "aria-label": "tensor" }, options);
  picker.addEventListener("change", () => board.send("select", { place: picker.value }));
  return [picker];
}

/**
 * @param {View} view
 * @returns {(HTMLElement | null)[]}
 */
export function drawMesh(view) {
  const { shards } = view;
  if (!shards) return [h("p", { class: "mlb-none" }, "This program has no tensor with a place.")];
  return [drawSummary(view, shards), drawGrids(view, shards), drawMore(view, shards)];
}

/**
 * @param {View} view
 * @param {Shards} shards
 * @returns {HTMLElement}
 */
function drawSummary(view, shards) {
  const row = view.places.rows.find((each) => each.place === shards.place);
  const slices = shards.slices === 1 ? "replicated on every device" : plural(shards.slices, "slice");
  const copies = shards.slices > 1 && shards.copies > 1 ? `, ${exact(shards.copies)} replicas of each` : "";
  const size = row ? ` · ${bytes(row.local_bytes)} of ${bytes(row.bytes)} on each` : "";
  const partial = shards.partial.length ? ` · partial sums over ${shards.partial.join(", ")}` : "";
  return h("p", { class: "mlb-summary" }, h("b", {}, slices), `${copies}${size}${partial}`);
}

/**
 * @param {View} view
 * @param {Shards} shards
 * @returns {HTMLElement}
 */
function drawGrids(view, shards) {
  const { axes } = view.mesh;
  const columns = axes.at(-1)?.size ?? 1;
  const rows = axes.length > 1 ? axes[axes.length - 2].size : 1;
  const grids = [];
  for (let start = 0; start < shards.tiles.length; start += columns * rows) {
    const tiles = shards.tiles.slice(start, start + columns * rows);
    grids.push(drawGrid(view, shards, tiles, columns));
  }
  return h("div", { class: "mlb-grids", role: "group", "aria-label": "devices" }, grids);
}

/**
 * @param {View} view
 * @param {Shards} shards
 * @param {Tile[]} tiles
 * @param {number} columns
 * @returns {HTMLElement}
 */
function drawGrid(view, shards, tiles, columns) {
  const { axes } = view.mesh;
  const across = axes.at(-1);
  const down = axes.length > 1 ? axes[axes.length - 2] : null;
  const outer = axes
    .slice(0, -2)
    .map((axis, i) => h("span", {}, axisLabel(view, axis.name), ` ${tiles[0].coords[i]} `));
  const small = columns > 4 || shards.tiles.length > 16;
  const low = tiles.length / columns > 2 || tiles.length < shards.tiles.length;
  const size = small ? "mlb-small" : low ? "mlb-low" : "";
  const room = columns > 8 ? "mlb-wide" : columns <= 2 ? "mlb-few" : "";
  const wraps = (/** @type {number} */ most) => columns > most && `in lines of ${lineOf(columns, most)}`;
  const cells = tiles.map((tile) => drawTile(view, shards, tile, small));
  return h(
    "figure",
    { class: `mlb-grid ${size} ${room}`, style: `--columns:${lineOf(columns, 16)};--fewer:${lineOf(columns, 8)}` },
    outer.length > 0 && h("figcaption", {}, outer),
    across &&
      h(
        "div",
        { class: "mlb-across" },
        axisLabel(view, across.name),
        h("span", { "aria-hidden": "true" }, "→"),
        h("span", { class: "mlb-lines" }, wraps(16)),
        h("span", { class: "mlb-fewer-lines" }, wraps(8)),
      ),
    down &&
      h(
        "div",
        { class: "mlb-down" },
        h("span", { class: "mlb-down-name" }, axisLabel(view, down.name)),
        h("span", { "aria-hidden": "true" }, "↓"),
      ),
    h("div", { class: "mlb-tiles" }, cells),
  );
}

/**
 * How many of a row of devices stand in one line: all of them, or the largest part that divides them.
 * @param {number} columns
 * @param {number} most
 * @returns {number}
 */
export function lineOf(columns, most) {
  if (columns <= most) return columns;
  for (let line = most; line > most / 2; line -= 1) if (columns % line === 0) return line;
  return most;
}

/**
 * @param {[number, number]} range
 * @returns {string}
 */
function indices([start, stop]) {
  return stop - start === 1 ? exact(start) : `${exact(start)}${DASH}${exact(stop - 1)}`;
}

/**
 * @param {View} view
 * @param {Shards} shards
 * @param {Tile} tile
 * @param {boolean} small
 * @returns {HTMLElement}
 */
function drawTile(view, shards, tile, small) {
  const split = shards.splits.flatMap((axes, i) => (axes.length ? [i] : []));
  const ranges = split.map((i) => `${shards.dims[i]} ${indices(tile.ranges[i])}`);
  const coordinates = view.mesh.axes.map((axis, i) => `${axis.name} ${tile.coords[i]}`).join(", ");
  const text = `device ${tile.device} (${coordinates}) holds ${ranges.join(", ") || "all of it"}`;
  return h(
    "div",
    {
      class: "mlb-tile",
      title: text,
      role: "button",
      tabindex: tile.device === 0 ? "0" : "-1",
      "data-key": `device:${tile.device}`,
      "data-device": tile.device,
    },
    h("div", { class: "mlb-tile-head" }, h("span", {}, `${tile.device}`), h("b", {}, letter(tile.slice))),
    drawSlice(shards, tile, split),
    !small && drawRanges(view, shards, ranges, split),
  );
}

/**
 * @param {View} view
 * @param {Shards} shards
 * @param {string[]} ranges
 * @param {number[]} split
 * @returns {HTMLElement}
 */
function drawRanges(view, shards, ranges, split) {
  const lines = split.map((dim, i) =>
    h(
      "div",
      { class: "mlb-range" },
      shards.splits[dim].map((axis) => swatch(view, axis)),
      ranges[i],
    ),
  );
  return h("div", { class: "mlb-ranges" }, lines.length ? lines : "all of it");
}

/**
 * Draws a tensor as a rectangle over two of its dims, those that are split first, with the slice filled in.
 * @param {Shards} shards
 * @param {Tile} tile
 * @param {number[]} split
 * @returns {SVGElement}
 */
function drawSlice(shards, tile, split) {
  const others = shards.dims.map((_, i) => i).filter((i) => !split.includes(i));
  const [down, across] = [...split, ...others].slice(0, 2).sort((a, b) => a - b);
  const [width, height] = [60, 34];
  /** @type {(dim: number | undefined, length: number) => [number, number]} */
  const span = (dim, length) => {
    if (dim === undefined) return [0, length];
    const [start, stop] = tile.ranges[dim];
    const size = shards.shape[dim] || 1;
    return [(start / size) * length, ((stop - start) / size) * length];
  };
  const only = across === undefined;
  const [x, w] = span(only ? down : across, width);
  const [y, t] = only ? [0, height] : span(down, height);
  return s(
    "svg",
    { class: "mlb-slice", viewBox: `0 0 ${width} ${height}`, "aria-hidden": "true", preserveAspectRatio: "none" },
    s("rect", { class: "mlb-slice-whole", width, height, rx: 2 }),
    s("rect", { class: "mlb-slice-own", x, y, width: Math.max(w, 1.5), height: Math.max(t, 1.5), rx: 1 }),
  );
}

/**
 * @param {View} view
 * @param {Shards} shards
 * @returns {HTMLElement | null}
 */
function drawMore(view, shards) {
  if (!shards.left_out) return null;
  return h("p", { class: "mlb-none" }, `The first ${shards.tiles.length} of ${exact(view.mesh.size)} devices.`);
}
