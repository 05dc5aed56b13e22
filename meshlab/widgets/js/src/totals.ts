/**
 * The totals of the layout on the board: the step's time, and what each device holds, sends and computes. Each has a
 * caption, which explains it; its value; and below that what a drop would make of it, or its change since the baseline
 * (`baseline.ts`).
 *
 *     a step, estimated   a step, calibrated   tokens/s per device     each device holds …  each device sends
 *     1.92 s              2.35 s               4,267                   21.0 of 96.0 GB     44.6 GB
 *     30× faster          2.1 to 2.66 s        524,288 a step         −246 GB             +44.6 GB
 */
import { againstBaseline, type Change, type Changes } from "./baseline.ts";
import { h } from "./dom.ts";
import { bytes, exact, percent, seconds } from "./format.ts";
import { predicted } from "./model.ts";
import type { Priced } from "./prices.ts";
import { TERMS } from "./terms.ts";
import type { Time, View } from "./types.ts";

type Figure = {
  key: string;
  caption: string;
  hint: string;
  value: string;
  rest?: (Node | string | null | false)[];
  /** Below the value where no drop is aimed at: its change since the baseline, or a text. */
  change?: Change;
  below?: string;
  /** What a drop would make of it. */
  after?: string;
  bad?: boolean;
};

/** @param price of the drop that is aimed at */
export function drawTotals(view: View, price?: Priced): HTMLElement[] {
  const changes = againstBaseline(view);
  const time = predicted(view.time);
  const figures = [
    ...(time ? stepFigures(time, changes, price) : []),
    holdsFigure(view, changes, price),
    sendsFigure(view, changes, price),
    computesFigure(view, changes, price),
  ];
  return figures.map((figure) => drawTotal(figure, view.pending && COSTS.includes(figure.key)));
}

/** What is worked out after the plan: until then its value is that of the layout before. */
const COSTS = ["step", "expected", "rate", "peak"];

function drawTotal(figure: Figure, stale: boolean): HTMLElement {
  const { key, caption, hint, value, rest = [], bad = false } = figure;
  const term = { type: "button", class: "mlb-term", "data-hint": hint };
  return h(
    "div",
    { key, class: `mlb-total ${bad ? "mlb-over" : ""} ${stale ? "mlb-stale-total" : ""}`, "data-total": key },
    h("div", { class: "mlb-total-caption" }, h("button", term, caption)),
    h(
      "div",
      { class: "mlb-total-line" },
      h("span", { class: "mlb-total-value" }, value, stale && " …"),
      stale ? [] : rest.map((each) => each && h("span", { class: "mlb-total-rest" }, each)),
    ),
    h("div", { class: "mlb-total-below" }, stale ? "being worked out" : drawBelow(figure)),
  );
}

function drawBelow({ key, after, change, below }: Figure): Node | string | null {
  if (after) return h("span", { class: "mlb-after" }, `→ ${after}`);
  if (!change?.text) return below ?? null;
  // More is sent for what it buys: that is its price, and no fault.
  const more = key === "sends" ? "mlb-cost" : "mlb-more";
  const mood = change.sign > 0 ? more : "mlb-less";
  return h("span", { class: `mlb-change ${mood}` }, `${change.sign > 0 ? "▲" : "▼"} ${change.text}`);
}

function stepFigures(time: Time, changes: Changes | null, price?: Priced): Figure[] {
  const { texts, expected } = time;
  const within =
    `Predicted: between ${texts.lower}, if all communication that can overlap does, and ${texts.upper}, if none does. ` +
    `${time.limit.text} ${time.use}`;
  const step: Figure = {
    key: "step",
    caption: "a step, estimated",
    hint: within.trim(),
    value: texts.estimate,
    change: changes?.step,
    after: price && !price.refused && price.seconds !== null ? seconds(price.seconds) : "",
  };
  if (!expected) return [step, ...rateFigures(time)];
  const hint = `What published steps on this machine make of the estimate: ${expected.said}.`;
  const { text: value, between: below } = expected;
  return [step, { key: "expected", caption: "a step, calibrated", hint, value, below }, ...rateFigures(time)];
}

/** What a device gets through in a second of the estimated step: by it steps of other batches compare. */
function rateFigures({ rate }: Time): Figure[] {
  if (!rate) return [];
  const hint = "Throughput by the estimated step. A larger batch takes a longer step: compare batches by this.";
  return [{ key: "rate", caption: rate.unit, hint, value: rate.text, below: rate.step }];
}

/** The predicted peak against what a device has; without a machine the exact bytes of the arguments. */
function holdsFigure(view: View, changes: Changes | null, price?: Priced): Figure {
  const { peak_memory: peak, memory } = view;
  if (!peak) {
    const hint = `The arguments of a step on one device: exactly ${exact(memory.arguments)} bytes. With a machine the peak of all that is in memory is predicted.`;
    const change = price ? undefined : changes?.arguments;
    return {
      key: "arguments",
      caption: "each device holds",
      hint,
      value: bytes(memory.arguments),
      rest: ["of arguments"],
      change,
    };
  }
  return {
    key: "peak",
    caption: "each device holds at its peak",
    hint: `${TERMS["peak memory"]} ${peak.text}`,
    value: bytes(peak.bytes),
    rest: [`of ${bytes(peak.limit)}`, peak.fits ? "fits" : "✕ does not fit"],
    change: changes?.peak,
    after: price && !price.refused && price.peak !== null ? bytes(price.peak) : "",
    bad: !peak.fits,
  };
}

function sendsFigure({ communication: { total } }: View, changes: Changes | null, price?: Priced): Figure {
  return {
    key: "sends",
    caption: "each device sends",
    hint:
      `Exactly ${exact(total)} bytes in a step, on the wire: an all-reduce among n devices sends 2 (n − 1) / n of its ` +
      "payload. Traffic lists all collectives.",
    value: bytes(total),
    change: changes?.sends,
    after: price && !price.refused ? bytes(price.bytes) : "",
  };
}

function computesFigure({ work, lost, mesh }: View, changes: Changes | null, price?: Priced): Figure {
  const why = lost && ` Parallelism is lost at ${lost}: what follows is replicated.`;
  const warning = lost && h("span", { class: "mlb-lost", title: why.trim() }, `⚠ lost at ${lost}`);
  return {
    key: "work",
    caption: "each device computes",
    hint:
      "The share of a step's matmul FLOPs that one device computes: 100% where nothing is sharded, " +
      `${percent(1 / mesh.size)} at best.${why}`,
    value: percent(work),
    rest: [warning || "of the FLOPs"],
    change: changes?.work,
    after: price && !price.refused && price.work !== work ? percent(price.work) : "",
  };
}
