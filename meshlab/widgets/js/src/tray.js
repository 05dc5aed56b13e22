// @ts-check
/**
 * The tray: the dims without a compute rule. Once advice has gone through all zones, the dim with the best one comes first
 * and has a star, and dims that no zone takes are folded, each with its reason. Of many dims one is found by its name.
 * Nothing moves under a hand: while the pointer or the keyboard is on the board, the order stays as it is.
 */
import { h, prose } from "./dom.js";
import { plural } from "./format.js";

/**
 * @typedef {import("./types.js").View} View
 * @typedef {import("./types.js").Chip} Chip
 * @typedef {import("./board.js").Board} Board
 */

// Of more dims than these one searches.
const MANY = 12;

/**
 * The free dims in the order in which they are shown, and those that no zone takes.
 * @param {Pick<View, "ranked">} view
 * @param {Chip[]} free
 * @returns {{fit: Chip[], unfit: Chip[], best: string | null}}
 */
export function arranged({ ranked }, free) {
  if (!ranked) return { fit: free, unfit: [], best: null };
  const order = ranked.map(({ dim }) => dim);
  const fit = free.filter(({ name }) => order.includes(name));
  fit.sort((one, other) => order.indexOf(one.name) - order.indexOf(other.name));
  const first = ranked.find(({ dim }) => fit.some(({ name }) => name === dim));
  return { fit, unfit: free.filter(({ name }) => !order.includes(name)), best: first?.helps ? first.dim : null };
}

/**
 * Why no zone takes a dim.
 * @param {Pick<View, "refusals">} view
 * @param {string} dim
 * @returns {string}
 */
export function whyUnfit({ refusals }, dim) {
  const reasons = Object.values(refusals[dim] ?? {}).flatMap((refusal) => (refusal ? [refusal.text] : []));
  return [...new Set(reasons)].join(" ") || "No zone takes it.";
}

/**
 * @param {Board} board
 * @param {Chip[]} free
 * @param {(chip: Chip) => HTMLElement} drawChip
 * @returns {(Node | null)[]} what stands in the tray
 */
export function drawTray(board, free, drawChip) {
  const { fit, unfit, best } = arranged(board.arranged, free);
  const chips = h("div", { class: "mlb-chips" }, fit.map(drawChip));
  const star = chips.querySelector(`[data-dim="${CSS.escape(best ?? "")}"]`);
  // The line below the tray may advise another change, such as a preset: then nothing else is said to be the best.
  if (best !== null && star && board.view.advice?.args.dim === best) {
    star.setAttribute("data-star", "");
    star.setAttribute("aria-label", `${star.getAttribute("aria-label")}, has the best zone`);
    star.prepend(h("span", { class: "mlb-star", "aria-hidden": "true" }, "★"), " ");
  }
  if (board.view.chips.length > MANY) chips.prepend(drawSearch(board));
  return [chips, unfit.length ? drawUnfit(board, unfit, drawChip) : null];
}

/**
 * @param {Board} board
 * @param {Chip[]} unfit
 * @param {(chip: Chip) => HTMLElement} drawChip
 * @returns {HTMLElement}
 */
function drawUnfit(board, unfit, drawChip) {
  const rows = unfit.map((chip) =>
    h("li", { class: "mlb-unfit-dim" }, drawChip(chip), " ", h("span", {}, prose(whyUnfit(board.view, chip.name)))),
  );
  const fold = h(
    "details",
    { class: "mlb-unfit", open: board.opened.has("unfit") },
    h("summary", { "data-key": "unfit" }, `${plural(unfit.length, "dim")} that no zone takes`),
    h("ul", { "aria-label": "dims that no zone takes" }, rows),
  );
  fold.addEventListener("toggle", () => board.opened[fold.open ? "add" : "delete"]("unfit"));
  return fold;
}

/**
 * @param {Board} board
 * @returns {HTMLElement}
 */
function drawSearch(board) {
  const input = h("input", {
    type: "search",
    class: "mlb-search",
    value: board.searched,
    placeholder: "find a dim",
    "aria-label": "find a dim",
    "data-key": "search",
  });
  input.addEventListener("input", () => {
    board.searched = input.value;
    const shown = findDims(board);
    const have = shown === 1 ? "1 dim has" : `${shown} dims have`;
    const where = shown === 1 ? "in its name" : "in their names";
    board.say(input.value ? `${have} “${input.value}” ${where}.` : "");
  });
  return input;
}

/**
 * Hides the chips of the tray whose dims are not searched for.
 * @param {Board} board
 * @returns {number} how many are left
 */
export function findDims({ panels, searched }) {
  const wanted = searched.trim().toLowerCase();
  let shown = 0;
  for (const chip of panels.zones.querySelectorAll(".mlb-tray .mlb-chip")) {
    const matches = (chip.getAttribute("data-dim") ?? "").toLowerCase().includes(wanted);
    const row = chip.closest(".mlb-unfit-dim") ?? chip;
    row.toggleAttribute("hidden", !matches);
    shown += Number(matches);
  }
  return shown;
}
