/**
 * The tray: the dims without a compute rule. Once advice has gone through all zones, the dim with the best one comes first
 * and has a star, and dims that no zone takes are folded, each with its reason. Of many dims one is found by its name.
 * Nothing moves under a hand: while the pointer or the keyboard is on the board, the order stays as it is.
 */

import type { Board } from "./board.ts";
import { h, prose } from "./dom.ts";
import { plural } from "./format.ts";
import type { Chip, View } from "./types.ts";

// Of more dims than these one searches.
const MANY = 12;

/** The free dims in the order in which they are shown, and those that no zone takes. */
export function arranged(
  { ranked }: Pick<View, "ranked">,
  free: Chip[],
): { fit: Chip[]; unfit: Chip[]; best: string | null } {
  if (!ranked) return { fit: free, unfit: [], best: null };
  const order = ranked.map(({ dim }) => dim);
  const fit = free.filter(({ name }) => order.includes(name));
  fit.sort((one, other) => order.indexOf(one.name) - order.indexOf(other.name));
  const first = ranked.find(({ dim }) => fit.some(({ name }) => name === dim));
  return { fit, unfit: free.filter(({ name }) => !order.includes(name)), best: first?.helps ? first.dim : null };
}

/** Why no zone takes a dim. */
export function whyUnfit({ refusals }: Pick<View, "refusals">, dim: string): string {
  const reasons = Object.values(refusals[dim] ?? {}).flatMap((refusal) => (refusal ? [refusal.text] : []));
  return [...new Set(reasons)].join(" ") || "No zone takes it.";
}

/** @returns what stands in the tray */
export function drawTray(board: Board, free: Chip[], drawChip: (chip: Chip) => HTMLElement): (Node | null)[] {
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

function drawUnfit(board: Board, unfit: Chip[], drawChip: (chip: Chip) => HTMLElement): HTMLElement {
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

function drawSearch(board: Board): HTMLElement {
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
 * @returns how many are left
 */
export function findDims({ panels, searched }: Board): number {
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
