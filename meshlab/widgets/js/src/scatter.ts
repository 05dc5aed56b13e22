/**
 * The layouts that were tried as dots: the step across, the peak up; without a machine the work of a device and the bytes
 * it sends. The line is the Pareto front: no layout is better in both. Dots are for the mouse; the rows of the table stand
 * for them. Crosses are layouts that Auto's search has met (`met.ts`).
 */

import { thinned } from "./block_labels.ts";
import type { Board } from "./board.ts";
import { h, s } from "./dom.ts";
import { bytes, percent, seconds } from "./format.ts";

import { drawCross, drawKey, drawLooked, drawMetSlider, metOf } from "./met.ts";
import { EMPTY } from "./model.ts";
import { type Box, boxesAlong, placesOf } from "./places.ts";
import { pareto, type Scale, scaleOf } from "./scales.ts";
import type { Card, Met, View } from "./types.ts";

type Dot = { card: Card; x: number; y: number };
type Cross = { met: Met; x: number; y: number };
/** `written` is where the words at the limit begin. */
type Axes = {
  frame: Frame;
  timed: boolean;
  across: Scale;
  up: Scale;
  x: (value: number) => number;
  y: (value: number) => number;
  limit: number | null;
  written: number;
};

/** The drawing's width in units, as many fewer as type is larger, and within it where the dots are. */
type Frame = { wide: number; left: number; right: number; top: number; bottom: number };
const [WIDTH, HEIGHT] = [400, 174];
const frameOf = (wide: number): Frame => ({ wide, left: 58, right: wide - 16, top: 16, bottom: 142 });
// Room for what is written beside the limit, and for a character.
const [SAID, LETTER] = [142, 7.6];

/**
 * What each layout is measured by: on a machine its step and its peak, without one its work and its bytes.
 * @returns of those whose totals are known
 */
export function dotsOf(view: View): Dot[] {
  const { cards } = view.comparison;
  const timed = view.machine.on !== "";
  return cards.flatMap((card) => {
    const { totals } = card;
    if (!totals || (timed && (totals.seconds === null || totals.peak === null))) return [];
    const [x, y] = timed ? [totals.seconds, totals.peak] : [totals.work, totals.bytes];
    return [{ card, x: Number(x), y: Number(y) }];
  });
}

export function drawScatter(board: Board): HTMLElement {
  const { view } = board;
  const timed = view.machine.on !== "";
  const tried = dotsOf(view);
  const { layouts, count } = metOf(board);
  const known = new Set(tried.filter(({ card }) => !card.mesh).map(({ card }) => card.layout));
  const others = layouts.filter(({ layout }) => !known.has(layout));
  const crosses = others.map((met) => ({ met, x: met.seconds, y: met.peak }));
  if (tried.length + crosses.length < 2) {
    const axes = timed ? "its step and its peak" : "what a device computes and what it sends";
    return h("p", { class: "mlb-none" }, `Every layout that is tried becomes a row below, and a dot here: ${axes}.`);
  }
  const front = pareto([...crosses, ...tried]);
  const axes = axesOf(
    [...crosses, ...tried],
    timed,
    timed ? view.comparison.limit : null,
    frameOf(WIDTH / board.room.scale),
  );
  const drawing = drawAxes(axes, labelOf(timed, tried, crosses, front), [
    s("path", { class: "mlb-scatter-front", d: stairs(front, axes) }),
    crosses.map((each) => drawCross(board, each.met, axes.x(each.x), axes.y(each.y), front.includes(each))),
    tried.map((dot) => drawDot(board, dot, axes.x(dot.x), axes.y(dot.y))),
    labels(
      tried.map((dot) => ({ dot, x: axes.x(dot.x), y: axes.y(dot.y) })),
      takenBy(axes, crosses, front),
      axes.frame,
    ),
  ]);
  const best = new Set(front.flatMap((each) => ("met" in each ? [each.met] : [])));
  const [slider, looked, key] = crosses.length
    ? [drawMetSlider(board, others, best), drawLooked(board, others), drawKey(count, layouts.length)]
    : [];
  return h("figure", { class: "mlb-scatter" }, looked, h("div", { class: "mlb-scatter-box" }, slider, drawing), key);
}

/** The scales of the drawing, with room for the limit of memory where dots are near it. */
function axesOf(points: { x: number; y: number }[], timed: boolean, limit: number | null, frame: Frame): Axes {
  const highest = Math.max(...points.map((point) => point.y));
  const near = limit !== null && limit < 3 * highest ? limit : null;
  const [across, up] = [
    scaleOf(points.map((point) => point.x)),
    scaleOf([...points.map((point) => point.y), ...(near === null ? [] : [near])]),
  ];
  const x = (value: number) => frame.left + across.at(value) * (frame.right - frame.left);
  const y = (value: number) => frame.bottom - up.at(value) * (frame.bottom - frame.top);
  const beside = points.filter((point) => near !== null && Math.abs(y(point.y) - y(near) + 6) < 14);
  const hidden = (at: number) => beside.filter((point) => x(point.x) > at - 6 && x(point.x) < at + SAID + 6).length;
  // Where it hides fewest dots: at the right, the left, or between.
  const ends = [frame.wide - SAID - 4, frame.left + 5, (frame.left + frame.right - SAID) / 2];
  const written = ends.reduce((best, at) => (hidden(at) < hidden(best) ? at : best));
  return { frame, timed, across, up, x, y, limit: near, written };
}

