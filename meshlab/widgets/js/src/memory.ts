/**
 * Memory of one device: its peak against its capacity, and the exact bytes of arguments and outputs. Bars stay on one scale
 * from layout to layout, so that these compare by eye: that of the device's memory, or else of the largest seen so far.
 */

import { barRow, solid } from "./bars.ts";
import type { Board } from "./board.ts";
import { drawNoChart } from "./charts.ts";
import { memoryRows } from "./differences.ts";
import { disclosure, drawAccuracy } from "./disclosure.ts";
import { h, prose } from "./dom.ts";
import { bytes, exact } from "./format.ts";
import { badge } from "./hint.ts";
import { mark, sourceOf } from "./machine.ts";
import { isPending } from "./model.ts";
import { canAsk, drawMoments, momentOf } from "./moments.ts";
import { spot } from "./spots.ts";
import type { Drawing } from "./stage.ts";
import { drawStages } from "./stages.ts";
import type { Alive, PeakMemory, View } from "./types.ts";

export function drawMemory(board: Board): (HTMLElement | null)[] {
  const { peak_memory: peak, pending } = board.view;
  const stored = drawStored(board);
  if (!peak)
    return [pending ? h("p", { class: "mlb-none" }, "The peak is being worked out …") : drawUnknown(board), ...stored];
  return [
    drawVerdict(board.view, peak),
    peak.because ? h("p", { class: "mlb-because" }, prose(peak.because)) : null,
    drawParts(peak, scaleOf(board.view, peak)),
    ...drawStages(peak),
    peak.note ? h("p", { class: "mlb-foot" }, prose(peak.note)) : null,
    spot("moments", () => [board.can("library") ? drawMoments(board, peak) : drawNoChart("The memory over the step")]),
    canAsk(board)
      ? spot("alive", () => [drawAliveAt(board, peak)])
      : disclosure(board, "alive", "Live values at the peak", [drawAlive(peak)]),
    disclosure(board, "stored", "Arguments and outputs, exactly", stored),
    drawAccuracy(board, "memory", peak.accuracy),
  ];
}

/** What a machine would add, where none is chosen; or why its peak could not be predicted. */
function drawUnknown(board: Board): HTMLElement | null {
  const { machine, time } = board.view;
  if (machine.on) return time && "missing" in time ? h("p", { class: "mlb-error" }, "✕ ", prose(time.missing)) : null;
  const known = "Without a machine the arguments and outputs of a step are known, which are exact.";
  if (!board.can("on")) return h("p", { class: "mlb-none" }, known);
  const choose = () => (board.panels.header.querySelector("select") as HTMLElement | null)?.focus();
  return h(
    "p",
    { class: "mlb-none" },
    `${known} Choose a machine to see activations, gradients and the peak. `,
    h(
      "button",
      { type: "button", class: "mlb-button", "data-op": "choose-machine", onclick: choose },
      "Choose a machine",
    ),
  );
}

/** By the stage, the bytes of the largest argument or output of its program that was seen there. */
const largest = new WeakMap<object, { title: string; most: number }>();

function largestOf({ stage, view }: Board): number {
  const before = largest.get(stage);
  const known = before?.title === view.title ? before.most : 1;
  const most = Math.max(known, ...view.memory.parts.map((part) => part.bytes));
  largest.set(stage, { title: view.title, most });
  return most;
}

/** Arguments and outputs. */
function drawStored(board: Board): HTMLElement[] {
  const { parts, arguments: inputs, outputs } = board.view.memory;
  const most = largestOf(board);
  const list = (output: boolean): HTMLElement =>
    h(
      "ul",
      { class: "mlb-bars" },
      parts
        .filter((part) => part.output === output)
        .map((part) => {
          const bar = solid(output ? "mlb-output" : "mlb-argument", part.bytes, most);
          return barRow(h("code", {}, part.name), bar, part.bytes, { "data-part": part.name });
        }),
    );
  return [
    h("h4", {}, `arguments: ${bytes(inputs)}`),
    list(false),
    h("h4", {}, `outputs: ${bytes(outputs)}`),
    list(true),
    h("p", { class: "mlb-foot" }, `Exact bytes on one device. A full bar is the largest seen so far, ${bytes(most)}.`),
  ];
}

// A peak of less than this share of the capacity would leave its parts no bars on the same scale.
const SEEN = 0.1;

/** The bytes of a bar of full width: all that a device holds, or the largest peak that was tried where that is much less. */
function scaleOf({ comparison }: View, peak: PeakMemory): number {
  const most = Math.max(1, peak.bytes, ...comparison.cards.map(({ totals }) => totals?.peak ?? 0));
  return most < SEEN * peak.limit ? most : peak.limit;
}

