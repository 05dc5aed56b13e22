/**
 * The size of a dim or of a mesh axis as a slider, with what a step costs over it behind: its time, its peak and the bytes
 * that a device sends. Python works the curve out in the background (`state/curves.py`), and it is drawn as it comes. What
 * is dragged to, clicked or typed is looked at; let go, or Enter, takes it. Sizes that the layout does not fit are crossed.
 */

import type { Board } from "./board.ts";
import { type Child, h, prose, redraw, s } from "./dom.ts";
import { bytes, exact, seconds } from "./format.ts";
import { type Scale, scaleOf } from "./scales.ts";
import { SLIDER_KEYS } from "./slider.ts";
import type { Curve, Point, View } from "./types.ts";

/** What is being sized: `at` is the size that is looked at, and `curve` the last one that came. */
export type Sizing = {
  kind: "dim" | "axis";
  name: string;
  at: number;
  held: boolean;
  curve: Curve | null;
  element: HTMLElement;
};
type Row = { name: string; of: (point: Point) => number | null; text: (value: number) => string; limit: number | null };

const [WIDTH, EDGE, TALL, LABEL] = [376, 22, 48, 15];

/** @returns what is drawn over the sizes: on a machine also times and peaks */
export function rowsOf(timed: boolean, limit: number | null): Row[] {
  const sends: Row = { name: "sends", of: (point) => point.bytes, text: bytes, limit: null };
  const time: Row = { name: "step", of: (point) => point.seconds, text: seconds, limit: null };
  const peak: Row = { name: "peak", of: (point) => point.peak, text: bytes, limit };
  const stores: Row = { name: "arguments", of: (point) => point.arguments, text: bytes, limit: null };
  return timed ? [time, peak, sends] : [sends, stores];
}

/** What a size costs, or why it is refused, in words. */
export function pointText(point: Point | undefined, rows: Row[]): string {
  if (!point) return "not worked out yet";
  if (point.refused) return `✕ ${point.refused}`;
  const told = rows.map((row) => ({ row, value: row.of(point) })).filter(({ value }) => value !== null);
  return told
    .map(({ row, value }) => {
      const over =
        row.limit !== null && Number(value) > row.limit ? `, more than the ${bytes(row.limit)} of a device` : "";
      return `${row.name} ${row.text(Number(value))}${over}`;
    })
    .join(" · ");
}

/** The size of a list that is nearest to another. */
export function nearest(sizes: number[], size: number): number {
  return sizes.reduce((best, each) => (Math.abs(each - size) < Math.abs(best - size) ? each : best), sizes[0] ?? size);
}

/** Makes the slider of a popover, and asks for the curve; null where none can be had. */
export function makeSizes(board: Board, kind: Sizing["kind"], name: string, size: number): HTMLElement | null {
  if (!board.can("curve")) return null;
  const element = h("div", { class: "mlb-sizes" });
  board.popover.sizing = { kind, name, at: size, held: false, curve: null, element };
  askCurve(board, board.popover.sizing);
  draw(board);
  return element;
}

/** Draws a curve that came; asks for the one of the document that is on the board now. */
export function followSizes(board: Board, parts: string[]) {
  const { sizing } = board.popover;
  if (!sizing?.element.isConnected) return;
  const { curve } = board.view;
  const mine = curve?.kind === sizing.kind && curve.name === sizing.name;
  if (mine && curve) {
    if (sizing.curve?.present !== curve.present && !sizing.held) look(board, curve.present, true);
    sizing.curve = curve;
  } else if (parts.includes("board")) askCurve(board, sizing);
  draw(board);
}

async function askCurve(board: Board, { kind, name }: Sizing) {
  const answer = await board.channel.intent("curve", { kind, name });
  if (answer === null) board.popover.missed(() => followSizes(board, ["board"]));
}

/** @param typed whether what somebody has typed stays */
function look(board: Board, size: number, typed = false) {
  const { sizing, element } = board.popover;
  if (!sizing) return;
  const field = element.querySelector<HTMLInputElement>('input[name="size"]');
  if (field && !(typed && field.value !== String(sizing.at))) field.value = String(size);
  sizing.at = size;
}

/** Gives it the size that is looked at; the popover stays, so that the next can be tried. */
function take(board: Board) {
  const { sizing } = board.popover;
  const curve = sizing?.curve;
  if (!sizing || !curve || sizing.at === curve.present) return;
  const { kind, name, at } = sizing;
  const point = curve.points.find((each) => each.size === at);
  if (point?.refused) return;
  board.popover.take(kind === "dim" ? "resize_dim" : "resize_axis", { [kind]: name, size: at });
}