function drawAxes(
  { frame, timed, across, up, x, y, limit, written }: Axes,
  label: string,
  children: (SVGElement | SVGElement[])[],
): SVGElement {
  const steps = across.ticks
    .map((tick) => ({ at: x(tick), text: (timed ? seconds : percent)(tick) }))
    .filter(({ at, text: words }) => at + (LETTER * words.length) / 2 <= frame.wide);
  const [over, under] = timed ? ["step", "peak"] : ["computes", "sends"];
  return s(
    "svg",
    { viewBox: `0 0 ${frame.wide.toFixed(1)} ${HEIGHT}`, role: "img", "aria-label": label },
    s("path", { class: "mlb-scatter-frame", d: `M${frame.left} ${frame.top}V${frame.bottom}H${frame.right}` }),
    thinned(steps, ({ text: words }) => LETTER * words.length).map(({ at, text: words }) =>
      text(at, frame.bottom + 13, at > frame.right - 20 ? "end" : "middle", words),
    ),
    up.ticks.map((tick) => text(frame.left - 5, y(tick) + 4, "end", bytes(tick))),
    text(frame.right, frame.bottom + 28, "end", `${over} →`),
    text(frame.left - 5, frame.top - 6, "end", `${under} ↑`),
    limit === null ? [] : s("path", { class: "mlb-scatter-limit", d: `M${frame.left} ${y(limit)}H${frame.right}` }),
    ...children,
    limit === null ? [] : text(written, y(limit) - 4, "start", `device memory ${bytes(limit)}`),
  );
}

/** Where no name may be: the words at the limit and its line, crosses, and the Pareto front. */
function takenBy({ frame, limit, written, x, y }: Axes, crosses: Cross[], front: { x: number; y: number }[]): Box[] {
  const corners = front.flatMap((point, i) => [
    ...(i ? [[x(point.x), y(front[i - 1].y)]] : []),
    [x(point.x), y(point.y)],
  ]);
  const marks: Box[] = crosses.map((each) => [x(each.x) - 4, y(each.y) - 4, x(each.x) + 4, y(each.y) + 4]);
  const words: Box[] = limit === null ? [] : [[written, y(limit) - 14, written + SAID, y(limit)]];
  const line =
    limit === null
      ? []
      : [
          [frame.left, y(limit)],
          [frame.right, y(limit)],
        ];
  return [...words, ...boxesAlong(line), ...boxesAlong(corners), ...marks];
}

function stairs(front: { x: number; y: number }[], { x, y }: Axes): string {
  return front.map((point, i) => (i ? `H${x(point.x)}V${y(point.y)}` : `M${x(point.x)} ${y(point.y)}`)).join("");
}

function labelOf(timed: boolean, tried: Dot[], crosses: Cross[], front: (Dot | Cross)[]): string {
  const names = front.map((each) => ("card" in each ? each.card.name : each.met.layout || EMPTY)).join("; ");
  const what = timed ? "step and peak" : "computes and sends";
  const met = crosses.length ? ` and of ${crosses.length} that the search has evaluated` : "";
  return `${what} of ${tried.length} layouts${met}. On the Pareto front: ${names}.`;
}

/** @param mark its class */
function text(x: number, y: number, anchor: string, words: string, mark?: string): SVGElement {
  return s("text", { x: x.toFixed(1), y: y.toFixed(1), "text-anchor": anchor, class: mark }, words);
}

function drawDot(board: Board, { card }: Dot, x: number, y: number): SVGElement {
  const kind = card.now ? "mlb-dot-now" : card.totals?.fits === false ? "mlb-dot-over" : "";
  const size = card.now ? 6 : 4.5;
  const diamond = `M${x} ${y - size - 1.5}l${size + 1.5} ${size + 1.5}l${-size - 1.5} ${size + 1.5}l${-size - 1.5} ${-size - 1.5}Z`;
  return s(
    "g",
    {
      key: card.key,
      class: `mlb-dot ${kind}`,
      "data-dot": card.key,
      onclick: () => board.send(card.load.op, card.load.args),
    },
    s("title", {}, `${card.name}: ${card.layout || EMPTY}`),
    card.baseline ? s("path", { d: diamond }) : s("circle", { cx: x, cy: y, r: size }),
  );
}

/**
 * The names of the dots, each where nothing is drawn; one without room has its title only.
 * @param taken what else is drawn
 */
function labels(places: { dot: Dot; x: number; y: number }[], taken: Box[], frame: Frame): SVGElement[] {
  const first = (card: Card) => Number(card.now) + Number(card.baseline);
  const order = [...places].sort((one, other) => first(other.dot.card) - first(one.dot.card));
  const points = order.map(({ dot, x, y }) => ({ x, y, name: dot.card.name, reach: 6 }));
  const own: Box[] = places.map(({ x, y }) => [x - 6, y - 6, x + 6, y + 6]);
  const within: Box = [frame.left + 1, 0, frame.wide - 6, frame.bottom - 1];
  return placesOf(points, [...taken, ...own], within).flatMap((at, i) => {
    if (!at) return [];
    const { card } = order[i].dot;
    const [x1, y1, x2, y2] = at.line ?? [];
    const leader = at.line && s("line", { class: "mlb-dot-leader", x1, y1, x2, y2 });
    const name = text(at.x, at.y, "start", card.name, card.now ? "mlb-dot-name" : "");
    return leader ? [leader, name] : [name];
  });
}
