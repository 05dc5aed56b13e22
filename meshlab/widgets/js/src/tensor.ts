/** The tensor that is selected, in its slices: what each axis is, and which mesh axes cut it. */
import { drawHolders, drawMargins, marginsOf } from "./block_labels.ts";
import { h, s } from "./dom.ts";
import { exact } from "./format.ts";
import type { Drawn as Heat } from "./heat.ts";
import { drawSlice, patterns, rangesText, roundness } from "./slices.ts";
import type { Shards } from "./types.ts";

// Pixels around the blocks, for the names of the axes.
const [TOP, LEFT] = [16, 16];
// Room for a character of them.
const LETTER = 7.4;

/** @returns an axis of the tensor: its dim, its size, and what it is cut over */
function axisText(shards: Shards, axis: number): string {
  const cut = shards.splits[axis].length ? ` / ${shards.splits[axis].join("·")}` : "";
  return `${shards.dims[axis]} ${exact(shards.shape[axis])}${cut}`;
}

/**
 * @param small whether lighter colours stand for patterns, as in the picture of devices
 * @param heat the numbers that a run has of it
 * @param holders the devices that hold each slice, where the picture shows every device
 */
export function drawTensor(
  shards: Shards,
  small: boolean,
  heat: Heat,
  holders: Map<number, number[]> = new Map(),
): HTMLElement {
  const { blocks, copies } = shards;
  const whole = blocks.whole.map((axis) => axisText(shards, axis)).join(" · ");
  const facets = blocks.facets.map((axis) => axisText(shards, axis)).join(" · ");
  const notes = [
    facets && `one for each part of ${facets}`,
    whole && `unsharded: ${whole}`,
    blocks.each > 1 && `each block is ${exact(blocks.each)} slices`,
    copies > 1 &&
      shards.slices > 1 &&
      !heat.unframed &&
      `each slice is held by ${exact(copies)} devices${holders.size && !heat.block ? ": the small numbers" : ""}`,
  ].filter(Boolean);
  return h(
    "figure",
    { class: "mlb-tensor" },
    heat.before,
    drawBlocks(shards, small, heat, holders),
    h("figcaption", {}, ...heat.notes, ...notes.map((note) => h("div", {}, String(note)))),
  );
}

function drawBlocks(shards: Shards, small: boolean, heat: Heat, holders: Map<number, number[]>): SVGElement {
  const { blocks } = shards;
  const { defs, look } = patterns(small);
  const margins = marginsOf(shards);
  const left = (blocks.down >= 0 ? LEFT : 1) + margins.left;
  const top = (blocks.across >= 0 ? TOP : 1) + margins.top;
  const name = (axis: number) => (axis >= 0 ? axisText(shards, axis) : "");
  const [across, down] = [name(blocks.across), name(blocks.down)];
  const long = (text: string) => LETTER * `${text} →`.length;
  const wide = Math.max(left + blocks.width + margins.right, left + long(across)) + 2;
  const tall = Math.max(top + blocks.height + margins.bottom, top + long(down)) + 2;
  const each = blocks.slices.map((slice, i) => {
    const box = { x: left + blocks.x[i], y: top + blocks.y[i], w: blocks.w[i], h: blocks.h[i] };
    return s(
      "g",
      { class: "mlb-site", "data-slice": blocks.each > 1 || heat.unframed ? null : slice },
      s(
        "title",
        {},
        `${shards.place}: ${blocks.each > 1 ? `${exact(blocks.each)} slices from ` : ""}${rangesText(shards, slice)}`,
      ),
      heat.block?.(i, box, look) ?? [
        // Without padding: a block ends where the tensor does.
        ...drawSlice(shards, slice, box, look, 1),
        ...(blocks.each === 1 ? drawHolders(shards, slice, box, holders.get(slice) ?? [], look) : []),
      ],
      !heat.unframed &&
        s("rect", { x: box.x, y: box.y, width: box.w, height: box.h, rx: roundness(box.w), class: "mlb-site-frame" }),
    );
  });
  return s(
    "svg",
    {
      viewBox: `0 0 ${wide.toFixed(0)} ${tall.toFixed(0)}`,
      style: `--wide: ${wide.toFixed(0)}px`,
      role: "img",
      "aria-label": `${shards.place} in ${exact(shards.slices)} slices: ${[down, across].filter(Boolean).join(" by ")}`,
    },
    defs,
    across && s("text", { class: "mlb-draw-label", x: left, y: 11 }, `${across} →`),
    down && s("text", { class: "mlb-draw-label", x: 4, y: top, transform: `rotate(90 4 ${top})` }, `${down} →`),
    each,
    drawMargins(shards, margins, left, top),
  );
}
