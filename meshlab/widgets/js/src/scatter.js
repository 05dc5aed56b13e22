// @ts-check
/**
 * The layouts that were tried as dots: the step across, the peak up; without a machine the work of a device and the bytes it sends.
 * The line is the Pareto front: no layout is better in both. Dots are for the mouse; the rows of the table stand for them.
 */
import { h, s } from "./dom.js";
import { bytes, percent, seconds } from "./format.js";

/**
 * @typedef {import("./types.js").Card} Card
 * @typedef {import("./types.js").View} View
 * @typedef {import("./board.js").Board} Board
 * @typedef {{x: number, y: number}} Point
 * @typedef {{at: (value: number) => number, ticks: number[]}} Scale
 * @typedef {{card: Card, x: number, y: number}} Dot
 */

const [WIDTH, HEIGHT] = [300, 160];
const FRAME = { left: 48, right: 296, top: 16, bottom: 132 };
// From this ratio of the largest to the smallest on, a scale is logarithmic.
const WIDE = 8;

/**
 * The points that no other is better than in both, from left to right; of equal ones the first.
 * @template {Point} P
 * @param {P[]} points
 * @returns {P[]}
 */
export function pareto(points) {
  const front = [];
  let lowest = Infinity;
  for (const point of [...points].sort((one, other) => one.x - other.x || one.y - other.y)) {
    if (point.y < lowest) front.push(point);
    lowest = Math.min(lowest, point.y);
  }
  return front;
}

/**
 * A scale from 0 to 1 with room at both ends, and three or four values to write beside it.
 * @param {number[]} values
 * @returns {Scale}
 */
export function scaleOf(values) {
  const [least, most] = [Math.min(...values), Math.max(...values)];
  const wide = least > 0 && most / least > WIDE;
  const bend = wide ? Math.log10 : (/** @type {number} */ value) => value;
  const [begin, end] = [bend(least), bend(most)];
  const room = 0.1 * (end - begin) || 0.1 * Math.abs(end) || 1;
  const [low, high] = [wide ? begin - room : Math.max(0, begin - room), end + room];
  const at = (/** @type {number} */ value) => (bend(value) - low) / (high - low);
  return { at, ticks: (wide ? powers(low, high) : steps(low, high)).filter((tick) => at(tick) >= 0 && at(tick) <= 1) };
}

/**
 * @param {number} low
 * @param {number} high
 * @returns {number[]} round values from low to high
 */
function steps(low, high) {
  const unit = 10 ** Math.floor(Math.log10((high - low) / 3));
  const step = unit * ([1, 2, 5, 10].find((each) => (high - low) / (unit * each) <= 4) ?? 10);
  const first = Math.ceil(low / step);
  return Array.from({ length: Math.floor(high / step) - first + 1 }, (_, i) => (first + i) * step);
}

/**
 * @param {number} low exponent of ten
 * @param {number} high
 * @returns {number[]} powers of ten; where there are few, 2 and 5 times them too
 */
function powers(low, high) {
  const first = Math.floor(low);
  const stride = Math.max(1, Math.ceil((high - low) / 4));
  const tens = Array.from({ length: Math.ceil(high) - first + 1 }, (_, i) => first + i);
  const chosen = tens.filter((power) => power % stride === 0);
  return chosen.flatMap((power) => (high - low < 2 ? [1, 2, 5] : [1]).map((each) => each * 10 ** power));
}

/**
 * What each layout is measured by: on a machine its step and its peak, without one its work and its bytes.
 * @param {View} view
 * @returns {Dot[]} of those whose totals are known
 */
export function dotsOf(view) {
  const { cards } = view.comparison;
  const timed = view.machine.on !== "";
  return cards.flatMap((card) => {
    const { totals } = card;
    if (!totals || (timed && (totals.seconds === null || totals.peak === null))) return [];
    const [x, y] = timed ? [totals.seconds, totals.peak] : [totals.work, totals.bytes];
    return [{ card, x: Number(x), y: Number(y) }];
  });
}

/**
 * @param {Board} board
 * @returns {HTMLElement}
 */
