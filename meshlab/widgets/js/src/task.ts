/**
 * The task of a board, above it; where that asks for a number, the field that takes the prediction (`state/task.py`). Until
 * then the board shows what the number is about, dims, mesh and machine, and no figure; nothing on it can be moved.
 */

import type { Board } from "./board.ts";
import { type Child, h, prose, redraw } from "./dom.ts";
import { number } from "./format.ts";
import { refusalOf } from "./model.ts";
import type { Task } from "./types.ts";

/** @returns the number that somebody has written, with commas or without; null where it is none */
export function numberOf(text: string): number | null {
  const plain = text.replace(/[,_\s]/g, "");
  const value = Number(plain);
  return plain !== "" && Number.isFinite(value) ? value : null;
}

/** What became of a prediction: the number, and what was predicted. */
export function verdictText({ predicted, number: found, right }: Pick<Task, "predicted" | "number" | "right">): string {
  if (predicted === null || found === null) return "";
  const [guess, is] = [number(predicted), number(found)];
  if (!right) return `${is}; you predicted ${guess}.`;
  return guess === is ? `${is}, as you predicted.` : `${is}; you predicted ${guess}, which is near enough.`;
}

/** Draws the task anew, and shows or hides all that would give its number away. */
export function paintTask(board: Board) {
  const { root, panels, view } = board;
  const { task } = view;
  const [locked, before] = [task?.locked ?? false, root.hasAttribute("data-locked")];
  root.toggleAttribute("data-locked", locked);
  for (const panel of [panels.header, panels.layout]) panel.toggleAttribute("inert", locked);
  panels.task.hidden = task === null;
  redraw(panels.task, ...(task ? drawTask(board, task) : []));
  if (!before || locked) return;
  // What was drawn while nothing was seen has no measures.
  board.stage.redraw();
  board.timeline.draw();
  board.tour.offer();
}

function drawTask(board: Board, task: Task): Child[] {
  const { heading, text, given, question, locked } = task;
  return [
    h("strong", {}, heading),
    h("p", {}, prose(text)),
    locked && given && h("p", { class: "mlb-task-given" }, prose(given)),
    locked ? drawField(board, task) : question && drawVerdict(task),
  ];
}

function drawField(board: Board, { question }: Task): HTMLElement {
  const lock = (event: Event & { currentTarget: HTMLFormElement }) => {
    event.preventDefault();
    predict(board, event.currentTarget);
  };
  const field = h("input", { type: "text", inputmode: "decimal", autocomplete: "off" });
  return h(
    "form",
    { class: "mlb-ask", novalidate: true, onsubmit: lock },
    h("label", {}, h("span", {}, prose(`Predict first: ${question}?`)), field),
    h("button", { type: "submit", class: "mlb-button mlb-primary" }, "Lock it"),
    h("output", { class: "mlb-error", role: "alert" }),
  );
}

async function predict(board: Board, form: HTMLFormElement) {
  const field = form.querySelector("input") as HTMLInputElement;
  const error = form.querySelector("output") as HTMLElement;
  const predicted = numberOf(field.value);
  error.textContent = predicted === null ? "Write a number, without its unit." : "";
  field.setAttribute("aria-invalid", String(predicted === null));
  if (predicted === null) return field.focus();
  error.textContent = refusalOf(await board.send("predict", { number: predicted }));
}

function drawVerdict(task: Task): HTMLElement {
  const [sign, name] = task.right ? ["✓", "right"] : ["✗", "wrong"];
  const mark = h(
    "span",
    { class: "mlb-goal-mark", "data-state": task.right ? "met" : "missed", role: "img", "aria-label": name },
    sign,
  );
  return h("p", { class: "mlb-verdict" }, mark, " ", prose(`${task.question}? `), h("b", {}, verdictText(task)));
}
