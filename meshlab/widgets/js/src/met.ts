/**
 * The layouts that Auto's search has met, as crosses among the dots of those that were tried (`views/reasons.met_view`). A
 * click looks at one: what it takes stands below, beside a button that puts it on the board. By keyboard the drawing is a
 * slider from the fastest on; Enter puts the layout that is looked at on the board.
 */

import type { Board } from "./board.ts";
import { h, s } from "./dom.ts";
import { bytes, exact, seconds } from "./format.ts";
import { EMPTY } from "./model.ts";
import { takeButton } from "./search.ts";
import { SLIDER_KEYS } from "./slider.ts";
import type { Met } from "./types.ts";

const NONE: { layouts: Met[]; count: number } = { layouts: [], count: 0 };

/** @returns none before a search has met any, and on no machine */
export function metOf(board: Board): { layouts: Met[]; count: number } {
  if (!board.view.search?.reasons) return NONE;
  return board.reads.of("met").data ?? NONE;
}

/**
 * The one that is looked at; of none that there is, none.
 * @returns -1 for none
 */
function lookedAt(board: Board, layouts: Met[]): number {
  return layouts.findIndex(({ layout }) => layout === board.chosen.met);
}

function look(board: Board, { layout }: Met) {
  if (board.chosen.met === layout) return;
  board.chosen.met = layout;
  board.stage.answered("met");
}

/** What a layout takes, in words. */
export function takesText({ seconds: step, peak, fits }: Met): string {
  return `${seconds(step)}, peak ${bytes(peak)}${fits ? "" : ", does not fit"}`;
}

/** @param best whether it is on the front */
export function drawCross(board: Board, met: Met, x: number, y: number, best: boolean): SVGElement {
  const size = best ? 4.5 : 3;
  const looked = met.layout === board.chosen.met;
  const d = `M${x - size} ${y - size}l${2 * size} ${2 * size}m0 ${-2 * size}l${-2 * size} ${2 * size}`;
  const kind = `${best ? "mlb-met-front" : ""} ${met.fits ? "" : "mlb-met-over"} ${looked ? "mlb-met-looked" : ""}`;
  return s(
    "g",
    { key: met.layout, class: `mlb-met ${kind}`, "data-met": met.layout, onclick: () => look(board, met) },
    s("title", {}, `${met.layout || EMPTY}: ${takesText(met)}${best ? BEST : ""}`),
    s("circle", { cx: x, cy: y, r: 6 }),
    s("path", { d }),
  );
}

const [BEST, NOTHING] = [", on the Pareto front", "none is looked at"];

/**
 * The crosses for the keyboard, the fastest first.
 * @param best those on the front
 */
export function drawMetSlider(board: Board, layouts: Met[], best: Set<Met>): HTMLElement {
  const at = lookedAt(board, layouts);
  const met = layouts[at];
  const turn = (event: KeyboardEvent) => {
    if (event.key === "Enter" && met?.load) board.send(met.load.op, met.load.args);
    else if (event.key in SLIDER_KEYS) {
      look(board, layouts[Math.max(0, Math.min(layouts.length - 1, at + SLIDER_KEYS[event.key]))]);
    } else return;
    event.preventDefault();
    event.stopPropagation();
  };
  return h("div", {
    class: "mlb-met-slider",
    role: "slider",
    tabindex: "0",
    "aria-label": "layouts that the search has evaluated, the fastest first; Enter puts one on the board",
    "aria-valuemin": 0,
    "aria-valuemax": layouts.length,
    "aria-valuenow": at + 1,
    "aria-valuetext": met ? `${met.layout || EMPTY}: ${takesText(met)}${best.has(met) ? BEST : ""}` : NOTHING,
    onkeydown: turn,
  });
}

/** What is looked at, and how it is put on the board. */
export function drawLooked(board: Board, layouts: Met[]): HTMLElement {
  const met = layouts[lookedAt(board, layouts)];
  if (!met) return h("p", { class: "mlb-looked mlb-none" }, "Click a cross, or use arrow keys: what it takes.");
  const name = met.layout || EMPTY;
  return h(
    "div",
    { class: "mlb-looked" },
    h("b", {}, takesText(met)),
    h("code", { title: name }, name),
    takeButton(board, "Use this layout", met, `put ${name} on the board`),
  );
}

/**
 * What the marks mean.
 * @param count how many layouts the search has met
 * @param shown how many of them are drawn
 */
export function drawKey(count: number, shown: number): HTMLElement {
  const mark = (name: string, tag: string, shape: Record<string, unknown>) =>
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
