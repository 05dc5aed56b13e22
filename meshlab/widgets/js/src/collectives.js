// @ts-check
/** The list of collectives: what each moves, why it is there, and what would remove it. */
import { h, prose } from "./dom.js";
import { bytes, exact, plural } from "./format.js";
import { axisLabel, markClass } from "./marks.js";
import { drawRemedies } from "./remedies.js";

/**
 * @typedef {import("./types.js").View} View
 * @typedef {import("./types.js").Collective} Collective
 * @typedef {import("./board.js").Board} Board
 */

/**
 * @param {Board} board
 * @param {Collective} collective
 * @returns {HTMLElement}
 */
function drawOne(board, collective) {
  const { view } = board;
  const { kind, key, total, wire, times, payload, value, dims, source, code, because, id } = collective;
  const often = times > 1 ? ` × ${exact(times)}` : "";
  return h(
    "li",
    {
      class: `mlb-collective ${markClass(view, key)}`,
      "data-kind": kind,
      "data-axes": key,
      "data-collective": id,
      tabindex: 0,
    },
    h(
      "div",
      { class: "mlb-collective-head" },
      h("b", {}, kind),
      axisLabel(view, key),
      h(
        "span",
        { class: "mlb-bar-value", title: `payload ${exact(payload)} bytes, wire ${exact(wire)} bytes${often}` },
        `${bytes(wire)}${often}`,
        times > 1 && ` = ${bytes(total)}`,
      ),
    ),
    h("p", { class: "mlb-collective-value" }, value, dims.length > 0 && ` [${dims.join(" ")}]`),
    h("p", { class: "mlb-because" }, prose(because)),
    drawRemedies(board, collective, "traffic"),
    source && h("p", { class: "mlb-source" }, h("code", {}, source), code && h("code", { class: "mlb-code" }, code)),
  );
}

/**
 * @param {View} view
 * @returns {string}
 */
function idle(view) {
  const split = view.chips.some((chip) => chip.axes.length > 0);
  return split
    ? "None: each device works on its own."
    : "None: nothing is sharded, so every device does all of the work.";
}

/**
 * How many there are; in a loop one is executed many times.
 * @param {View} view
 * @returns {string}
 */
function counted(view) {
  const { rows, left_out: left, count } = view.collectives;
  const written = rows.length + left;
  const often = count > written ? `, which a step executes ${exact(count)} times` : "";
  return `${plural(written, "collective")}${often}${written > 1 ? "; those that send most come first" : ""}.`;
}

/**
 * @param {Board} board
 * @returns {(HTMLElement | null)[]}
 */
export function drawCollectives(board) {
  const { view } = board;
  const { rows, left_out: left } = view.collectives;
  if (rows.length === 0) return [h("p", { class: "mlb-none" }, idle(view))];
  const list = h(
    "ol",
    { class: "mlb-list", "aria-label": "collectives" },
    rows.map((row) => drawOne(board, row)),
  );
  return [
    h("p", { class: "mlb-none mlb-counted" }, counted(view)),
    list,
    left ? h("p", { class: "mlb-none" }, `and ${left} smaller ones`) : null,
  ];
}
