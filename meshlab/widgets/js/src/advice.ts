/**
 * Below the tray: the presets (`presets.ts`); then Auto, which searches layouts, and beside it, since it comes last and is
 * as long as it is, the change that helps most, with its price and a button that makes it.
 */

import type { Board } from "./board.ts";
import { h, prose } from "./dom.ts";
import { bytes, exact, percent, signedBytes, signedSeconds } from "./format.ts";
import { predicted } from "./model.ts";
import { drawPresets } from "./presets.ts";
import { askSearch, hintOf, isSearching } from "./search.ts";
import type { Advice, Time, View } from "./types.ts";

/** What is said where no single change helps: what Auto has searched, where the layout is its answer. */
export function nothingText({ search }: Pick<View, "search">): string {
  const nothing = "No single change makes it better.";
  if (search?.same && search.searched && !search.outdated) return `${nothing} Auto searched ${search.searched}.`;
  return `${nothing} Auto tries several at once.`;
}

/** What stands where there is no advice: none helps, or it is being looked for, or nobody has asked. */
function awaitedText(board: Board): string {
  const { view } = board;
  if (view.advice_error) return `Advice could not be worked out: ${view.advice_error}.`;
  if (view.advised) return nothingText(view);
  if (!board.can("advise") || view.goal?.quiet) return "";
  if (view.looking)
    return `Looking for a change that helps: ${exact(view.looking.done)} of ${exact(view.looking.of)} …`;
  return view.slow ? "Advice is off for a program this large: it takes too long. " : "Looking for a change …";
}

/** Asks for advice all the same, where the board does not by itself. */
function drawAsk(board: Board): HTMLElement | null {
  const { advised, looking, slow, goal } = board.view;
  if (advised || looking || !slow || goal?.quiet || !board.can("advise")) return null;
  const ask = () => board.asking.now();
  return h("button", { type: "button", class: "mlb-button", "data-op": "advise", onclick: ask }, "Look for one");
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
        h("span", {}, h("span", { "aria-hidden": "true" }, "➜ "), prose(`${advice.text}: ${gain(advice, view)}`)),
        " ",
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
    : h("p", { class: "mlb-advice" }, h("span", {}, prose(awaitedText(board))), drawAsk(board));
  return [drawPresets(board), drawAuto(board), line].filter((each) => each !== null);
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
