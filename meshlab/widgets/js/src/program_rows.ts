/** The rows of the program: how each kind of node is written, and what is said of one below the tree. */

import type { Board } from "./board.ts";
import { type Child, h, prose } from "./dom.ts";
import { bytes, exact, plural } from "./format.ts";
import { axisLabel, markClass, swatch } from "./marks.ts";
import type { Node, Tree } from "./program_tree.ts";
import { concerns } from "./selection.ts";
import type { Sent } from "./types.ts";

/** `place` and `of`: which of its siblings it is. */
export type Row = {
  index: number;
  open: boolean;
  active: boolean;
  hit: boolean;
  id: string;
  top: number;
  level: number;
  place: number;
  of: number;
};

/** Heights of rows of one line and of two, in pixels (program.css). */
const ONE = 24;
const TWO = 42;
const INDENT = 14;

/** @returns the height of its row in pixels */
export function heightOf({ kind, label, collective }: Node): number {
  const two = collective || kind === "line" || (kind === "step" && label);
  return two ? TWO : ONE;
}

function often(times: number): string {
  return times > 1 ? `× ${exact(times)}` : "";
}

/** A type: each dim with the mesh axes that it is split over, and its size on one device. */
function drawType(board: Board, tree: Tree, type: number): HTMLElement | null {
  if (type < 0) return null;
  const { view, selection } = board;
  const { strings, types } = tree.data;
  const [dtype, dims, partial] = types[type];
  const parts = dims.flatMap(([name, size, local, axes], i) => {
    const [dim, key] = [strings[name], strings[axes]];
    const split = key ? `sharded over ${key}: ${exact(local)} of ${exact(size)} on a device` : "replicated";
    return [
      i ? ", " : "",
      h(
        "span",
        {
          class: "mlb-sized",
          "data-dim": dim,
          "data-related": dim === selection.dim,
          title: `${dim}: ${split}`,
        },
        dim,
        key ? [h("span", { class: "mlb-sized-axes" }, "/", swatch(view, key), key)] : null,
        dim === "1" ? null : h("span", { class: "mlb-local" }, ` ${exact(local)}`),
      ),
    ];
  });
  const key = strings[partial];
  const sums = key ? [" partial over ", swatch(view, key), key] : [];
  return h("span", { class: "mlb-type", title: strings[dtype] }, "[", parts, "]", sums);
}

/** What is sent inside a group, for as long as it is closed or when it is a phase. */
function drawSum({ view }: Board, tree: Tree, index: number): HTMLElement | null {
  const keys = tree.axes.get(index);
  if (!keys) return null;
  const what = plural(tree.counts[index], "collective");
  const marks = view.groups.filter(({ key }) => keys.has(key)).map(({ key }) => swatch(view, key));
  const over = [...keys]
    .map((key) => `\`${key}\``)
    .join(", ")
    .replaceAll("`", "");
  const title = `${what} over ${over}: one device sends ${exact(Math.round(tree.bytes[index]))} bytes in a step`;
  return h("span", { class: "mlb-sent", title }, marks, `sends ${bytes(tree.bytes[index])}`);
}

/** @returns its lines */
function linesOf(board: Board, tree: Tree, { index, open }: Row, node: Node): Child[][] {
  const { kind, label, name, source, value, makes, reads, collective, times, uses } = node;
  const shown = (open && !["phase", "loop", "alike"].includes(kind)) || kind === "line";
  const sum = shown ? null : drawSum(board, tree, index);
  const where = h("code", { class: "mlb-where" }, source);
  const code = h("code", { class: "mlb-said", title: label }, label);
  const made = drawType(board, tree, makes);
  const read = reads.flatMap((type) => [" ", drawType(board, tree, type)]);
  const does = ["← ", h("code", {}, name), ...read];
  if (collective) return collectiveLines(board, collective);
  if (kind === "phase") return [[h("b", { class: "mlb-said" }, label), sum]];
  if (kind === "function") {
    const named = label !== source && !label.includes(".");
    return [[h("code", { class: "mlb-said" }, named ? `${label}()` : label), named && where, sum]];
  }
  if (kind === "loop" || kind === "alike") {
    const what = [kind === "alike" ? "identical" : name, often(times)].filter(Boolean).join(" ");
    return [[h("b", {}, what), code, sum]];
  }
  if (kind === "scope" || kind === "block") return [[h("b", { class: "mlb-said" }, label), often(times), sum]];
  if (kind === "slice") {
    const text = ["slice over ", axisLabel(board.view, uses), ` of ${value}: sends nothing `, made];
    return [[h("span", { class: "mlb-said" }, text)]];
  }
  if (label)
    return [
      [code, where],
      [h("span", { class: "mlb-said" }, made, " ", does), sum],
    ];
  return [[h("span", { class: "mlb-said" }, h("code", {}, name), " ", made, read.length ? " ← " : "", read), sum]];
}

