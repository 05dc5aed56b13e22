// @ts-check
/**
 * The roofline: groups of kernels as dots, operations per byte across, operations per second up, both logarithmic, under
 * what the machine's matrix units and memory let them reach. A dot's area is its time. The table has the same numbers.
 */
import { disclosure } from "./disclosure.js";
import { h, s } from "./dom.js";
import { exact, flops, seconds, threeDigits } from "./format.js";

/**
 * @typedef {import("./board.js").Board} Board
 * @typedef {{
 *   name: string, dims: string[], source: string, dtype: string, count: number, seconds: number, flops: number,
 *   bytes: number, intensity: number | null, rate: number, bound: string
 * }} Dot
 * @typedef {{
 *   dots: Dot[] | null, left_out: number, left_seconds: number, roofs: {dtype: string, peak: number}[],
 *   bandwidth: number, compute: number
 * }} Roofline
 */

const [WIDTH, HEIGHT] = [576, 270];
// The radius of the largest dot: names of roofs stand above it.
const REACH = 16;
const FRAME = { left: 92, right: 548, top: 16, bottom: 226 };

/**
 * Powers of ten around values.
 * @param {number[]} values
 * @returns {[number, number]} exponents
 */
export function decades(values) {
  const logs = values.map(Math.log10);
  return [Math.floor(Math.min(...logs) - 0.2), Math.ceil(Math.max(...logs) + 0.15)];
}

/**
 * @param {Dot} dot
 * @returns {string}
 */
function titleOf({ name, dims, source, count, seconds: time, intensity, rate, bound }) {
  const of = dims.length ? ` [${dims.join(" ")}]` : "";
  const where = source ? `, ${source}` : "";
  const at = intensity === null ? "no matmul" : `${threeDigits(intensity)} FLOP/B, ${flops(rate)}`;
  return `${name}${of}${where}: ${seconds(time)} in ${exact(count)}, ${at}, ${bound}-bound`;
}

/**
 * @param {Board} board
 * @returns {(Node | null | false)[]}
 */
export function drawRoofline(board) {
  const { time } = board.view;
  if (!time || time.missing) return [];
  const title = h("h4", {}, "roofline");
  const { data, error, fresh } = board.reads.of("roofline");
  if (error) return [title, h("p", { class: "mlb-error" }, `✕ ${error}`)];
  if (!data) return board.readOnly ? [] : [title, h("p", { class: "mlb-none" }, "The roofline is being worked out …")];
  const { dots } = /** @type {Roofline} */ (data);
  if (!dots?.length) return [];
  return [title, h("div", { class: "mlb-roofline", "data-fresh": String(fresh) }, drawChart(board, data))];
}

/**
 * @param {Board} board
 * @param {Roofline} data
 * @returns {(Node | null)[]}
 */
function drawChart(board, data) {
  const dots = data.dots ?? [];
  const timed = dots.filter((dot) => dot.intensity !== null);
  const rest = dots.filter((dot) => dot.intensity === null).reduce((sum, dot) => sum + dot.seconds, data.left_seconds);
  const note = rest ? ` Kernels without matmuls have no place here; they take ${seconds(rest)}.` : "";
  const text = `Area is time; filled dots are compute-bound, hollow ones wait for memory or their launch.${note}`;
  return [
    timed.length > 0 && data.roofs.length > 0 ? drawDots(timed, data) : null,
    h("p", { class: "mlb-foot" }, timed.length ? text : `No kernel multiplies: all ${seconds(rest)} wait for memory.`),
    disclosure(board, "kernels", "Kernels, by their time", [drawTable(dots, data)]),
  ];
}

/**
 * @param {Dot[]} dots
 * @param {Roofline} data
 * @returns {SVGElement}
 */
