/**
 * The baseline: the layout that every change on the board is told against, one of those that were tried. It is named and
 * chosen beside the totals, and changes only there and in Compare.
 */
import { documentOf } from "./beside.ts";
import type { Board } from "./board.ts";
import { h } from "./dom.ts";
import { faster, percent, signedBytes, signedSeconds } from "./format.ts";
import type { Card, View } from "./types.ts";

/** How much more a figure is than the baseline's, in words; "" where it is the same, or not known. */
export type Change = { text: string; sign: number };
export type Changes = Record<"step" | "peak" | "arguments" | "sends" | "work", Change>;

const SAME: Change = { text: "", sign: 0 };
// What is below a thousandth of a step is nothing that a reader would act on.
const LEAST = 1e-3;

export function baselineOf({ comparison }: Pick<View, "comparison">): Card | undefined {
  return comparison.cards.find((card) => card.baseline);
}

/** How the present layout compares with the baseline; null where it is the baseline, or is not known yet. */
export function againstBaseline(view: View): Changes | null {
  const [base, now] = [baselineOf(view), view.comparison.cards.find((card) => card.now)];
  if (!base?.totals || !now?.totals || base === now) return null;
  const [before, after] = [base.totals, now.totals];
  const more = (key: "bytes" | "peak" | "arguments" | "work", text: (by: number) => string): Change => {
    const [was, is] = [before[key], after[key]];
    return was === null || is === null || was === is ? SAME : { text: text(is - was), sign: is - was };
  };
  return {
    step: stepChange(before.seconds, after.seconds),
    peak: more("peak", signedBytes),
    arguments: more("arguments", signedBytes),
    sends: more("bytes", signedBytes),
    // A share is told by what it was: its difference would be read as a share of it.
    work: more("work", () => `from ${percent(before.work)}`),
  };
}

/** −12 ms; from twice on a factor: 30× faster. */
function stepChange(before: number | null, after: number | null): Change {
  if (!before || !after || Math.abs(after - before) <= LEAST * after) return SAME;
  const text = Math.max(before / after, after / before) < 2 ? signedSeconds(after - before) : faster(after, before);
  return { text, sign: after - before };
}

/** Makes a layout the baseline. */
export async function compareWith(board: Board, card: Card) {
  const answer = await board.send("baseline", { document: documentOf(board.view, card) });
  if (answer?.kind === "ack") board.say(`All layouts are compared with ${card.name}.`, "done");
  else board.drawChoices();
}

/** What all changes are told against, to choose. */
export function drawBaseline(board: Board): HTMLElement[] {
  const { cards } = board.view.comparison;
  const options = cards.map((card) => h("option", { value: card.key, selected: card.baseline }, card.name));
  const choose = ({ currentTarget: { value } }: { currentTarget: HTMLSelectElement }) => {
    const chosen = cards.find((card) => card.key === value);
    if (chosen) compareWith(board, chosen);
  };
  const title = "the baseline: all changes are relative to this layout";
  const select = h("select", { class: "mlb-select", title, onchange: choose }, options);
  return [h("label", { class: "mlb-vs" }, h("span", {}, "compared with"), select)];
}
