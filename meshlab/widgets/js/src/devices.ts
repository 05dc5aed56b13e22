/**
 * The mesh as it stands on its machine, and which slice of the selected tensor each device holds; beside it the tensor in
 * its slices, in the same colours. Of very many devices a square is a block of them, and a click goes into it.
 */

import { holdersOf } from "./block_labels.ts";
import type { Board } from "./board.ts";
import { devicesRows } from "./differences.ts";
import { h, s } from "./dom.ts";
import { areOfAnother, drawEdges, drawSends } from "./edges.ts";
import { bytes, exact, plural } from "./format.ts";
import { heatOf } from "./heat.ts";
import { identity } from "./identity.ts";
import { closeLook, drawLookedHead, drawLookedRows, drawLooking, drawLookTools, lookedHeat, lookedOf } from "./look.ts";
import { drawPlacement } from "./machine.ts";
import { drawShape } from "./picture.ts";
import { type Box, drawLetter, drawSlice, isSmall, type Look, markSlices, patterns, rangesText } from "./slices.ts";
import type { Drawing } from "./stage.ts";
import { drawTensor } from "./tensor.ts";
import type { Holdings, Looked, NotThere, Picture, Shards, View } from "./types.ts";

// From this many pixels on a square has room for the number of its device, and for its ranges.
const [NUMBERED, RANGED] = [30, 46];

/** The tensor to choose. */
export function drawTensors(board: Board): HTMLElement[] {
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
  // What is drawn anew has the old choice until Python has answered.
  const choose = ({ currentTarget: { value: place } }: { currentTarget: HTMLSelectElement }) => {
    closeLook(board);
    board.send("select", { place });
  };
  const select = h("select", { class: "mlb-select mlb-tensors", "aria-label": "tensor", onchange: choose }, options);
  return [h("div", { class: "mlb-choose" }, select, drawLookTools(board))];
}

export function drawDevices(board: Board): (HTMLElement | null)[] {
  const { view } = board;
  const looked = lookedOf(board);
  if (looked) return drawLooked(board, looked);
  if (!view.shards) return [h("p", { class: "mlb-none" }, "This program has no tensor with a place.")];
  const zoomed = board.window && board.reads.of("zoomed", { window: board.window });
  const picture = zoomed?.data?.picture ?? view.picture;
  const shards = zoomed?.data?.shards ?? view.shards;
  const small = isSmall(picture, view.shards);
  return [
    drawLooking(board),
    drawSummary(view, view.shards),
    drawScope(board, picture),
    drawSends(board, view.shards.place),
    drawHoldings(
      board,
      drawMesh(board, picture, shards, small, areOfAnother(board, shards.place), drawEdges(board, picture)),
      drawTensor(view.shards, small, heatOf(board, view.shards), zoomed ? undefined : holdersOf(picture, shards)),
    ),
  ];
}

/** A value of the step that was looked at, in place of the tensor. */
function drawLooked(board: Board, looked: Looked | NotThere): (HTMLElement | null)[] {
  const head = drawLookedHead(board, looked);
  if (!looked.there) return [drawLooking(board), head];
  const { picture, shards } = looked;
  const small = isSmall(picture, shards);
  const mesh = drawMesh(board, picture, shards, small);
  return [
    drawLooking(board),
    head,
    drawHoldings(board, mesh, drawTensor(shards, small, lookedHeat(looked))),
    drawLookedRows(looked),
  ];
}

function drawHoldings(board: Board, mesh: HTMLElement, tensor: HTMLElement): HTMLElement {
  return h(
    "div",
    {
      class: "mlb-holdings",
      onpointerover: (event: PointerEvent) => point(board, event.target as Element),
      onpointerleave: () => point(board, null),
    },
    mesh,
    tensor,
  );
}

function drawSummary(view: View, shards: Shards): HTMLElement {
  const row = view.places.rows.find((each) => each.place === shards.place);
  const slices = shards.slices === 1 ? "replicated on every device" : plural(shards.slices, "slice");
  const copies = shards.slices > 1 && shards.copies > 1 ? `, ${exact(shards.copies)} replicas of each` : "";
  const size = row ? ` · ${bytes(row.local_bytes)} of ${bytes(row.bytes)} on each` : "";
  const partial = shards.partial.length ? ` · partial sums over ${shards.partial.join(", ")}` : "";
  return h("p", { class: "mlb-summary" }, h("b", {}, slices), `${copies}${size}${partial}`);
}

/** Marks what is the same data as that under the pointer, or else as what the selected device holds. */
function point({ root, selection }: Board, target: Element | null) {
  const place = target?.closest("[data-slice]") ?? root.querySelector(`[data-device="${selection.device}"]`);
  markSlices(root, place);
}

/** Which part of the mesh is shown, and the way back to all of it. */
function drawScope(board: Board, picture: Picture): HTMLElement | null {
  if (picture.each === 1 && !board.window) return null;
  const back = () => zoom(board, null);
  return h(
    "p",
    { class: "mlb-scope" },
    board.window && h("button", { type: "button", class: "mlb-button", onclick: back }, "⤢ all devices"),
    board.window && ` ${plural(picture.shown, "device")} of ${exact(picture.devices)}`,
    picture.each > 1 &&
      ` Each square is ${exact(picture.each)} devices${board.can("zoomed") ? ": click one to see them" : ""}.`,
  );
}

function zoom(board: Board, shown: [number, number][] | null) {
  board.window = shown;
  board.stage.changed(["zoomed"]);
}

/**
 * @param ofAnother whether the arrows are of another tensor
 * @param arrows of the collective that is selected
 */