/** Whether the peak fits, in words. */
function drawVerdict(view: View, peak: PeakMemory): HTMLElement {
  const predicted = `Predicted for ${view.machine.title}; nothing was run.`;
  return h(
    "div",
    { class: "mlb-verdict", "data-fits": String(peak.fits) },
    h(
      "p",
      { title: limitOf(peak) },
      peak.fits ? "✓ " : "✕ ",
      prose(`${peak.text} `),
      badge("estimated", predicted),
      " ",
      mark([{ ...peak, text: "capacity of a device" }]),
    ),
  );
}

function limitOf(peak: PeakMemory): string {
  return `capacity of a device: ${exact(peak.limit)} bytes: ${sourceOf(peak)}`;
}

/** The peak as a bar on the scale of its parts, cut where it is more; and on it what a device holds, if that is on it. */
function drawMeter(peak: PeakMemory, scale: number): HTMLElement {
  return h(
    "div",
    { class: "mlb-meter", "aria-hidden": "true", title: limitOf(peak), "data-fits": String(peak.fits) },
    h("span", { class: "mlb-meter-used", style: `width:${(100 * peak.bytes) / scale}%` }),
    peak.limit <= scale && h("span", { class: "mlb-meter-limit", style: `left:${(100 * peak.limit) / scale}%` }),
  );
}

/** The bytes at the peak, by role. */
function drawParts(peak: PeakMemory, scale: number): HTMLElement {
  const rows = peak.parts.map((part) =>
    barRow(part.name, solid("mlb-argument", part.bytes, scale), part.bytes, { "data-role": part.name }),
  );
  const whole = barRow(h("b", {}, "peak"), drawMeter(peak, scale), peak.bytes, { "data-role": "peak" });
  const capacity = `a device's capacity, ${bytes(peak.limit)}`;
  const beyond = peak.bytes > scale ? "; what is more is cut" : "";
  const what =
    scale === peak.limit ? capacity + beyond : `the largest peak so far, ${bytes(scale)}, of ${bytes(peak.limit)}`;
  return h(
    "div",
    {},
    h("ul", { class: "mlb-bars", "data-chart": "peak" }, whole, rows),
    h("p", { class: "mlb-foot mlb-bar-scale" }, `A full bar is ${what}.`),
  );
}

/** One value that is in memory. */
function drawValue(each: Alive): HTMLElement {
  const axes = each.dims.map((dim, i) => `${dim} ${exact(each.shape[i])}`).join(" · ");
  return h(
    "li",
    {},
    h("b", { title: `${exact(each.bytes)} bytes` }, bytes(each.bytes)),
    ` ${each.name} `,
    h("span", { class: "mlb-alive-axes" }, `${each.dtype}${axes ? ` [${axes}]` : ""}, ${each.role} `),
    each.source && h("code", {}, each.source),
  );
}

function listed(rows: (HTMLElement | null | false)[], label: string): HTMLElement {
  const scrolls = { tabindex: "0", role: "list", "aria-label": label };
  return h("ul", { class: "mlb-figures mlb-alive", ...scrolls }, rows);
}

/** The largest values in memory at the peak. */
function drawAlive(peak: PeakMemory): HTMLElement {
  const more = peak.left_out ? h("li", {}, `and ${exact(peak.left_out)} smaller ones`) : null;
  return listed([...peak.alive.map(drawValue), more], "live values, largest first");
}

/** What is in memory at the moment that is chosen; it adds up to the bytes there. */
function drawAliveAt(board: Board, peak: PeakMemory): HTMLElement | null {
  const { data, error, fresh } = board.reads.of("alive", { step: momentOf(board, peak) });
  if (error) return h("p", { class: "mlb-error" }, `✕ ${error}`);
  if (!data || data.bytes === null) return h("p", { class: "mlb-none" }, "The list is being worked out …");
  const source = data.source ? h("code", {}, data.source) : null;
  const head = h("h4", {}, `live at operation ${exact(data.step)}, ${data.name} `, source, `: ${bytes(data.bytes)}`);
  const plain = (count: number, text: string) =>
    count > 0 && h("li", {}, h("b", { title: `${exact(count)} bytes` }, bytes(count)), ` ${text}`);
  const rows = [
    ...data.values.map(drawValue),
    plain(data.left_bytes, `in ${exact(data.left_out)} smaller ones`),
    plain(data.padding, "alignment in the heap, address tables, constants"),
    h(
      "li",
      { class: "mlb-alive-sum" },
      h("b", { title: `${exact(data.bytes)} bytes` }, bytes(data.bytes)),
      " in total",
    ),
  ];
  const label = `live values at operation ${data.step}, largest first`;
  return h(
    "div",
    { class: "mlb-alive-at", "data-step": data.step, "data-fresh": String(fresh) },
    head,
    listed(rows, label),
  );
}

export const panel: Drawing = { draw: drawMemory, rows: memoryRows, busy: isPending };
