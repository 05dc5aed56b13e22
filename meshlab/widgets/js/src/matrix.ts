/**
 * Who sends to whom: devices by devices, each cell the bytes that one sends another in a step. Of few devices the cells
 * have their numbers and a bar; of more, squares that grow with the bytes, and a legend. Of very many there is one
 * block for each set of mesh axes. What it draws comes from Python (`views/devices/matrix.py`).
 */

import type { Board } from "./board.ts";
import { h, s } from "./dom.ts";
import { bytes, exact } from "./format.ts";
import { axisLabel, markClass } from "./marks.ts";
import { cellKeys } from "./matrix_keys.ts";
import { spot } from "./spots.ts";
import type { Matrix, MatrixBlock, MatrixCell, View } from "./types.ts";

// Up to so many devices a cell has room for its number.
const WRITTEN = 8;
const LEVELS = 5;
const HEAD = 40;

/**
 * The bytes that a cell may have, largest first: those that there are, or where they are many, powers between them.
 * @returns at most `LEVELS` lower bounds
 */
export function levelsOf(values: number[]): number[] {
  const known = [...new Set(values)].sort((one, other) => other - one);
  const apart = known.filter((value, i) => i === 0 || value < 0.99 * known[i - 1]);
  if (apart.length <= LEVELS) return apart;
  const [most, least] = [known[0], known[known.length - 1]];
  const step = (most / least) ** (1 / LEVELS);
  return Array.from({ length: LEVELS }, (_, i) => (i === LEVELS - 1 ? least : most / step ** (i + 1)));
}

/** @returns which level a value has, 0 the highest */
export function levelOf(levels: number[], value: number): number {
  const at = levels.findIndex((level) => value >= 0.99 * level);
  return at < 0 ? levels.length - 1 : at;
}

export function drawMatrix(board: Board): (Node | null | false)[] {
  return board.view.collectives.rows.length ? [spot("matrix", () => drawSent(board))] : [];
}

function drawSent(board: Board): (Node | null | false)[] {
  const { view } = board;
  const { data, error, fresh } = board.reads.of("matrix");
  const title = h("h4", {}, "who sends to whom");
  if (error) return [title, h("p", { class: "mlb-error" }, `✕ ${error}`)];
  if (!data) return board.readOnly ? [] : [title, h("p", { class: "mlb-none" }, "The matrix is being worked out …")];
  const matrix = data;
  if (matrix.blocks.length === 0) return [];
  const drawn = matrix.cells.length ? drawCells(board, matrix) : drawBlocks(view, matrix);
  return [title, h("div", { class: "mlb-matrix", "data-fresh": String(fresh) }, drawn)];
}

