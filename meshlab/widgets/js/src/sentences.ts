/** The sentences of the status line: what is on the board, what was picked up, and what a drop would cost. */
import { againstBaseline, baselineOf, type Changes } from "./baseline.ts";
import { bytes, exact, percent, seconds, signedBytes, signedSeconds } from "./format.ts";
import { goalText } from "./goal.ts";
import { chipOf, type Hand, verdict, zoneName, zonesOf } from "./hand.ts";
import { predicted } from "./model.ts";
import { whyUnfit } from "./tray.ts";
import type { Price, RefusedDrop, Search, View } from "./types.ts";

/** What to do, before anything was done. */
export const HOW = "Drag a dim onto a mesh axis, and see what changes. By keyboard: Space, arrow keys, Enter.";
export const SIZES = " A click on a dim leads to its size.";

/**
 * The totals, before the layout that has them: "1.92 s a step (−12 ms against start), 21.0 GB held, …; ". The baseline is
 * named once. A goal that is met is said first, one that is not at the end (`missedText`).
 */
export function totalsText(view: View): string {
  const { communication, memory, peak_memory: peak, pending, work, goal } = view;
  const first = goal?.met ? `${goalText(view)} ` : "";
  const time = predicted(view.time);
  const changes = againstBaseline(view);
  let against = ` against ${baselineOf(view)?.name}`;
  const by = (key: keyof Changes) => {
    if (!changes?.[key].text) return "";
    const text = ` (${changes[key].text}${against})`;
    against = "";
    return text;
  };
  const sent = () => `${bytes(communication.total)} sent${by("sends")}`;
  if (pending) return `${first}${sent()} by each device; the step is being worked out …`;
  const over = peak?.fits === false ? ", which does not fit: Memory says why" : "";
  const parts = [
    time ? `${time.texts.estimate} a step${by("step")}` : `${percent(work)} of the FLOPs on each device${by("work")}`,
    peak
      ? `${bytes(peak.bytes)} held${by("peak")}${over}`
      : `${bytes(memory.arguments)} of arguments held${by("arguments")}`,
    sent(),
  ];
  return `${first}${parts.join(", ")}; `;
}

/** What is said of a goal that is not met, behind the layout. */
export function missedText(view: View): string {
  const text = view.goal?.met ? "" : goalText(view);
  return text && `. ${text}`;
}

/** What was done, where the layout, the mesh and the machine are as they were. */
export function doneText(op: string, args: Record<string, any>): string {
  const texts = {
    baseline: "", // whoever asks for it knows its name
    label: args.label ? `${args.of} is called ${args.label}.` : `The label and note of ${args.of} are saved.`,
    predict: "", // the task says what became of it
    run: "The run begins.",
    cancel: "The run stops after its present step.",
    auto: "", // whoever asks for it follows it
    exact_regrets: "The search for each decision begins.",
    cancel_auto: "The search was cancelled.",
    pin: args.axis ? `${args.dim} is pinned to ${args.axis}.` : `${args.dim} is pinned unsharded.`,
    unpin: `${args.dim} is not pinned any more.`,
    forbid: `${args.dim} is never on ${args.axis} in searches.`,
    allow: `${args.dim} may be on ${args.axis} in searches again.`,
    silence: `Searches ${args.silent ? "send nothing" : "may send"} over ${args.axis}.`,
    limit_auto: "The limits apply to the next search.",
    xla: "", // Traffic says how far it is
    cancel_xla: "Compiling was cancelled.",
    look: "", // Devices says how far it is
    cancel_look: "Looking was cancelled.",
    profile: "", // Time says how far it is
    cancel_profile: "Measuring was cancelled.",
    stop_auto: "The search ends with the best layout so far.",
    rename_dim: `${args.dim} is called ${args.name} now.`,
    select: args.place ? `Shown: ${args.place}.` : "",
    undo: "Undone.",
    redo: "Redone.",
  } as Record<string, string>;
  return texts[op] ?? "Nothing changes: it is so already.";
}

/** What was asked for, in few words. */
export function askedText(op: string, args: Record<string, any>): string {
  const texts = {
    place: `${args.dim} on ${[args.axes].flat().join(" and ")}`,
    remove: `${args.dim} off its axis`,
    undo: "Undo",
    redo: "Redo",
    reset: "Reset",
    on: args.machine ? `the machine ${args.machine}` : "no machine",
    preset: `the preset ${args.name}`,
    toggle: `the preset ${args.name}`,
    auto: "the search",
    run: "the run",
    look: `a look at ${args.value}`,
    profile: "measuring the step",
  } as Record<string, string>;
  return texts[op] ?? `the last change (${op.replaceAll("_", " ")})`;
}

/** How a search or a run has ended. */
export function searchText(search: Search | null): string {
  if (!search) return "";
  if (search.phase === "cancelled") return `The search for the ${search.label} was cancelled.`;
  return search.proof
    ? `The search for the ${search.label} has ended: ${search.said}. Use this layout, in Compare, puts it on the board.`
    : `The search for the ${search.label} has failed: ${search.error}`;
}

/** What was picked up, and how it is dropped. */
export function grabbedText(view: View, hand: Hand): string {
  const unfit = view.ranked && !view.ranked.some(({ dim }) => dim === hand.dim);
  const legal = !unfit && zonesOf(view).some((zone) => verdict(view, hand, zone).state === "legal");
  const how = { pointer: "Drop it on", click: "Click", keyboard: "Choose by arrow keys, then press Enter on" };
  const costs = view.time ? "the step's time and the peak memory" : "the work on each device and the bytes sent";
  const places = legal
    ? `${how[hand.by]} a zone; each says how ${costs} would change.`
    : `No zone takes it. ${whyUnfit(view, hand.dim)}`.trim();
  return `${hand.dim} (${exact(chipOf(view, hand.dim).size)}) picked up. ${places} Escape puts it back.`;
}

/** Why a zone does not take a chip, and what would fit; padding too, for which the strip of what is held has a button. */
export function refusedText(note: string, refusal: RefusedDrop | undefined, pads: boolean): string {
  const fix = refusal?.fix ?? "";
  if (!pads || !refusal?.pads) return `${note} ${fix}`.trim();
  return `${note} ${fix ? fix.replace(/\.$/, "; or pad it.") : "It can be padded."}`;
}

/** What a drop would cost. */
export function priceText(view: View, hand: Hand, zone: string, price: Price): string {
  const { communication, peak_memory: peak } = view;
  const time = predicted(view.time);
  const { note } = verdict(view, hand, zone, price);
  const parts = [`${bytes(price.bytes)} sent per step (${signedBytes(price.bytes - communication.total)})`];
  if (time && price.seconds !== null)
    parts.push(`a step of ${seconds(price.seconds)} (${signedSeconds(price.seconds - time.estimate)})`);
  if (peak && price.peak !== null)
    parts.push(`a peak of ${bytes(price.peak)} (${signedBytes(price.peak - peak.bytes)})`);
  const over = price.fits === false ? ", which does not fit" : "";
  return `${zoneName(view, zone)}: ${hand.dim} ${note}; ${parts.join(", ")}${over}.`;
}
