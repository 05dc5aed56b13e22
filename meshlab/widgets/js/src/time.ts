/** The predicted time of a step: an interval with its estimate, what limits it, and its parts. */

import { labelled, portion } from "./bars.ts";
import type { Board } from "./board.ts";
import { timeRows } from "./differences.ts";
import { drawAccuracy } from "./disclosure.ts";
import { h, prose } from "./dom.ts";
import { badge } from "./hint.ts";
import { choice, mark, noMachine, sourceOf } from "./machine.ts";
import { axisLabel, markClass } from "./marks.ts";
import { isPending } from "./model.ts";
import { drawProfile } from "./profile.ts";
import { drawBecause, drawRoofline } from "./roofline.ts";
import { drawSchedule } from "./schedule.ts";
import type { Drawing } from "./stage.ts";
import type { Time, TimePart, View } from "./types.ts";

export function drawTime(board: Board): (Node | null | false)[] {
  const { time, pending } = board.view;
  if (time && "missing" in time) return [h("p", { class: "mlb-error" }, "✕ ", prose(time.missing))];
  if (!time) return [h("p", { class: "mlb-none" }, pending ? "The step is being worked out …" : noMachine(board))];
  const { texts, limit } = time;
  const sends = time.parts.some((part) => part.sends);
  const most = Math.max(...time.parts.map((part) => part.seconds));
  return [
    h(
      "p",
      { class: "mlb-step" },
      h("b", { class: "mlb-step-value" }, texts.estimate),
      " ",
      drawEstimated(board, time),
      ` between ${texts.lower}, if all communication that can overlap does, and ${texts.upper}, if none does`,
    ),
    board.view.beside ? null : h("div", { class: "mlb-because" }, drawBecause(board)),
    drawInterval(board.view, time),
    h("p", { class: "mlb-limit", "data-limit": limit.by }, prose(limit.text)),
    time.use ? h("p", { class: "mlb-hidden", "data-note": "use" }, time.use) : null,
    h(
      "ul",
      { class: "mlb-bars", "data-chart": "time" },
      time.parts.map((part) => drawPart(board.view, part, most)),
    ),
    sends && drawExposed(time),
    ...(board.view.beside ? [] : [...drawSchedule(board), ...drawStep(board), ...drawProfile(board)]),
    time.substituted ? h("p", { class: "mlb-hidden", "data-note": "substituted" }, prose(time.substituted)) : null,
    drawAccuracy(board, "time", time.accuracy),
  ];
}

/** The step over time; on the workbench it stands below all views, and is shown over the whole board from here. */
function drawStep(board: Board): (Node | null)[] {
  const { timeline } = board;
  if (timeline.big && !timeline.full) return [h("h4", {}, "the step over time"), timeline.frame.element];
  const words = "⤢ The step over time, every slice";
  const open = () => timeline.setFull(true);
  return [h("button", { type: "button", class: "mlb-button", onclick: open }, words)];
}

/** How much communication is exposed. */
function drawExposed(time: Time): HTMLElement {
  if (!time.exposed) return h("p", { class: "mlb-hidden" }, "No communication is exposed: all overlaps with compute.");
  return h(
    "p",
    { class: "mlb-hidden" },
    h("span", { class: "mlb-swatch mlb-exposed", "aria-hidden": "true" }),
    ` ${time.texts.exposed} of communication are exposed (not overlapped with compute).`,
  );
}

/** The estimate as a bar of kernels and of exposed communication; below it the reach from lower to upper bound. */
function drawInterval(view: View, time: Time): HTMLElement {
  const share = (seconds: number): string => `${time.upper ? (100 * seconds) / time.upper : 0}%`;
  const kernels = time.parts.filter((part) => !part.sends);
  return h(
    "div",
    { class: "mlb-interval", "aria-hidden": "true" },
    h(
      "div",
      { class: "mlb-bar" },
      kernels.map((part) => portion(partClass(view, part), share(part.seconds), `${part.label}: ${part.text}`)),
      time.exposed > 0 && portion("mlb-exposed", share(time.exposed), `exposed communication: ${time.texts.exposed}`),
    ),
    h(
      "div",
      { class: "mlb-reach" },
      h("span", {
        class: "mlb-reach-box",
        style: `left:min(${share(time.lower)}, 100% - 2px);width:${share(time.upper - time.lower)}`,
      }),
      h("span", { class: "mlb-reach-tick", style: `left:clamp(5px, ${share(time.estimate)}, 100% - 5px)` }),
    ),
  );
}

const CLASSES: Record<string, string> = { memory: "mlb-output", waiting: "mlb-waiting" };

function partClass(view: View, part: TimePart): string {
  if (part.sends) return markClass(view, part.key);
  return CLASSES[part.key] ?? "mlb-argument";
}

function drawPart(view: View, part: TimePart, most: number): HTMLElement {
  const sources = part.figures.map((figure) => `${figure.text}: ${sourceOf(figure)}`);
  const width = `${most ? (100 * part.seconds) / most : 0}%`;
  const bar = h("div", { class: "mlb-bar", "aria-hidden": "true" }, portion(partClass(view, part), width, ""));
  const name = part.sends ? axisLabel(view, part.key) : part.label;
  const label = h("span", {}, part.sends && "communication over ", name, " ", part.seconds > 0 && mark(part.figures));
  return labelled(label, bar, part.text, sources.join("\n"), { key: part.key, "data-part": part.key });
}

/** The assumptions, to choose. */
export function drawOptions(board: Board): HTMLElement[] {
  const { time } = board.view;
  if (!time || !board.can("assume")) return [];
  const { attention, prefetch, attentions, run } = time.options;
  const said = (each: string) => (each === "default" && attention === each ? `default: ${run}` : each);
  const options = attentions.map((each) => h("option", { value: each, selected: each === attention }, said(each)));
  const select = choice(board, "attention", options, (value) => ({
    op: "assume",
    args: { attention: value },
  }));
  const ahead = h("input", {
    type: "checkbox",
    checked: prefetch,
    onchange: ({ currentTarget: { checked } }) => board.send("assume", { prefetch: checked }),
  });
  const title = "a loop gathers sharded weights one iteration ahead, and reduces gradients one iteration later";
  const tools = h(
    "div",
    { class: "mlb-tools mlb-assumed" },
    h(
      "label",
      { class: "mlb-field", title: "whether attention scores are stored in memory, or computed block by block" },
      "attention",
      select,
    ),
    h("label", { class: "mlb-switch", title }, ahead, "prefetch weights"),
  );
  return [tools];
}

/** That the step is predicted, and from which figures that nobody looked up. */
function drawEstimated({ view }: Board, { recalled }: Time): HTMLElement {
  const rest = recalled.length ? ` Of them recalled, not looked up in their sources: ${recalled.join("; ")}.` : "";
  return badge("estimated", `Predicted from the figures of ${view.machine.title}; nothing was run.${rest}`);
}

export const panel: Drawing = {
  draw: drawTime,
  foot: (board) => [...drawOptions(board), ...drawRoofline(board)],
  rows: timeRows,
  busy: isPending,
};