function drawCells(board: Board, matrix: Matrix): (Node | null)[] {
  const { view } = board;
  const { devices: n, total, kept, convention } = matrix;
  const cells = [...matrix.cells].sort(([from, to], [other, there]) => from - other || to - there);
  const [wide, high] = n <= WRITTEN ? [50, 26] : [Math.max(7, Math.floor(480 / n)), Math.max(7, Math.floor(480 / n))];
  const levels = levelsOf(cells.map(([, , count]) => count));
  const [width, height] = [HEAD + n * wide + 2, HEAD - 10 + n * high + 2];
  const [left, top] = [HEAD, HEAD - 10];
  const every = Math.max(1, 2 ** Math.ceil(Math.log2(n / (wide < 24 ? (n * wide) / 24 : n))));
  const label = (i: number, x: number, y: number, anchor: string) =>
    s("text", { x, y, "text-anchor": anchor, class: "mlb-cell-head", "data-device": i }, `${i}`);
  const numbers = Array.from({ length: n }, (_, i) => i).filter((i) => i % every === 0);
  const drawing = s(
    "svg",
    {
      viewBox: `0 0 ${width} ${height}`,
      width,
      height,
      role: "application",
      tabindex: 0,
      ...cellKeys(board, cells),
      "aria-label": `bytes that each of ${n} devices (rows) sends to each other one (columns); a row adds up to ${bytes(total)}. Arrow keys go from cell to cell, Enter selects the device that sends.`,
    },
    s("rect", { class: "mlb-cells", x: left, y: top, width: n * wide, height: n * high }),
    s("text", { x: left + 12, y: 11, class: "mlb-cell-side" }, "to →"),
    s("text", { x: 2, y: 11, class: "mlb-cell-side" }, "from ↓"),
    numbers.map((i) => label(i, left + (i + 0.5) * wide, top - 6, "middle")),
    numbers.map((i) => label(i, left - 6, top + (i + 0.5) * high + 4, "end")),
    Array.from({ length: n - 1 }, (_, i) =>
      s("path", {
        class: "mlb-cell-line",
        d: `M${left + (i + 1) * wide} ${top}v${n * high}M${left} ${top + (i + 1) * high}h${n * wide}`,
      }),
    ),
    cells.map((cell) => drawCell(view, cell, { left, top, wide, high }, levels, n <= WRITTEN)),
  );
  const note = kept ? ` On the diagonal: ${bytes(kept)}, counted, though they stay on their device.` : "";
  return [
    h("div", { class: "mlb-matrix-box" }, drawing, drawLegend(view, matrix, levels)),
    h(
      "p",
      { class: "mlb-foot" },
      `${convention}${note} Each row adds up to ${bytes(total)}, what a device sends in a step.`,
    ),
  ];
}

/** @returns the mark of the axes that a cell is sent over; of several sets none is its own */
function markOf(view: View, keys: string[]): string {
  return keys.length === 1 ? markClass(view, keys[0]) : "mlb-several";
}

function drawCell(
  view: View,
  [from, to, count, keys]: MatrixCell,
  { left, top, wide, high }: { left: number; top: number; wide: number; high: number },
  levels: number[],
  written: boolean,
): SVGElement {
  const [x, y] = [left + to * wide, top + from * high];
  const who = from === to ? `device ${from} to itself` : `device ${from} to device ${to}`;
  const title = s(
    "title",
    {},
    `${who}: ${bytes(count)} (${exact(Math.round(count))} bytes) over ${keys.join(", and over ")}`,
  );
  const mark = markOf(view, keys);
  const at = { class: `mlb-cell ${mark}`, "data-from": from, "data-to": to };
  if (written) {
    const share = count / levels[0];
    return s(
      "g",
      at,
      title,
      s("rect", { class: "mlb-cell-ground", x: x + 1, y: y + 1, width: wide - 2, height: high - 2 }),
      s("rect", {
        class: "mlb-cell-fill",
        x: x + 3,
        y: y + high - 6,
        width: Math.max(1, share * (wide - 6)).toFixed(1),
        height: 3,
      }),
      s("text", { x: x + wide / 2, y: y + high / 2 + 2, "text-anchor": "middle" }, bytes(count)),
    );
  }
  const side = (1 - 0.16 * levelOf(levels, count)) * (wide - 1);
  const inset = (wide - side) / 2;
  return s(
    "rect",
    {
      ...at,
      class: `mlb-cell mlb-cell-fill ${mark}`,
      x: (x + inset).toFixed(2),
      y: (y + inset).toFixed(2),
      width: side.toFixed(2),
      height: side.toFixed(2),
    },
    title,
  );
}

