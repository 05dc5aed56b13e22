// @ts-check
/** The board's places for panels, made once; what is in them is redrawn. */
import { h } from "./dom.js";

const HELP =
  "Space or Enter picks the dim up, arrow keys choose a mesh axis that takes it, Enter drops, Escape cancels, " +
  "Delete takes it off its axis.";

/**
 * @param {string} name
 * @param {string} title
 * @param {Node[]} children
 * @returns {HTMLElement}
 */
function card(name, title, children) {
  return h("section", { class: `mlb-card mlb-${name}`, "aria-label": title }, h("h3", {}, title), children);
}

let helpTexts = 0;

/** Makes the panels. */
export function makePanels() {
  const body = () => h("div", { class: "mlb-body" });
  const banner = h("div", { class: "mlb-banner", role: "alert", hidden: true });
  const header = h("header", { class: "mlb-header" });
  const totals = h("div", { class: "mlb-totals" });
  const zones = h("div", { class: "mlb-zones" });
  const status = h("div", { class: "mlb-status", role: "status", "aria-live": "polite" });
  helpTexts += 1;
  const help = h("p", { class: "mlb-help", id: `mlb-help-${helpTexts}`, hidden: true }, HELP);
  const [mesh, machine, time, communication, collectives, memory, training, comparison] = [
    body(),
    body(),
    body(),
    body(),
    body(),
    body(),
    body(),
    body(),
  ];
  const cards = h(
    "div",
    { class: "mlb-cards" },
    card("layout", "Layout: dims on mesh axes", [zones, status, help]),
    card("mesh", "Who holds what", [mesh]),
    card("machine", "Machine", [machine]),
    card("time", "Predicted time of a step", [time]),
    card("communication", "Communication", [communication]),
    card("memory", "Memory per device", [memory]),
    card("collectives", "Collectives, and why", [collectives]),
    card("training", "Run", [training]),
    card("comparison", "Auto beside yours", [comparison]),
  );
  const all = [banner, header, totals, cards];
  return {
    all,
    banner,
    header,
    totals,
    zones,
    status,
    help,
    mesh,
    machine,
    time,
    communication,
    collectives,
    memory,
    training,
    comparison,
  };
}
