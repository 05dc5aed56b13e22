/**
 * Below the tray: the change that helps most, with its price and a button that makes it; then Auto, which searches
 * layouts, and the presets as buttons.
 */

import type { Board } from "./board.ts";
import { h, prose } from "./dom.ts";
import { bytes, percent, signedBytes, signedSeconds } from "./format.ts";
import { predicted } from "./model.ts";
import { drawScopes } from "./scopes.ts";
import { askSearch, hintOf, isSearching } from "./search.ts";
import type { Advice, Time, View } from "./types.ts";

/** What is said where no single change helps: what Auto has searched, where the layout is its answer. */
export function nothingText({ search }: Pick<View, "search">): string {
  const nothing = "No single change makes it better.";
  if (search?.same && search.searched && !search.outdated) return `${nothing} Auto searched ${search.searched}.`;
  return `${nothing} Auto tries several at once.`;
}

/** What advice would change, in words. */
function gain(
  advice: Advice,
  { time: step, peak_memory: peak, communication, work }: Pick<View, "time" | "peak_memory" | "communication" | "work">,
): string {
  const [time, parts] = [predicted(step), []] as [Time | null, string[]];
  if (time && advice.seconds !== null) parts.push(signedSeconds(advice.seconds - time.estimate));
  else if (advice.work !== work) parts.push(`${percent(advice.work)} of the FLOPs instead of ${percent(work)}`);
  else parts.push(`${signedBytes(advice.bytes - communication.total)} sent`);
  if (peak && advice.peak !== null) parts.push(`${signedBytes(advice.peak - peak.bytes)} at the peak`);
  if (peak && !peak.fits && advice.fits) parts.push(`then it fits: ${bytes(advice.peak ?? 0)}`);
  if (advice.fits === false) parts.push("still does not fit");
  return parts.join(", ");
}

export function drawAdvice(board: Board): HTMLElement[] {
  const { view } = board;
  const { advice } = view;
  const line = advice
    ? h(
        "p",
        { class: "mlb-advice" },
        h("span", { "aria-hidden": "true" }, "➜ "),
        prose(`${advice.text}: ${gain(advice, view)} `),
        h(
          "button",
          {
            type: "button",
            class: "mlb-button",
            "data-op": "advice",
            onclick: () => board.send(advice.op, advice.args),
          },
          "Apply",
        ),
      )
    : h("p", { class: "mlb-advice" }, view.advised ? prose(nothingText(view)) : "");
  const presets = view.presets.map((preset) =>
    h(
      "button",
      {
        type: "button",
        class: "mlb-button mlb-preset",
        key: preset.name,
        "data-preset": preset.name,
        "aria-disabled": String(preset.refused !== ""),
        "aria-pressed": String(preset.here),
        "data-hint": preset.refused || `${TITLES[preset.name]}. With Shift: together with the present layout.`,
        onclick: (event: MouseEvent) => board.send("preset", { name: preset.name, combine: event.shiftKey }),
      },
      preset.label,
    ),
  );
  const group = h("div", { class: "mlb-presets", role: "group", "aria-label": "presets" }, presets, drawScopes(board));
  return [drawAuto(board), line, group].filter((each) => each !== null);
}

/** Searches for the first of Auto's objectives; Compare shows how far it is. */
function drawAuto(board: Board): HTMLElement | null {
  if (!board.can("auto")) return null;
  const [{ name, label, condition }] = board.view.comparison.objectives;
  const find = () => {
    board.stage.show("compare");
    if (!isSearching(board.view)) askSearch(board, name);
  };
  const hint = `Searches for the ${label}: ${condition}. Compare shows how far it is.`;
  return h(
    "button",
    { type: "button", class: "mlb-button mlb-auto", onclick: find, ...hintOf(board.view, hint) },
    "Auto",
  );
}

const TITLES = {
  data_parallel: "Data parallel: each device computes a part of the batch with all parameters",
  fsdp: "Fully sharded data parallel: parameters, gradients and optimizer state are sharded, and gathered where they are needed",
  zero1: "ZeRO-1: data parallel with sharded optimizer state",
  zero2: "ZeRO-2: data parallel with sharded optimizer state and gradients",
  tensor_parallel: "Tensor parallel: heads, hidden and vocabulary dims are sharded",
  sequence_parallel: "Tensor parallel, with the residual stream sharded along the sequence between blocks",
  expert_parallel: "Expert parallel: experts are sharded, tokens are sent to them",
  accumulate: "Gradient accumulation: the batch in micro-batches, one after the other on each device",
  hsdp: "Hybrid sharded data parallel: FSDP within each group of devices, replicated across groups",
  context_parallel: "Context parallel: the sequence is sharded, keys and values are gathered",
  ulysses: "Ulysses: the sequence is sharded, and in attention's core the heads instead, by all-to-alls",
} as Record<string, string>;