/** What the colours and the sizes of squares mean. */
function drawLegend(view: View, { devices, cells, blocks }: Matrix, levels: number[]): HTMLElement {
  const lone = new Set(cells.filter(([, , , keys]) => keys.length === 1).map(([, , , keys]) => keys[0]));
  const several = cells.some(([, , , keys]) => keys.length > 1);
  const axes = blocks
    .filter((block) => lone.has(block.key))
    .map((block) => h("li", {}, axisLabel(view, block.key), h("span", { class: "mlb-bar-value" }, bytes(block.bytes))));
  const more = several
    ? [
        h(
          "li",
          {},
          h(
            "span",
            { class: "mlb-axis-label" },
            h("span", { class: "mlb-swatch mlb-several", "aria-hidden": "true" }),
            "over several",
          ),
        ),
      ]
    : [];
  const exactly = new Set(cells.map(([, , count]) => count)).size <= levels.length;
  const sizes = levels.map((level, i) => {
    const side = 14 * (1 - 0.16 * i);
    const square = s(
      "svg",
      { width: 14, height: 14, "aria-hidden": "true" },
      s("rect", {
        class: "mlb-cell-fill mlb-several",
        x: (14 - side) / 2,
        y: (14 - side) / 2,
        width: side,
        height: side,
      }),
    );
    return h("li", {}, square, `${exactly ? "" : "from "}${bytes(level)}`);
  });
  return h(
    "ul",
    { class: "mlb-legend", "aria-label": "legend of the matrix" },
    axes,
    more,
    devices > WRITTEN ? sizes : [],
  );
}

const WAYS = {
  ring: "to the next of its ring",
  each: "to all others, in equal parts",
  pairs: "to its pair, by permutes",
} as Record<string, string>;

/** One block for each set of mesh axes: its groups, and what one of its devices sends in which way. */
function drawBlocks(view: View, { devices, most, blocks, convention, total }: Matrix): Node[] {
  const drawn = blocks.map((block) => {
    const ways = Object.entries(block.ways).map(([how, count]) =>
      h("li", { title: `${exact(Math.round(count))} bytes` }, h("b", {}, bytes(count)), ` ${WAYS[how]}`),
    );
    return h(
      "li",
      { class: `mlb-block ${markClass(view, block.key)}`, "data-block": block.key },
      drawRing(block),
      h(
        "div",
        {},
        h(
          "p",
          {},
          axisLabel(view, block.key),
          `: ${exact(block.groups)} ${block.groups === 1 ? "group" : "groups"} of ${exact(block.size)} devices`,
        ),
        h("ul", {}, ways),
      ),
    );
  });
  const why = `More than ${most} devices are grouped by mesh axis: all ${exact(devices)} send alike.`;
  return [
    h("ul", { class: "mlb-blocks" }, drawn),
    h("p", { class: "mlb-foot" }, `${why} ${convention} In all, a device sends ${bytes(total)} in a step.`),
  ];
}

/** A group as a ring of up to eight devices, with the ways in which they send. */
function drawRing({ key, size, ways }: MatrixBlock): SVGElement {
  const n = Math.min(size, 8);
  const points = Array.from({ length: n }, (_, i) => {
    const turn = (2 * Math.PI * i) / n - Math.PI / 2;
    return [36 + 26 * Math.cos(turn), 36 + 26 * Math.sin(turn)];
  });
  const line = ([x, y]: number[], [u, v]: number[]) =>
    `M${x.toFixed(1)} ${y.toFixed(1)}L${u.toFixed(1)} ${v.toFixed(1)}`;
  const around = points.map((point, i) => line(point, points[(i + 1) % n])).join("");
  const across = points.flatMap((point, i) => points.slice(i + 1).map((other) => line(point, other))).join("");
  const more = size > n ? s("text", { x: 36, y: 40, "text-anchor": "middle" }, `${exact(size)}`) : null;
  return s(
    "svg",
    {
      viewBox: "0 0 72 72",
      width: 72,
      height: 72,
      role: "img",
      "aria-label": `a group of ${size} devices over ${key}`,
    },
    ways.each && s("path", { class: "mlb-ring-each", d: across }),
    (ways.ring || ways.pairs) && s("path", { class: `mlb-ring${ways.ring ? "" : " mlb-ring-pairs"}`, d: around }),
    points.map(([x, y]) => s("circle", { cx: x.toFixed(1), cy: y.toFixed(1), r: 4.5 })),
    more,
  );
}