export function drawScatter(board) {
  const { view } = board;
  const dots = dotsOf(view);
  const timed = view.machine.on !== "";
  if (dots.length < 2) {
    const axes = timed ? "its step and its peak" : "what a device computes and what it sends";
    return h("p", { class: "mlb-none" }, `Every layout that is tried becomes a row below, and a dot here: ${axes}.`);
  }
  const { limit } = view.comparison;
  const highest = Math.max(...dots.map((dot) => dot.y));
  const line = timed && limit !== null && limit < 3 * highest ? [limit] : [];
  const [across, up] = [scaleOf(dots.map((dot) => dot.x)), scaleOf([...dots.map((dot) => dot.y), ...line])];
  const x = (/** @type {number} */ value) => FRAME.left + across.at(value) * (FRAME.right - FRAME.left);
  const y = (/** @type {number} */ value) => FRAME.bottom - up.at(value) * (FRAME.bottom - FRAME.top);
  const near = dots.filter((dot) => line.some((each) => Math.abs(y(dot.y) - y(each) + 6) < 14)).map((dot) => x(dot.x));
  // The capacity is written where no dot is.
  const aside = near.some((each) => each > FRAME.right - 130) ? FRAME.left + 5 : FRAME.right;
  const front = pareto(dots);
  const names = front.map((dot) => dot.card.name).join("; ");
  const [over, under] = timed ? ["step", "peak"] : ["computes", "sends"];
  const label = `${over} and ${under} of ${dots.length} layouts. None is better in both than: ${names}.`;
  const stairs = front.map((dot, i) => (i ? `H${x(dot.x)}V${y(dot.y)}` : `M${x(dot.x)} ${y(dot.y)}`)).join("");
  return h(
    "figure",
    { class: "mlb-scatter" },
    s(
      "svg",
      { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, role: "img", "aria-label": label },
      s("path", { class: "mlb-scatter-frame", d: `M${FRAME.left} ${FRAME.top}V${FRAME.bottom}H${FRAME.right}` }),
      across.ticks.map((tick) => text(x(tick), FRAME.bottom + 13, "middle", (timed ? seconds : percent)(tick))),
      up.ticks.map((tick) => text(FRAME.left - 5, y(tick) + 4, "end", bytes(tick))),
      text(FRAME.right, FRAME.bottom + 25, "end", `${over} →`),
      text(FRAME.left - 5, FRAME.top - 6, "end", `${under} ↑`),
      line.map((each) => s("path", { class: "mlb-scatter-limit", d: `M${FRAME.left} ${y(each)}H${FRAME.right}` })),
      line.map((each) =>
        text(aside, y(each) - 4, aside === FRAME.right ? "end" : "start", `a device has ${bytes(each)}`),
      ),
      s("path", { class: "mlb-scatter-front", d: stairs }),
      dots.map((dot) => drawDot(board, dot, x(dot.x), y(dot.y))),
      labels(
        dots.map((dot) => ({ dot, x: x(dot.x), y: y(dot.y) })),
        line.map((each) => [aside === FRAME.right ? aside - 130 : aside, y(each) - 14]),
      ),
    ),
  );
}

/**
 * @param {number} x
 * @param {number} y
 * @param {string} anchor
 * @param {string} words
 * @param {string} [mark] its class
 * @returns {SVGElement}
 */
function text(x, y, anchor, words, mark) {
  return s("text", { x: x.toFixed(1), y: y.toFixed(1), "text-anchor": anchor, class: mark }, words);
}

/**
 * @param {Board} board
 * @param {Dot} dot
 * @param {number} x
 * @param {number} y
 * @returns {SVGElement}
 */
function drawDot(board, { card }, x, y) {
  const kind = card.now ? "mlb-dot-now" : card.totals?.fits === false ? "mlb-dot-over" : "";
  const size = card.now ? 6 : 4.5;
  const diamond = `M${x} ${y - size - 1.5}l${size + 1.5} ${size + 1.5}l${-size - 1.5} ${size + 1.5}l${-size - 1.5} ${-size - 1.5}Z`;
  return s(
    "g",
    { class: `mlb-dot ${kind}`, "data-dot": card.key, onclick: () => board.send(card.load.op, card.load.args) },
    s("title", {}, `${card.name}: ${card.layout || "no layout"}`),
    card.baseline ? s("path", { d: diamond }) : s("circle", { cx: x, cy: y, r: size }),
  );
}

/**
 * The names of the dots, each beside its dot where no other name is; one without room has its title only.
 * @param {{dot: Dot, x: number, y: number}[]} places
 * @param {number[][]} texts upper left corners of what else is written
 * @returns {SVGElement[]}
 */
function labels(places, texts) {
  /** @type {number[][]} */
  const taken = [
    ...texts.map(([left, top]) => [left, top, left + 130, top + 14]),
    ...places.map(({ x, y }) => [x - 5, y - 5, x + 5, y + 5]),
  ];
  const first = (/** @type {Card} */ card) => Number(card.now) + Number(card.baseline);
  const order = [...places].sort((one, other) => first(other.dot.card) - first(one.dot.card));
  return order.flatMap(({ dot, x, y }) => {
    const long = 6.2 * dot.card.name.length;
    /** @type {[number, number, string][]} */
    const tries = [
      [x + 9, y + 4, "start"],
      [x - 9, y + 4, "end"],
      [x, y - 9, "middle"],
      [x, y + 17, "middle"],
    ];
    for (const [left, base, anchor] of tries) {
      const begin = anchor === "start" ? left : anchor === "end" ? left - long : left - long / 2;
      const box = [begin, base - 10, begin + long, base + 2];
      const inside = box[0] > FRAME.left && box[2] < WIDTH && box[1] > 0 && box[3] < FRAME.bottom;
      if (!inside || taken.some((other) => meet(box, other))) continue;
      taken.push(box);
      return [text(left, base, anchor, dot.card.name, dot.card.now ? "mlb-dot-name" : "")];
    }
    return [];
  });
}

/**
 * @param {number[]} one
 * @param {number[]} other
 * @returns {boolean} whether two boxes overlap
 */
function meet([left, top, right, bottom], other) {
  return left < other[2] && other[0] < right && top < other[3] && other[1] < bottom;
}