function drawMesh(
  board: Board,
  picture: Picture,
  shards: Holdings,
  small: boolean,
  ofAnother = false,
  arrows: SVGElement | null = null,
): HTMLElement {
  const { view } = board;
  const { defs, look } = patterns(small);
  const cells = picture.cells.x.map((_, cell) => drawCell(board, picture, shards, cell, look));
  const names = view.mesh.axes.map((axis) => `${axis.name} ${exact(axis.size)}`).join(", ");
  return h(
    "figure",
    { class: "mlb-mesh", "data-arrows-of-another": ofAnother },
    s(
      "svg",
      {
        viewBox: `0 0 ${picture.width} ${picture.height}`,
        style: `--wide: ${picture.width}px`,
        role: "group",
        "aria-label": `${exact(picture.devices)} devices: ${names || "no mesh axis"}`,
      },
      defs,
      picture.shapes.map((shape) => drawShape(view, shape)),
      s("g", {}, cells),
      arrows,
    ),
  );
}

/** The positions along each level that a cell covers. */
export function boxOf({ levels }: Picture, cell: number): [number, number][] {
  const box: [number, number][] = [];
  let rest = cell;
  for (const { count, low, high, step } of [...levels].reverse()) {
    const start = low + (rest % count) * step;
    box.unshift([start, Math.min(high, start + step)]);
    rest = Math.floor(rest / count);
  }
  return box;
}

function drawCell(board: Board, picture: Picture, shards: Holdings, cell: number, look: Look): SVGElement {
  const { cells } = picture;
  const box = { x: cells.x[cell], y: cells.y[cell], w: cells.w, h: cells.h };
  if (picture.each > 1) return drawBlock(board, picture, shards, cell, box, look);
  const [device, slice] = [cells.devices[cell], Number(shards.held[cell])];
  const text = `device ${exact(device)} (${whereIs(board.view, device)}) holds ${rangesText(shards, slice)}`;
  const colours = identity(shards, slice, look.small);
  const roomy = box.w >= NUMBERED && box.h >= NUMBERED;
  const ranges = box.w >= RANGED && box.h >= RANGED ? rangesText(shards, slice).split(", ").slice(0, 2) : [];
  const upper = ranges.length ? { ...box, h: box.h - 11 * ranges.length - 2 } : box;
  return s(
    "g",
    {
      key: device,
      class: "mlb-site",
      role: "button",
      tabindex: cell === 0 ? "0" : "-1",
      "data-device": device,
      "data-slice": slice,
    },
    s("title", {}, text),
    drawSlice(shards, slice, box, look),
    drawLetter(shards, slice, upper, look),
    roomy && drawSmall(colours, box.x + 3, box.y + 9, String(device), "start"),
    ranges.map((line, i) => {
      const y = box.y + box.h - 4 - 11 * (ranges.length - 1 - i);
      return (
        5.1 * line.replaceAll("\u2060", "").length < box.w && drawSmall(colours, box.x + box.w / 2, y, line, "middle")
      );
    }),
    s("rect", { x: box.x, y: box.y, width: box.w, height: box.h, rx: 3, class: "mlb-site-frame" }),
    s("text", { class: "mlb-peer", "aria-hidden": "true", x: box.x + box.w / 2, y: box.y - 2 }),
  );
}

function drawSmall(
  { fill, ink }: { fill: string; ink: string },
  x: number,
  y: number,
  words: string,
  anchor: string,
): SVGElement {
  const look = { fill: ink, stroke: fill, class: "mlb-small-print", "aria-hidden": "true" };
  return s("text", { x, y, "text-anchor": anchor, ...look }, words);
}

/** A square that stands for many devices, with the slices that they hold side by side. */
function drawBlock(board: Board, picture: Picture, shards: Holdings, cell: number, box: Box, look: Look): SVGElement {
  const held = shards.held[cell] as number[];
  const covers = boxOf(picture, cell);
  const where = picture.levels.map(({ name }, i) => `${name} ${spanText(covers[i])}`).join(", ");
  const count = covers.reduce((all, [low, high]) => all * (high - low), 1);
  const text = `${plural(count, "device")} (${where}) with ${plural(shards.kinds[cell], "slice")}`;
  const wide = box.w / held.length;
  const go = () => zoom(board, covers);
  const opens = board.can("zoomed") && {
    role: "button",
    tabindex: cell === 0 ? "0" : "-1",
    onclick: go,
    onkeydown: (event: KeyboardEvent) => event.key === "Enter" && go(),
  };
  return s(
    "g",
    { class: "mlb-site mlb-block", role: "img", key: `${covers}`, "data-block": cell, ...opens },
    s("title", {}, text),
    held.flatMap((slice, i) => drawSlice(shards, slice, { ...box, x: box.x + i * wide, w: wide }, look)),
    s("rect", { x: box.x, y: box.y, width: box.w, height: box.h, rx: 2, class: "mlb-site-frame" }),
  );
}

function spanText([low, high]: [number, number]): string {
  return high - low === 1 ? exact(low) : `${exact(low)}–${exact(high - 1)}`;
}

/** @returns its index along each mesh axis */
export function whereIs(view: View, device: number): string {
  const words = [];
  let rest = device;
  for (const { name, size } of [...view.mesh.axes].reverse()) {
    words.unshift(`${name} ${exact(rest % size)}`);
    rest = Math.floor(rest / size);
  }
  return words.join(", ");
}

export const panel: Drawing = { tools: drawTensors, draw: drawDevices, foot: drawPlacement, rows: devicesRows };
