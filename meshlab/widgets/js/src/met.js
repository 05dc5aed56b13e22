// @ts-check
/**
 * The layouts that Auto's search has met, as crosses among the dots of those that were tried (`views/reasons.met_view`). A
 * click looks at one: what it takes stands below, beside a button that puts it on the board. By keyboard the drawing is a
 * slider from the fastest on; Enter puts the layout that is looked at on the board.
 */
import { h, s } from "./dom.js";
import { bytes, exact, seconds } from "./format.js";
import { takeButton } from "./search.js";
import { SLIDER_KEYS } from "./slider.js";

/**
 * @typedef {import("./board.js").Board} Board
 * @typedef {import("./types.js").Taken} Taken
 * @typedef {Taken & {seconds: number, peak: number, fits: boolean}} Met
 */

const NONE = Object.freeze({ layouts: [], count: 0 });

/**
 * @param {Board} board
 * @returns {{layouts: Met[], count: number}} none before a search has met any, and on no machine
 */
export function metOf(board) {
  if (!board.view.search?.reasons) return NONE;
  return board.reads.of("met").data ?? NONE;
}

/**
 * The one that is looked at; of none that there is, none.
 * @param {Board} board
 * @param {Met[]} layouts
 * @returns {number} -1 for none
 */
function lookedAt(board, layouts) {
  return layouts.findIndex(({ layout }) => layout === board.chosen.met);
}

/**
 * @param {Board} board
 * @param {Met} met
 */
function look(board, { layout }) {
  if (board.chosen.met === layout) return;
  board.chosen.met = layout;
  board.stage.answered("met");
}

/**
 * What a layout takes, in words.
 * @param {Met} met
 * @returns {string}
 */
export function takesText({ seconds: step, peak, fits }) {
  return `${seconds(step)}, peak ${bytes(peak)}${fits ? "" : ", does not fit"}`;
}

/**
 * @param {Board} board
 * @param {Met} met
 * @param {number} x
 * @param {number} y
 * @param {boolean} best whether it is on the front
 * @returns {SVGElement}
 */
export function drawCross(board, met, x, y, best) {
  const size = best ? 4.5 : 3;
  const looked = met.layout === board.chosen.met;
  const d = `M${x - size} ${y - size}l${2 * size} ${2 * size}m0 ${-2 * size}l${-2 * size} ${2 * size}`;
  const kind = `${best ? "mlb-met-front" : ""} ${met.fits ? "" : "mlb-met-over"} ${looked ? "mlb-met-looked" : ""}`;
  return s(
    "g",
    { class: `mlb-met ${kind}`, "data-met": met.layout, onclick: () => look(board, met) },
    s("title", {}, `${met.layout || "no layout"}: ${takesText(met)}${best ? BEST : ""}`),
    s("circle", { cx: x, cy: y, r: 6 }),
    s("path", { d }),
  );
}

const [BEST, NOTHING] = [", on the Pareto front", "none is looked at"];

/**
 * The crosses for the keyboard, the fastest first.
 * @param {Board} board
 * @param {Met[]} layouts
 * @param {Set<Met>} best those on the front
 * @returns {HTMLElement}
 */
export function drawMetSlider(board, layouts, best) {
  const at = lookedAt(board, layouts);
  const met = layouts[at];
  const slider = h("div", {
    class: "mlb-met-slider",
    role: "slider",
    tabindex: "0",
    "data-key": "met",
    "aria-label": "layouts that the search has evaluated, the fastest first; Enter puts one on the board",
    "aria-valuemin": 0,
    "aria-valuemax": layouts.length,
    "aria-valuenow": at + 1,
    "aria-valuetext": met ? `${met.layout || "no layout"}: ${takesText(met)}${best.has(met) ? BEST : ""}` : NOTHING,
  });
  slider.addEventListener("keydown", (event) => {
    if (event.key === "Enter" && met?.load) board.send(met.load.op, met.load.args);
    else if (event.key in SLIDER_KEYS) {
      look(board, layouts[Math.max(0, Math.min(layouts.length - 1, at + SLIDER_KEYS[event.key]))]);
    } else return;
    event.preventDefault();
    event.stopPropagation();
  });
  return slider;
}

/**
 * What is looked at, and how it is put on the board.
 * @param {Board} board
 * @param {Met[]} layouts
 * @returns {HTMLElement}
 */
export function drawLooked(board, layouts) {
  const met = layouts[lookedAt(board, layouts)];
  if (!met) return h("p", { class: "mlb-looked mlb-none" }, "Click a cross, or use arrow keys: what it takes.");
  const name = met.layout || "no layout";
  return h(
    "div",
    { class: "mlb-looked" },
    h("b", {}, takesText(met)),
    h("code", { title: name }, name),
    takeButton(board, "met:take", "Use it", met, `put ${name} on the board`),
  );
}

/**
 * What the marks mean.
 * @param {number} count how many layouts the search has met
 * @param {number} shown how many of them are drawn
 * @returns {HTMLElement}
 */
export function drawKey(count, shown) {
  const mark = (/** @type {string} */ name, /** @type {string} */ tag, /** @type {Record<string, unknown>} */ shape) =>
    s("svg", { width: 12, height: 12, viewBox: "0 0 12 12", "aria-hidden": "true", class: name }, s(tag, shape));
  const of = shown < count ? `${exact(shown)} of ${exact(count)}` : exact(count);
  return h(
    "p",
    { class: "mlb-scatter-key" },
    h("span", {}, mark("mlb-dot", "circle", { cx: 6, cy: 6, r: 4 }), " tried"),
    h("span", {}, mark("mlb-met", "path", { d: "M3 3l6 6m0-6l-6 6" }), ` ${of} evaluated by the search`),
    h("span", {}, mark("mlb-key-front", "path", { d: "M1 2V6H6V10H11" }), " Pareto front"),
  );
}
