/** The first lines of the workbench: the machine, the layout as it is written in Python, undo and redo; and the score. */

import type { Board } from "./board.ts";
import { againstBaseline } from "./cards.ts";
import { h } from "./dom.ts";
import { drawExport } from "./export.ts";
import { bytes, exact, percent, seconds, signedBytes, signedPoints, signedSeconds } from "./format.ts";
import { drawPicker } from "./machine.ts";
import { predicted } from "./model.ts";
import type { Priced } from "./prices.ts";
import type { View } from "./types.ts";

export function drawHeader(board: Board): HTMLElement[] {
  const { view } = board;
  const { undo, redo } = view.history;
  const button = (op: string, sign: string, word: string, keys: string, off: boolean): HTMLElement =>
    h(
      "button",
      {
        type: "button",
        class: "mlb-button",
        "data-op": op,
        disabled: off,
        title: keys,
        "aria-label": word,
        onclick: () => board.send(op),
      },
      sign,
      h("span", { class: "mlb-button-word" }, word),
    );
  const check = (checked: boolean, choose: (checked: boolean) => unknown): HTMLElement =>
    h("input", { type: "checkbox", checked, onchange: ({ currentTarget }) => choose(currentTarget.checked) });
  const adding = check(board.adding, (add) => {
    board.adding = add;
    const how = add ? "is added to those that shard the dim already" : "takes the place of those that do";
    board.say(`From now on an axis ${how}.`);
  });
  const padding = check(view.pad, async (pad) => {
    const answer = await board.send("pad", { pad });
    if (answer?.kind !== "ack") board.drawChoices();
  });
  const mesh = view.mesh.axes.map((axis) => `${axis.name} × ${exact(axis.size)}`).join(", ");
  const text = view.layout.text || "no layout";
  return [
    h("div", { class: "mlb-tools" }, drawPicker(board)),
    h(
      "div",
      { class: "mlb-title" },
      h("span", { class: "mlb-mesh-text", title: mesh }, `${exact(view.mesh.size)} devices: ${mesh}`),
      h("code", { class: "mlb-layout-text", title: text }, text),
    ),
    h(
      "div",
      { class: "mlb-tools" },
      h(
        "label",
        {
          class: "mlb-switch",
          title: "a drop adds a mesh axis to those of the dim instead of moving it; or hold Shift",
        },
        adding,
        "add to its axes",
      ),
      board.can("pad") &&
        h("label", { class: "mlb-switch", title: "Pad dims that their axes do not divide" }, padding, "pad"),
      button("undo", "↶", "Undo", "Undo: Ctrl+Z", undo === 0),
      button("redo", "↷", "Redo", "Redo: Ctrl+Shift+Z", redo === 0),
      button("reset", "⟲", "Reset", "Reset: back to the layout that the Explorer was opened with", false),
      drawExport(board),
    ),
  ];
}

/** One figure of the score: what it is now, what a drop would make of it, and how it changed by the last one. */
function total(figure: {
  key: string;
  label: string;
  value: string;
  title?: string;
  change?: string;
  sign?: number;
  after?: string;
  against?: Node | null;
  more?: Node | null;
  over?: boolean;
  hint?: string;
}): HTMLElement {
  const { key, label, value, title = "", change = "", sign = 0, after = "", against = null, more = null } = figure;
  const direction = sign > 0 ? "mlb-more" : sign < 0 ? "mlb-less" : "mlb-same";
  const arrow = sign > 0 ? "▲ " : sign < 0 ? "▼ " : "";
  const last = against && change ? ` The last change: ${change}.` : "";
  // What a label says in few words is said in full by its hint.
  const term = { type: "button", class: "mlb-term", "data-hint": figure.hint };
  return h(
    "div",
    {
      key,
      class: `mlb-total ${figure.over ? "mlb-over" : ""}`,
      title: figure.hint ? null : `${title}${last}`,
      "data-total": key,
    },
    h("div", {}, h("span", { class: "mlb-total-label" }, figure.hint ? h("button", term, label) : label), more),
    h(
      "div",
      {},
      h("span", { class: "mlb-total-value" }, value),
      after
        ? h("span", { class: "mlb-after" }, `→ ${after}`)
        : (against ?? (change && h("span", { class: `mlb-change ${direction}` }, `${arrow}${change}`))),
    ),
  );
}