function collectiveLines(board: Board, { kind, key, wire, times, value, dims, because }: Sent): Child[][] {
  const what = h("span", { class: "mlb-said" }, value, dims.length > 0 && ` [${dims.join(" ")}]`);
  const sends = h("span", { class: "mlb-sent" }, [bytes(wire), often(times)].filter(Boolean).join(" "));
  const cause = h("span", { class: "mlb-said", title: because.replaceAll("`", "") }, prose(because));
  return [[h("b", {}, kind), axisLabel(board.view, key), what, sends], [cause]];
}

export function drawRow(board: Board, tree: Tree, row: Row): HTMLElement {
  const node = tree.node(row.index);
  const { collective, kind } = node;
  const folds = tree.folds(row.index);
  const { selection, view } = board;
  const id = collective?.id || null; // XLA's are none that can be selected
  const chosen = id !== null && id === selection.collective;
  const height = heightOf(node);
  return h(
    "div",
    {
      key: row.index,
      class: `mlb-row mlb-row-${kind} ${collective ? markClass(view, collective.key) : ""}`,
      role: "treeitem",
      id: row.id,
      style: `top:${row.top}px;height:${height}px;padding-left:${4 + INDENT * Math.min(row.level, 8)}px`,
      "aria-level": row.level + 1,
      "aria-posinset": row.place,
      "aria-setsize": row.of,
      "aria-expanded": folds ? String(row.open) : null,
      "aria-current": chosen ? "true" : null,
      "aria-selected": id ? String(chosen) : null,
      "data-collective": id,
      "data-related": collective !== null && concerns(collective, selection.dim),
      "data-active": row.active,
      "data-hit": row.hit,
      "data-row": row.index,
    },
    h("span", { class: "mlb-twist", "aria-hidden": "true" }, folds ? (row.open ? "▾" : "▸") : ""),
    h(
      "div",
      { class: "mlb-row-texts" },
      linesOf(board, tree, row, node).map((line) => h("div", { class: "mlb-row-text" }, line)),
    ),
  );
}

/** All of a row, in as many lines as it takes. */
export function drawDetails(board: Board, tree: Tree, index: number): Child[] {
  const node = tree.node(index);
  const { kind, label, name, source, value, uses, makes, reads, collective } = node;
  if (collective) {
    const { key, wire, payload, times, dims, because, code } = collective;
    const all = times > 1 ? ` ${often(times)} = ${bytes(wire * times)} a step` : " a step";
    return [
      h("b", {}, collective.kind),
      " over ",
      axisLabel(board.view, key),
      ` of ${collective.value}${dims.length ? ` [${dims.join(" ")}]` : ""}: payload ${bytes(payload)}, a device sends ${bytes(wire)}${all}. `,
      ...prose(`${because} `),
      h("code", {}, [collective.source, code].filter(Boolean).join(" ")),
    ];
  }
  const says = [source, label].filter(Boolean).join(" ");
  if (kind === "step" || kind === "line" || kind === "slice") {
    const from = reads.flatMap((type) => [" ", drawType(board, tree, type)]);
    return [
      h("b", {}, name),
      value ? ` makes ${value} ` : " makes ",
      drawType(board, tree, makes),
      ...(from.length ? [" from", ...from] : []),
      uses && kind !== "slice" ? `; it reads ${uses}` : "",
      ". ",
      h("code", {}, says),
    ];
  }
  const count = tree.counts[index];
  const sends = count
    ? `${plural(count, "collective")} inside; a device sends ${bytes(tree.bytes[index])} a step. `
    : "Nothing is sent inside. ";
  const steps = kind === "alike" ? "Repetitions that are planned alike, shown once. " : "";
  return [h("b", {}, kind === "loop" ? name : label || name), ". ", steps, sends, source && h("code", {}, says)];
}