function drawDots(dots, { roofs, bandwidth }) {
  const peaks = roofs.map((roof) => roof.peak);
  const [low, high] = decades([...dots.map((dot) => Number(dot.intensity)), ...peaks.map((peak) => peak / bandwidth)]);
  const [least, most] = decades([...dots.map((dot) => dot.rate), ...peaks]);
  const x = (/** @type {number} */ value) =>
    FRAME.left + ((Math.log10(value) - low) / (high - low)) * (FRAME.right - FRAME.left);
  const y = (/** @type {number} */ value) =>
    FRAME.bottom - ((Math.log10(value) - least) / (most - least)) * (FRAME.bottom - FRAME.top);
  const longest = Math.max(...dots.map((dot) => dot.seconds));
  const every = (/** @type {number} */ from, /** @type {number} */ to, /** @type {number} */ few) =>
    Array.from({ length: to - from + 1 }, (_, i) => from + i).filter(
      (n) => (n - from) % Math.ceil((to - from) / few) === 0,
    );
  const across = every(low, high, 6).map((n) => 10 ** n);
  const up = every(least, most, 5).map((n) => 10 ** n);
  const start = Math.max(10 ** low, 10 ** least / bandwidth);
  const label = (
    /** @type {number} */ at,
    /** @type {number} */ top,
    /** @type {string} */ anchor,
    /** @type {string} */ words,
  ) => s("text", { x: at.toFixed(1), y: top.toFixed(1), "text-anchor": anchor }, words);
  const lines = roofs.map(({ peak }) => {
    const ridge = peak / bandwidth;
    return s("path", {
      class: "mlb-roof",
      d: `M${x(start)} ${y(start * bandwidth)}L${x(ridge)} ${y(peak)}H${FRAME.right}`,
    });
  });
  const top = [...roofs].sort((one, other) => other.peak - one.peak);
  return s(
    "svg",
    {
      viewBox: `0 0 ${WIDTH} ${HEIGHT}`,
      role: "img",
      "aria-label": `roofline of ${dots.length} groups of kernels under ${roofs.map((roof) => `${flops(roof.peak)} in ${roof.dtype}`).join(", ")}`,
    },
    s("path", {
      class: "mlb-moment-lines",
      d: [
        ...across.map((n) => `M${x(n)} ${FRAME.top}V${FRAME.bottom}`),
        ...up.map((n) => `M${FRAME.left} ${y(n)}H${FRAME.right}`),
      ].join(""),
    }),
    s("path", { class: "mlb-roof-frame", d: `M${FRAME.left} ${FRAME.top}V${FRAME.bottom}H${FRAME.right}` }),
    across.map((n) => label(x(n), FRAME.bottom + 15, "middle", n >= 1 ? exact(n) : `${n}`)),
    up.map((n) => label(FRAME.left - 6, y(n) + 4, "end", flops(n))),
    label(FRAME.right, FRAME.bottom + 33, "end", "operations per byte of memory traffic (FLOP/B) →"),
    lines,
    top.map(({ dtype, peak }) =>
      label(FRAME.right, Math.max(FRAME.top + 10, y(peak) - REACH - 4), "end", `${flops(peak)} in ${dtype}`),
    ),
    dots.map((dot) => {
      const r = 3 + (REACH - 3) * Math.sqrt(dot.seconds / longest);
      const mark = dot.bound === "compute" ? "mlb-kernel-full" : "mlb-kernel-hollow";
      const at = { cx: x(Number(dot.intensity)).toFixed(1), cy: y(dot.rate).toFixed(1), r: r.toFixed(1) };
      return s("circle", { class: mark, ...at }, s("title", {}, titleOf(dot)));
    }),
  );
}

/**
 * @param {Dot[]} dots
 * @param {Roofline} data
 * @returns {HTMLElement}
 */
function drawTable(dots, { left_out: left, left_seconds: leftSeconds, compute }) {
  const heads = ["kernels", "time", "×", "FLOP/B", "bound by"];
  const rows = dots.map((dot) =>
    h(
      "tr",
      { title: titleOf(dot) },
      h("td", { class: "mlb-kernel-name" }, h("div", {}, `${dot.name} `, h("code", {}, dot.source))),
      h("td", {}, seconds(dot.seconds)),
      h("td", {}, exact(dot.count)),
      h("td", {}, dot.intensity === null ? "–" : threeDigits(dot.intensity)),
      h("td", {}, dot.bound),
    ),
  );
  const more = left ? h("tr", {}, h("td", {}, `${exact(left)} more groups`), h("td", {}, seconds(leftSeconds))) : null;
  const whole = h("tr", {}, h("th", { scope: "row" }, "all kernels"), h("td", {}, seconds(compute)));
  const head = h(
    "thead",
    {},
    h(
      "tr",
      {},
      heads.map((each) => h("th", { scope: "col" }, each)),
    ),
  );
  return h("table", { class: "mlb-table" }, head, h("tbody", {}, rows, more, whole));
}