function draw(board: Board) {
  const { sizing } = board.popover;
  if (sizing) redraw(sizing.element, ...drawSizes(board, sizing));
}

function drawSizes(board: Board, sizing: Sizing): Child[] {
  const { curve, at } = sizing;
  const timed = board.view.machine.on !== "";
  const rows = rowsOf(timed, curve?.limit ?? null);
  const sizes = curve?.sizes ?? [at];
  const point = curve?.points.find((each) => each.size === at);
  const said = curve?.error ? "" : `${exact(at)}: ${curve ? pointText(point, rows) : "…"}`;
  const place = sizes.indexOf(at);
  const move = (to: number) => {
    look(board, sizes[Math.max(0, Math.min(sizes.length - 1, to))]);
    draw(board);
  };
  const under = (event: PointerEvent & { currentTarget: HTMLElement }) => {
    const box = event.currentTarget.getBoundingClientRect();
    const x = ((event.clientX - box.left) / box.width) * WIDTH;
    return Math.round(((x - EDGE) / (WIDTH - 2 * EDGE)) * (sizes.length - 1));
  };
  const slider = h(
    "div",
    {
      class: "mlb-sizes-slider",
      role: "slider",
      tabindex: 0,
      "aria-label": `size of ${sizing.name}`,
      "aria-valuemin": 0,
      "aria-valuemax": sizes.length - 1,
      "aria-valuenow": place < 0 ? sizes.indexOf(nearest(sizes, at)) : place,
      "aria-valuetext": said || exact(at),
      onkeydown: (event) => {
        if (event.key === "Enter") take(board);
        const by = SLIDER_KEYS[event.key];
        if (by !== undefined) move((place < 0 ? sizes.indexOf(nearest(sizes, at)) : place) + by);
        if (by === undefined && event.key !== "Enter") return;
        event.preventDefault();
        event.stopPropagation();
      },
      onpointerdown: (event) => {
        event.currentTarget.setPointerCapture(event.pointerId);
        sizing.held = true;
        move(under(event));
      },
      onpointermove: (event) => sizing.held && move(under(event)),
      onpointercancel: () => {
        sizing.held = false;
      },
      onpointerup: () => {
        if (!sizing.held) return;
        sizing.held = false;
        take(board);
      },
    },
    drawCurves(curve, rows, sizes, at),
  );
  const problem = curve?.error && h("p", { class: "mlb-none" }, prose(`No curve: ${curve.error}`));
  return [
    slider,
    problem,
    said && h("p", { class: point?.refused ? "mlb-error" : "mlb-sizes-said" }, prose(said)),
    drawWork(board, curve),
  ];
}

/** How far the curve is, or the tracing that a size needs, with a button that ends it. */
function drawWork(board: Board, curve: Curve | null): HTMLElement {
  const { tracing } = board.view;
  const traces = tracing?.phase === "tracing";
  const works = curve?.phase === "working";
  const end = (op: string, word: string, send: () => unknown) =>
    h("button", { type: "button", class: "mlb-button", "data-op": op, onclick: send }, word);
  const text = traces
    ? [h("span", {}, tracingText(tracing)), end("undo", "Cancel", () => board.send("undo"))]
    : works
      ? [
          h("span", {}, `${curve.points.length} of ${curve.sizes.length} sizes worked out …`),
          end("cancel_curve", "Stop", () => board.channel.intent("cancel_curve", {})),
        ]
      : [h("span", {}, curve?.kind === "dim" ? "Estimates: a size that is taken is traced." : "")];
  return h("div", { class: "mlb-sizes-work" }, text);
}

/** What is being traced. */
export function tracingText(tracing: View["tracing"]): string {
  if (!tracing) return "";
  return tracing.model ? `Opening ${tracing.model} …` : `Tracing again with ${tracing.sizes} …`;
}