/** @param price of the drop that is aimed at */
export function drawTotals(view: View, price?: Priced): HTMLElement[] {
  const { change, work, lost, communication } = view;
  const why = `Parallelism is lost at ${lost}: what follows is replicated.`;
  return [
    ...drawStep(view, price),
    drawPeak(view, price),
    total({
      key: "sends",
      label: "sent per device",
      value: bytes(communication.total),
      hint: `Each device sends ${exact(communication.total)} wire bytes in a step: exactly, by the plan.`,
      change: change?.bytes ? signedBytes(change.bytes) : "",
      sign: change?.bytes,
      after: price && !price.refused ? bytes(price.bytes) : "",
      against: versus(view, "sends"),
    }),
    total({
      key: "work",
      label: "work per device",
      value: percent(work),
      more: h(
        "span",
        { class: "mlb-total-limit" },
        lost ? h("span", { class: "mlb-lost", title: why }, `⚠ lost at ${lost}`) : "of the FLOPs",
      ),
      hint:
        "The share of a step's matmul FLOPs that one device computes: 100% where nothing is sharded, " +
        `${percent(1 / view.mesh.size)} at best.${lost && ` ${why}`}`,
      change: change?.work ? signedPoints(change.work) : "",
      sign: change?.work,
      after: price && !price.refused && price.work !== work ? percent(price.work) : "",
      against: versus(view, "work"),
    }),
  ];
}

function drawStep(view: View, price?: Priced): HTMLElement[] {
  const { change } = view;
  const time = predicted(view.time);
  if (!time) return [];
  const { texts, estimate } = time;
  const by = change?.seconds ?? 0;
  // What is below a thousandth is nothing that a reader would act on.
  const moved = Math.abs(by) > 1e-3 * estimate;
  return [
    total({
      key: "step",
      label: "est. step time",
      value: texts.estimate,
      title: `Predicted: between ${texts.lower} and ${texts.upper}. ${time.limit.text} ${time.use}`.trim(),
      change: moved ? signedSeconds(by) : "",
      sign: moved ? by : 0,
      after: price && !price.refused && price.seconds !== null ? seconds(price.seconds) : "",
      against: versus(view, "step"),
    }),
  ];
}

/** @returns how the present layout compares with the baseline */
function versus(view: View, key: "step" | "peak" | "arguments" | "sends" | "work"): HTMLElement | null {
  const all = againstBaseline(view);
  if (!all) return null;
  const { text, sign } = all[key];
  const direction = sign > 0 ? "mlb-more" : sign < 0 ? "mlb-less" : "mlb-same";
  // The words about a step say by themselves which way it goes.
  const arrow = key === "step" || !text || !sign ? "" : sign > 0 ? "▲ " : "▼ ";
  return h("span", { class: `mlb-versus ${direction}`, title: `against ${all.name}` }, `${arrow}${text}`);
}

/** The predicted peak against what a device holds; without a machine the exact bytes of the arguments. */
function drawPeak(view: View, price?: Priced): HTMLElement {
  const { peak_memory: peak, memory, change } = view;
  if (!peak) {
    return total({
      key: "arguments",
      label: "arguments per device",
      value: bytes(memory.arguments),
      title: `${exact(memory.arguments)} bytes`,
      change: change?.arguments && !price ? signedBytes(change.arguments) : "",
      sign: change?.arguments,
      against: price ? null : versus(view, "arguments"),
    });
  }
  const by = change?.peak ?? 0;
  const share = Math.min(1, peak.bytes / peak.limit);
  const bar = h(
    "span",
    { class: "mlb-gauge", "aria-hidden": "true" },
    h("span", { style: `width:${(100 * share).toFixed(1)}%` }),
  );
  const verdict = peak.fits ? "fits" : "✕ does not fit";
  return total({
    key: "peak",
    label: "est. peak memory",
    value: bytes(peak.bytes),
    title: peak.text,
    change: by ? signedBytes(by) : "",
    sign: by,
    after: price && !price.refused && price.peak !== null ? bytes(price.peak) : "",
    against: versus(view, "peak"),
    more: h("span", { class: "mlb-total-limit" }, bar, `of ${bytes(peak.limit)} ${verdict}`),
    over: !peak.fits,
  });
}
