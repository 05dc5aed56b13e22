/**
 * What each stage of a pipeline needs of the peak, as a bar for each: what it stores, adds up, holds of micro-batches in
 * flight, has received, and computes (`views/peak_memory.py`). Patterns say what is what, and the titles all of it.
 */
import { labelled } from "./bars.ts";
import { h } from "./dom.ts";
import { bytes, exact } from "./format.ts";
import type { PeakMemory, StageBytes } from "./types.ts";

export function drawStages({ stages }: PeakMemory): (HTMLElement | null)[] {
  if (!stages.length) return [];
  const most = Math.max(...stages.map((each) => each.bytes));
  const key = stages[0].parts.map(({ name }, i) =>
    h("span", {}, h("span", { class: `mlb-swatch mlb-share-${i}`, "aria-hidden": "true" }), ` ${name}`),
  );
  const held = stages.map((each) => exact(each.in_flight)).join(", ");
  const same = new Set(stages.map((each) => each.in_flight)).size === 1;
  const flight = same ? `${exact(stages[0].in_flight)} on each stage` : `${held} on stages 0 to ${stages.length - 1}`;
  return [
    h("h4", {}, "the peak of each stage, while its cells run"),
    h(
      "ul",
      { class: "mlb-bars", "data-chart": "stages" },
      stages.map((each) => drawStage(each, most)),
    ),
    h("p", { class: "mlb-foot mlb-shares-key" }, key),
    h(
      "p",
      { class: "mlb-foot" },
      `In flight: ${flight}, of ${bytes(stages[0].kept)} each. All stages run one program, `,
      "so each allocates what the largest needs.",
    ),
  ];
}

/** A stage's bar: its parts in the order of the key. */
function drawStage({ stage, bytes: whole, in_flight: held, kept, parts }: StageBytes, most: number): HTMLElement {
  const bar = h(
    "div",
    { class: "mlb-bar", "aria-hidden": "true" },
    parts.map(({ name, bytes: count }, i) =>
      h("span", {
        class: `mlb-part mlb-share-${i}`,
        style: `width:${(100 * count) / most}%`,
        title: `${name}: ${exact(count)} bytes`,
      }),
    ),
  );
  const sum = parts.map(({ name, bytes: count }) => `${bytes(count)} ${name}`).join(" + ");
  const title = `${exact(whole)} bytes: ${sum}; in flight: ${exact(held)} of ${bytes(kept)}`;
  return labelled(`stage ${stage}`, bar, bytes(whole), title, { "data-stage": String(stage) });
}
