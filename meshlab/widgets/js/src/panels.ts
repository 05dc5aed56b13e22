/** The frame of the workbench, made once; what is in its parts is redrawn. */
import { h } from "./dom.ts";
import { nextNumber } from "./numbers.ts";

/** Makes the parts of the frame around the stage. */
export function makePanels() {
  const banner = h("div", { class: "mlb-banner", role: "alert", hidden: true });
  const heard = h("div", { class: "mlb-unseen", role: "status" });
  const header = h("div", { class: "mlb-header" });
  const totals = h("div", { class: "mlb-totals" });
  const baseline = h("div", { class: "mlb-baseline" });
  const score = h("div", { class: "mlb-score" }, totals, baseline);
  const line = h("div", { class: "mlb-line-of-layout" });
  const goal = h("div", { class: "mlb-goal", role: "group", "aria-label": "goal", hidden: true });
  const task = h("div", {
    class: "mlb-task",
    role: "group",
    "aria-label": "task",
    "aria-live": "polite",
    hidden: true,
  });
  const zones = h("div", { class: "mlb-zones" });
  const status = h("div", { class: "mlb-status", role: "status", "aria-live": "polite" });
  const help = h("p", { class: "mlb-help", id: `mlb-help-${nextNumber("frames")}`, hidden: true });
  const advice = h("div", { class: "mlb-advices" });
  const held = h("div", { class: "mlb-held", role: "group", "aria-label": "the dim that is held" });
  const tracing = h("div", { class: "mlb-tracing", role: "status" });
  // What is done with a chip in hand stands where the advice is.
  const either = h("div", { class: "mlb-either" }, advice, held);
  const inLayout = [line, zones, tracing, either, status, help];
  const layout = h("div", { class: "mlb-layout", role: "group", "aria-label": "layout" }, inLayout);
  const detail = h("div", { lasting: true, class: "mlb-detail" });
  const timeline = h("div", {
    lasting: true,
    class: "mlb-step-time",
    role: "group",
    "aria-label": "one step over time",
  });
  const shown = { banner, heard, header, score, totals, baseline, goal, task, line, zones, status, help, layout };
  return { ...shown, tracing, advice, held, timeline, detail };
}
