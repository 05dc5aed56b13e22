// @ts-check
/** Draws the drop zones with their chips, and paints them while a chip is held: legal or refused, with the reason. */
import { h, prose } from "./dom.js";
import { exact } from "./format.js";
import { TRAY, verdict, zoneName, zonesOf } from "./hand.js";
import { markClass, swatch } from "./marks.js";

/**
 * @typedef {import("./types.js").View} View
 * @typedef {import("./types.js").Chip} Chip
 * @typedef {import("./hand.js").Hand} Hand
 * @typedef {import("./board.js").Board} Board
 */

const SIGNS = { here: "", legal: "✓ fits", refused: "✕ refused" };

/**
 * @param {View} view
 * @param {Chip} chip
 * @param {string} zone
 * @param {string} help id of the element that explains the keys
 * @returns {HTMLElement}
 */
function drawChip(view, chip, zone, help) {
  const place = zone === TRAY ? "unsharded" : `sharded over ${chip.axes.join(", then ")}`;
  const order = chip.axes.length > 1 ? `${chip.axes.indexOf(zone) + 1} of ${chip.axes.length}` : "";
  const size = exact(chip.size) + (zone === TRAY ? "" : ` → ${exact(chip.local)}`);
  return h(
    "button",
    {
      type: "button",
      class: `mlb-chip ${zone === TRAY ? "" : markClass(view, zone)}`,
      "data-dim": chip.name,
      "data-zone": zone,
      "data-key": `chip:${chip.name}:${zone}`,
      "aria-label": `${[chip.name, size, order].filter(Boolean).join(" ")}, ${place}`,
      "aria-describedby": help,
      "aria-pressed": "false",
    },
    h("span", { class: "mlb-chip-name" }, chip.name),
    " ",
    h("span", { class: "mlb-chip-size" }, size),
    order && " ",
    order && h("span", { class: "mlb-chip-order" }, order),
  );
}

/**
 * @param {View} view
 * @param {string} zone
 * @param {string} help
 * @returns {HTMLElement}
 */
function drawZone(view, zone, help) {
  const tray = zone === TRAY;
  const chips = view.chips.filter((chip) => (tray ? chip.axes.length === 0 : chip.axes.includes(zone)));
  const size = view.mesh.axes.find((axis) => axis.name === zone)?.size;
  return h(
    "div",
    {
      class: `mlb-zone ${tray ? "mlb-tray" : markClass(view, zone)}`,
      "data-zone": zone,
      role: "group",
      "aria-label": tray ? "unsharded dims" : `mesh axis ${zone}, ${size} devices`,
    },
    h(
      "div",
      { class: "mlb-zone-head" },
      !tray && swatch(view, zone),
      h("span", { class: "mlb-zone-name" }, zoneName(zone)),
      h("span", { class: "mlb-zone-size" }, tray ? "full size on every device" : `× ${size}`),
      h("span", { class: "mlb-zone-sign" }),
      h("button", { type: "button", class: "mlb-here", "data-drop": zone, hidden: true }, "Put here"),
    ),
    h(
      "div",
      { class: "mlb-chips" },
      chips.map((chip) => drawChip(view, chip, zone, help)),
    ),
    h("div", { class: "mlb-zone-note" }),
  );
}

/**
 * Draws the zones, and the rules that hold at one place only (how its values are stored).
 * @param {Board} board
 * @returns {(HTMLElement | null)[]}
 */
export function drawZones(board) {
  const { view } = board;
  const { help } = board.panels;
  const axes = view.mesh.axes.map((axis) => drawZone(view, axis.name, help.id));
  return [h("div", { class: "mlb-axes" }, axes), drawZone(view, TRAY, help.id), drawStored(board)];
}

/**
 * @param {Board} board
 * @returns {HTMLElement | null}
 */
function drawStored(board) {
  const rules = board.view.layout.places;
  if (rules.length === 0) return null;
  const buttons = rules.map(({ at, dim, axes }) =>
    h(
      "button",
      {
        type: "button",
        class: "mlb-button",
        "aria-label": `${at}: ${dim} → ${axes.join("+") || "unsharded"} × (remove this rule)`,
        onclick: () => board.send("remove", { dim, at }),
      },
      h("code", {}, `${at}: ${dim} → ${axes.join("+") || "unsharded"}`),
      " ×",
    ),
  );
  return h("div", { class: "mlb-stored" }, "stored", buttons);
}

/**
 * Paints what each zone says to the chip that is held, or takes the paint off.
 * @param {HTMLElement} panel
 * @param {View} view
 * @param {Hand | null} hand
 */
export function paintZones(panel, view, hand) {
  panel.classList.toggle("mlb-holding", hand !== null);
  for (const zone of zonesOf(view)) {
    const element = panel.querySelector(`.mlb-zone[data-zone="${zone}"]`);
    if (!element) continue;
    const said = hand ? verdict(view, hand, zone) : null;
    element.setAttribute("data-state", said?.state ?? "idle");
    element.toggleAttribute("data-aim", hand !== null && hand.target === zone);
    /** @type {HTMLElement} */ (element.querySelector(".mlb-zone-sign")).textContent = said ? SIGNS[said.state] : "";
    element.querySelector(".mlb-zone-note")?.replaceChildren(...prose(said?.note ?? ""));
    const here = /** @type {HTMLButtonElement} */ (element.querySelector(".mlb-here"));
    here.hidden = !(hand?.by === "click" && said?.state === "legal");
    here.setAttribute("aria-label", hand ? `Put here: ${hand.dim} on ${zoneName(zone)}` : "");
  }
  for (const chip of panel.querySelectorAll(".mlb-chip")) {
    const pressed = hand?.dim === chip.getAttribute("data-dim") && hand?.from === chip.getAttribute("data-zone");
    chip.setAttribute("aria-pressed", String(pressed));
  }
}