function drawCurves(curve: Curve | null, rows: Row[], sizes: number[], at: number): SVGElement {
  const wide = (WIDTH - 2 * EDGE) / Math.max(1, sizes.length - 1);
  const x = (size: number) => EDGE + sizes.indexOf(size) * wide;
  const bottom = rows.length * (TALL + LABEL);
  const points = curve?.points ?? [];
  const thumb = sizes.includes(at) && [
    s("path", { class: "mlb-sizes-thumb", d: `M${x(at)} ${LABEL}V${bottom + 8}` }),
    s("circle", { class: "mlb-sizes-thumb", cx: x(at), cy: bottom + 8, r: 6 }),
  ];
  const refused = points.filter((each) => each.refused);
  return s(
    "svg",
    { viewBox: `0 0 ${WIDTH} ${bottom + 34}`, "aria-hidden": "true" },
    rows.map((row, i) => drawRow(row, points, curve, x, i * (TALL + LABEL), at)),
    s("path", { class: "mlb-sizes-track", d: `M${EDGE} ${bottom + 8}H${WIDTH - EDGE}` }),
    sizes.map((size) => s("path", { key: size, class: "mlb-sizes-track", d: `M${x(size)} ${bottom + 5}v6` })),
    refused.map(({ size }) =>
      s("path", {
        key: size,
        class: "mlb-sizes-refused",
        "data-refused": size,
        d: `M${x(size) - 4} ${bottom + 4}l8 8m0-8l-8 8`,
      }),
    ),
    thumb || [],
    // A cross is thin: its reason is told around it.
    refused.map(({ size, refused }) =>
      s("rect", {
        key: size,
        class: "mlb-sizes-why",
        "data-hint": `${exact(size)}: ✕ ${refused}`,
        x: x(size) - Math.min(wide / 2, 10),
        y: bottom - 2,
        width: Math.min(wide, 20),
        height: 20,
      }),
    ),
    labelled(sizes, curve?.present ?? at).map((size) =>
      s(
        "text",
        {
          key: size,
          // The first and the last are drawn inside, however long they are.
          x: Math.min(Math.max(x(size), wideOf(size) / 2), WIDTH - wideOf(size) / 2),
          y: bottom + 29,
          "text-anchor": "middle",
          class: size === curve?.present ? "mlb-sizes-now" : "",
        },
        exact(size),
      ),
    ),
  );
}

/** The pixels that a size takes as text. */
const wideOf = (size: number): number => 7.5 * exact(size).length;

/** @returns the sizes that are written: the first, the last and the present one, and what has room between them */
export function labelled(sizes: number[], present: number): number[] {
  const room = (WIDTH - 2 * EDGE) / Math.max(1, sizes.length - 1);
  const wide = (size: number) => wideOf(size) + 8;
  const chosen: number[] = [];
  for (const size of [present, sizes[0], sizes[sizes.length - 1], ...sizes]) {
    const i = sizes.indexOf(size);
    const free = chosen.every((each) => Math.abs(sizes.indexOf(each) - i) * room >= (wide(each) + wide(size)) / 2);
    if (i >= 0 && free) chosen.push(size);
  }
  return chosen;
}

function drawRow(
  row: Row,
  points: Point[],
  curve: Curve | null,
  x: (size: number) => number,
  top: number,
  at: number,
): SVGElement {
  const known = points.flatMap((point) => {
    const value = row.of(point);
    return value === null || point.refused ? [] : [{ size: point.size, value }];
  });
  const most = Math.max(...known.map((each) => each.value));
  // A limit that is far above all that is drawn is said, and would squeeze the curve.
  const near = row.limit !== null && row.limit < 4 * most ? row.limit : null;
  const scale: Scale = scaleOf([...known.map((each) => each.value), ...(near === null ? [] : [near])]);
  const y = (value: number) => top + LABEL + TALL - 4 - scale.at(value) * (TALL - 8);
  const line = known.map(({ size, value }, i) => `${i ? "L" : "M"}${x(size)} ${y(value).toFixed(1)}`).join("");
  const dot = (size: number | undefined, kind: string, r: number) =>
    known
      .filter((each) => each.size === size)
      .map((each) => s("circle", { class: kind, cx: x(each.size), cy: y(each.value), r }));
  const here = known.find((each) => each.size === at);
  const over = here && row.limit !== null && here.value > row.limit;
  return s(
    "g",
    { "data-row": row.name },
    s("text", { x: EDGE, y: top + 11 }, row.name),
    here
      ? s(
          "text",
          { x: WIDTH - EDGE, y: top + 11, "text-anchor": "end", class: over ? "mlb-sizes-over" : "mlb-sizes-now" },
          row.text(here.value),
        )
      : [],
    near === null
      ? []
      : [
          s("path", { class: "mlb-sizes-limit", d: `M${EDGE} ${y(near)}H${WIDTH - EDGE}` }),
          s("text", { x: WIDTH / 2, y: top + 11, "text-anchor": "middle" }, `- - device memory ${bytes(near)}`),
        ],
    s("path", { class: "mlb-sizes-line", d: line || "M0 0" }),
    known.map(({ size, value }) =>
      s("circle", { key: size, class: "mlb-sizes-point", "data-size": size, cx: x(size), cy: y(value), r: 2 }),
    ),
    dot(curve?.present, "mlb-sizes-present", 4),
    dot(at, "mlb-sizes-look", 5),
  );
}
