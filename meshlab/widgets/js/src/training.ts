/**
 * Run, cancel, progress, the losses, and a table of the runs so far: the same losses under another layout are the proof
 * that layouts change performance only, and where they are not the same it says so. This panel changes ten times a second,
 * so its buttons are made once and only texts change.
 */

import type { Board } from "./board.ts";
import { h, prose, redraw } from "./dom.ts";
import { exact, loss } from "./format.ts";
import { EMPTY } from "./model.ts";
import { drawMark } from "./run_marks.ts";
import { ACTIVE } from "./silence.ts";
import type { Drawing } from "./stage.ts";
import type { Job, Run, RunRow } from "./types.ts";

const ENDS = {
  done: "The run has ended.",
  cancelled: "The run was cancelled.",
  failed: "The run has failed.",
} as Record<string, string>;
const SIGNS = { done: "✓ done", cancelled: "◼ cancelled", failed: "✕ failed" } as Record<string, string>;

export class Training {
  board: Board;
  silent = false;
  active = false;
  /** The latest run, and whether it goes on: what other panels show of it. */
  known = "";
  run = h("button", { type: "button", class: "mlb-button mlb-primary", "data-op": "run" }, "▶ Run");
  cancel = h("button", { type: "button", class: "mlb-button", "data-op": "cancel", disabled: true }, "◼ Cancel");
  steps = h("input", {
    type: "number",
    min: "1",
    class: "mlb-steps",
    placeholder: "all",
    "aria-label": "steps",
  });
  progress = h("progress", { max: "1", value: "0", "aria-label": "progress of the run" });
  text = h("span", { class: "mlb-run-text" });
  verdict = h("p", { class: "mlb-verdict" });
  curve = h("div", { class: "mlb-curve" });
  table = h("div", { class: "mlb-runs" });

  constructor(board: Board, panel: HTMLElement) {
    this.board = board;
    this.run.addEventListener("click", () => board.send("run", { steps: Number(this.steps.value) || null }));
    this.cancel.addEventListener("click", () => board.send("cancel"));
    const label = h("label", { class: "mlb-switch" }, "steps", this.steps);
    const line = h("div", { class: "mlb-progress" }, this.progress, this.text);
    panel.append(
      h("div", { class: "mlb-tools" }, this.run, this.cancel, label),
      line,
      this.verdict,
      this.curve,
      this.table,
    );
  }

  /** Without Python no run goes on, whatever was last heard of it. */
  setSilent(silent: boolean) {
    this.silent = silent;
    this.show(this.board.model.get("job"));
  }

  show(job: Job) {
    const { current, runs } = job;
    const active = current !== null && ACTIVE.includes(current.phase);
    if (this.active && !active && current) {
      const said = [
        `${ENDS[current.phase] ?? ENDS.done} ${describe(current)}.`,
        current.sameness && `${current.sameness}.`,
      ];
      const wrong = current.same === false || current.phase === "failed";
      this.board.say(said.filter(Boolean).join(" "), wrong ? "refused" : "done");
    }
    this.active = active;
    const known = `${current?.number} ${active}`;
    if (this.known && this.known !== known) this.board.stage.changed(["job"]);
    this.known = known;
    const { trains } = this.board.view;
    this.run.disabled = active || !trains || this.silent;
    this.steps.disabled = !trains;
    this.cancel.disabled = !active || this.silent;
    this.progress.hidden = current === null;
    this.progress.value = current ? current.taken / current.steps : 0;
    this.progress.setAttribute("data-phase", current?.phase ?? "");
    const idle = trains ? "Trains on the data that came with it." : NO_DATA;
    const last = active && this.silent ? " when Python was last heard" : "";
    this.text.replaceChildren(...prose(current ? `${describe(current)}${last}` : idle));
    redraw(this.verdict, current?.sameness ?? "");
    this.verdict.classList.toggle("mlb-differs", current?.same === false);
    this.verdict.classList.toggle("mlb-is-same", current?.same === true);
    redraw(this.curve, job.chart && this.board.charts.of("losses", job.chart));
    redraw(this.table, ...(runs.length ? [drawRuns(runs), ...drawNotes(job)] : []));
  }
}

const NO_DATA = "No data to train on: open it with `ml.explore(program, mesh, run=ml.Training(…))`.";

function describe(run: Run): string {
  if (run.phase === "failed") return `✕ ${run.error}`;
  const step = `step ${exact(run.taken)} of ${exact(run.steps)}`;
  const reached = run.loss === null ? "" : `, loss ${loss(run.loss)}`;
  return `${SIGNS[run.phase] ?? run.phase}: ${step}${reached}`;
}

/** What the figures of the table are: measured and predicted are told apart, and never made one number. */
function drawNotes({ runs, note }: Job): (HTMLElement | null)[] {
  const where = [...new Set(runs.filter((run) => run.measured).map((run) => run.measured_on))];
  const on = [...new Set(runs.filter((run) => run.predicted).map((run) => run.predicted_on))];
  const measured = where.length ? `Measured: the median of a run's steps but the first, ${where.join("; ")}.` : "";
  const predicted = on.length ? ` Predicted: the estimate for ${on.map((each) => `\`${each}\``).join(", ")}.` : "";
  return [
    note ? h("p", { class: "mlb-foot" }, prose(note)) : null,
    measured || predicted ? h("p", { class: "mlb-foot mlb-run-seconds" }, prose(measured + predicted)) : null,
  ];
}

function drawRuns(runs: RunRow[]): HTMLElement {
  const heads = ["run", "layout", "steps", "last loss", "a step"];
  const last = Math.max(...runs.map((run) => run.mark ?? 0));
  return h(
    "table",
    { class: "mlb-table" },
    h(
      "thead",
      {},
      h(
        "tr",
        {},
        heads.map((head) => h("th", { scope: "col" }, head)),
      ),
    ),
    h(
      "tbody",
      {},
      runs.map((run) => drawRow(run, run.mark === last)),
    ),
  );
}

/** @param latest whether its line is the latest of those that are drawn */
function drawRow(run: RunRow, latest: boolean): HTMLElement {
  const picture = run.mark === null ? null : drawMark(run.mark, latest);
  const allowed = run.tolerance === null ? null : `${run.tolerance} of the losses' root mean square is rounding`;
  const verdict = run.reference
    ? h("div", { class: "mlb-same" }, "the others are compared with it")
    : run.sameness &&
      h("div", { class: `mlb-same ${run.same ? "mlb-is-same" : "mlb-differs"}`, title: allowed }, run.sameness);
  return h(
    "tr",
    {
      class: run.stale ? "mlb-stale" : "",
      "data-run": run.number,
      title: run.stale ? "of a layout that is no longer on the board" : "",
    },
    h("td", {}, picture, `${run.number}`),
    h("td", {}, h("code", {}, run.layout || EMPTY), verdict),
    h(
      "td",
      {},
      exact(run.taken),
      h("div", { class: "mlb-run-phase" }, SIGNS[run.phase] ?? run.phase),
      run.stale && h("div", { class: "mlb-run-phase" }, "other layout"),
    ),
    h("td", { class: "mlb-loss" }, loss(run.loss)),
    h(
      "td",
      {},
      run.measured && h("div", { title: run.measured_on, "data-seconds": "measured" }, `${run.measured} measured`),
      run.predicted && h("div", { title: run.predicted_on, "data-seconds": "predicted" }, `${run.predicted} predicted`),
    ),
  );
}

/** What it shows is kept by `Training`, since fields are typed in there. */
export const panel: Drawing = { needs: "run" };
