/**
 * The measured step: a button that has Python measure it in the background (`state/profiles.py`), how far that is, what it
 * took in all, and the words for a slice. Simulated devices share the cores of one machine: of their times only shares of
 * the step are shown, and never seconds. The lanes are drawn in `measured_lane.ts`.
 */
import type { Board } from "./board.ts";
import { h, prose } from "./dom.ts";
import { percent, plural, seconds } from "./format.ts";
import { predicted } from "./model.ts";
import type { Row } from "./step_rows.ts";
import type { Profiled, View } from "./types.ts";

const HOW = "runs the step of this layout on random data, and shows what each part of it took below the predicted one";
const SHOWN = "The step over time shows each part below its prediction";

/** @returns what was measured of the layout on the board; null where nothing was */
export function profiledOf({ profile }: Pick<View, "profile">): Profiled | null {
  return profile?.here ? profile.profiled : null;
}

/** The button, how far measuring is, and what came of it; nothing for the layout beside the board's. */
export function drawProfile(board: Board): (HTMLElement | null)[] {
  if ("isOther" in board || !board.can("profile")) return [];
  const { profile } = board.view;
  const works = profile?.phase === "working";
  const press = () => board.send("profile");
  const attributes = { type: "button", class: "mlb-button", "data-op": "profile", title: HOW, onclick: press };
  return [
    h(
      "div",
      { class: "mlb-measuring" },
      h("button", { ...attributes, disabled: works }, profile ? "Measure again" : "Measure the step"),
      works && drawWorking(board),
      !works && drawOutcome(board.view),
    ),
  ];
}

function drawWorking(board: Board): HTMLElement {
  const cancel = { type: "button", class: "mlb-button", "data-op": "cancel_profile" };
  return h(
    "span",
    { class: "mlb-measuring-said", role: "status" },
    h("progress", { "aria-label": "measuring the step" }),
    " The step is compiled and measured … ",
    h("button", { ...cancel, onclick: () => board.send("cancel_profile") }, "Cancel"),
  );
}

function drawOutcome(view: View): HTMLElement | null {
  const { profile } = view;
  if (profile?.phase === "failed") return h("p", { class: "mlb-error", role: "alert" }, "✕ ", prose(profile.error));
  if (!profile?.profiled) return null;
  const under = profile.layout ? `\`${profile.layout}\`` : "nothing sharded";
  const other = `What was measured is of another board, under ${under}, and is shown with that one.`;
  const text = profile.here ? outcomeText(profile.profiled) : other;
  return h("p", { class: "mlb-measuring-said" }, prose(text));
}

/** @returns what the step took in all, and what devices did of it */
export function outcomeText({ devices, simulated, runs, seconds: took, busy, waiting, idle }: Profiled): string {
  const of = took === null ? "the step" : `the ${seconds(took)} of the step`;
  const waits = `waits for others for ${percent(waiting)}, and is idle for ${percent(idle)}`;
  const where = `Measured on ${devices}, the median of ${plural(runs, "run")}: a device is busy for ${percent(busy)}`;
  return `${where} of ${of}, ${waits}. ${SHOWN}${simulated ? ", as a share of the step" : ""}.`;
}

/** Says on the status line how measuring has ended, and shows it in the lanes. */
export function followProfile(board: Board) {
  const { profile } = board.view;
  board.timeline.draw();
  const said = profile ? `${profile.number} ${profile.phase}` : "";
  if (board.chosen.profiled === said) return;
  board.chosen.profiled = said;
  if (profile?.phase === "done" && profile.here) board.say(`The step was measured. ${SHOWN}.`, "done");
  if (profile?.phase === "failed") board.say(profile.error, "refused");
}

/** What a slice took beside its prediction, both in the same unit; "" where the step was not measured. */
export function measuredText(
  view: Pick<View, "profile" | "time">,
  { took, waited }: { took: number; waited: number },
  long: number,
): string {
  const profiled = profiledOf(view);
  const known = predicted(view.time);
  if (!profiled || !known) return "";
  const { seconds: whole } = profiled;
  const say = (share: number) => (whole === null ? percent(share) : seconds(share * whole));
  const waits = waited > 0 ? `, and waited ${say(waited * long)}` : "";
  const [first, of] = whole === null ? [percent(long / known.estimate), " of the step"] : [seconds(long), ""];
  return `predicted ${first}${of}, measured ${say(took * long)}${waits}`;
}

/** @returns what a slice took beside its prediction, as the end of its title; "" where nothing was measured */
export function measuredEnd({ view }: Board, row: Row, i: number): string {
  const text = row.lane === null ? "" : measuredText(view, row.facts(i), row.seconds[i]);
  return text && `; ${text}`;
}
