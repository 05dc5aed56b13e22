// @ts-check
/**
 * Run, cancel, progress, and a table of the runs so far: the same loss under another layout is the proof that layouts
 * change performance only. This panel changes ten times a second, so its buttons are made once and only texts change.
 */
import { h, prose, redraw, s } from "./dom.js";
import { exact, loss } from "./format.js";
import { ACTIVE } from "./silence.js";

/**
 * @typedef {import("./types.js").Job} Job
 * @typedef {import("./types.js").RunRow} RunRow
 * @typedef {import("./board.js").Board} Board
 */

const SIGNS = /** @type {Record<string, string>} */ ({ done: "✓ done", cancelled: "◼ cancelled", failed: "✕ failed" });

export class Training {
  /**
   * @param {Board} board
   * @param {HTMLElement} panel
   */
  constructor(board, panel) {
    this.board = board;
    this.silent = false;
    this.active = false;
    this.run = h("button", { type: "button", class: "mlb-button mlb-primary", "data-op": "run" }, "▶ Run");
    this.cancel = h("button", { type: "button", class: "mlb-button", "data-op": "cancel", disabled: true }, "◼ Cancel");
    this.steps = h("input", {
      type: "number",
      min: "1",
      class: "mlb-steps",
      placeholder: "all",
      "aria-label": "steps",
    });
    this.progress = h("progress", { max: "1", value: "0", "aria-label": "progress of the run" });
    this.text = h("span", { class: "mlb-run-text" });
    this.curve = h("div", { class: "mlb-curve" });
    this.table = h("div", { class: "mlb-runs" });
    this.run.addEventListener("click", () => board.send("run", { steps: Number(this.steps.value) || null }));
    this.cancel.addEventListener("click", () => board.send("cancel"));
    const label = h("label", { class: "mlb-switch" }, "steps", this.steps);
    const line = h("div", { class: "mlb-progress" }, this.progress, this.text);
    panel.append(h("div", { class: "mlb-tools" }, this.run, this.cancel, label), line, this.curve, this.table);
  }

  /**
   * Without Python no run goes on, whatever was last heard of it.
   * @param {boolean} silent
   */
  setSilent(silent) {
    this.silent = silent;
    this.show(this.board.model.get("job"));
  }

  /** @param {Job} job */
  show(job) {
    const { current, runs } = job;
    const active = current !== null && ACTIVE.includes(current.phase);
    if (this.active && !active && current) this.board.say(`The run has ended. ${describe(current)}`, "done");
    this.active = active;
    const { trains } = this.board.view;
    this.run.disabled = active || !trains || this.silent;
    this.steps.disabled = !trains;
    this.cancel.disabled = !active || this.silent;
    this.progress.hidden = current === null;
    this.progress.value = current ? current.taken / current.steps : 0;
    const idle = trains ? "Trains on the data that came with it." : NO_DATA;
    const last = active && this.silent ? " when Python was last heard" : "";
    this.text.replaceChildren(...prose(current ? `${describe(current)}${last}` : idle));
    redraw(this.curve, current && current.losses.length > 1 ? drawCurve(current) : null);
    redraw(this.table, runs.length ? drawRuns(runs) : null);
  }
}

const NO_DATA = "No data to train on: open it with `ml.explore(program, mesh, run=ml.Training(…))`.";

/**
 * @param {RunRow} run
 * @returns {string}
 */
function describe(run) {
  if (run.phase === "failed") return `✕ ${run.error}`;
  const step = `step ${exact(run.taken)} of ${exact(run.steps)}`;
  const reached = run.loss === null ? "" : `, loss ${loss(run.loss)}`;
  return `${SIGNS[run.phase] ?? run.phase}: ${step}${reached}`;
}

/**
 * @param {RunRow} run
 * @returns {SVGElement}
 */
function drawCurve(run) {
  const [width, height] = [300, 54];
  const low = Math.min(...run.losses);
  const high = Math.max(...run.losses);
  const points = run.losses.map((value, i) => {
    const x = (i / (run.losses.length - 1)) * width;
    const y = height - 3 - ((value - low) / (high - low || 1)) * (height - 6);
    return `${x.toFixed(1)},${y.toFixed(1)}`;
  });
  return s(
    "svg",
    {
      viewBox: `0 0 ${width} ${height}`,
      preserveAspectRatio: "none",
      role: "img",
      "aria-label": `loss from ${loss(run.first_loss)} to ${loss(run.loss)}`,
    },
    s("polyline", { points: points.join(" "), "vector-effect": "non-scaling-stroke" }),
  );
}

/**
 * @param {RunRow[]} runs
 * @returns {HTMLElement}
 */
function drawRuns(runs) {
  const heads = ["run", "layout", "steps", "first loss", "last loss", ""];
  const rows = runs.map((run) =>
    h(
      "tr",
      {
        class: run.stale ? "mlb-stale" : "",
        "data-run": run.number,
        title: run.stale ? "of a layout that is no longer on the board" : "",
      },
      h("td", {}, `${run.number}`),
      h("td", {}, h("code", {}, run.layout || "no layout")),
      h("td", {}, exact(run.taken)),
      h("td", {}, loss(run.first_loss)),
      h("td", { class: "mlb-loss" }, loss(run.loss)),
      h("td", {}, `${SIGNS[run.phase] ?? run.phase}`, run.stale && h("div", {}, "other layout")),
    ),
  );
  return h(
    "table",
    { class: "mlb-table" },
    h(
      "thead",
      {},
      h(
        "tr",
        {},
        heads.map((head) => (head ? h("th", { scope: "col" }, head) : h("td"))),
      ),
    ),
    h("tbody", {}, rows),
  );
}
