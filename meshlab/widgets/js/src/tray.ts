/**
 * The tray: the dims without a compute rule. Once advice has gone through all zones, the dim with the best one comes first
 * and has a star, and dims that no zone takes are folded, each with its reason. It is as high as its chips; of many dims
 * a few lines are seen, with how many more there are, and one is found by its name. Nothing moves under a hand: while the pointer or the keyboard is on the board, the order stays as it is.
 */

import type { Board } from "./board.ts";
import { fold } from "./disclosure.ts";
import { h, prose } from "./dom.ts";
import { plural } from "./format.ts";
import type { Chip, View } from "./types.ts";

/** Draws a chip; one with a star has the best zone. */
type DrawChip = (chip: Chip, star?: boolean) => HTMLElement;

// Of more dims than these one searches.
const MANY = 12;
// Of more lines than these, fewer are seen until the others are asked for.
const [MOST_LINES, SEEN] = [3, 2];

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
export function drawTray(board: Board, free: Chip[], drawChip: DrawChip): (Node | null)[] {
  const { fit, unfit, best } = arranged(board.arranged, free);
  const search = board.view.chips.length > MANY ? drawSearch(board) : null;
  // The line below the tray may advise another change, such as a preset: then nothing else is said to be the best.
  const advised = board.view.advice?.args.dim;
  const chips = fit.map((chip) => drawChip(chip, chip.name === best && chip.name === advised));
  return [
    h("div", { class: "mlb-chips" }, search, chips, drawMore(board)),
    unfit.length ? drawUnfit(board, unfit, drawChip) : null,
  ];
}

function drawUnfit(board: Board, unfit: Chip[], drawChip: DrawChip): HTMLElement {
  const rows = unfit.map((chip) =>
    h(
      "li",
      { key: chip.name, class: "mlb-unfit-dim" },
      drawChip(chip),
      " ",
      h("span", {}, prose(whyUnfit(board.view, chip.name))),
    ),
  );
  const summary = h("summary", {}, `${plural(unfit.length, "dim")} cannot be split now: why`);
  return fold(board, "unfit", "mlb-unfit", summary, h("ul", { "aria-label": "dims that cannot be split now" }, rows));
}

function drawSearch(board: Board): HTMLElement {
  const find = ({ currentTarget: { value } }: { currentTarget: HTMLInputElement }) => {
    board.searched = value;
    const shown = foldTray(board);
    const have = shown === 1 ? "1 dim has" : `${shown} dims have`;
    const where = shown === 1 ? "in its name" : "in their names";
    board.say(value ? `${have} “${value}” ${where}.` : "");
  };
  return h("input", {
    type: "search",
    class: "mlb-search",
    value: board.searched,
    placeholder: "find a dim",
    "aria-label": "find a dim",
    oninput: find,
  });
}

/** The button behind the chips that are seen, which shows the others too. */
function drawMore(board: Board): HTMLElement {
  const toggle = () => {
    board.opened[board.opened.has("tray") ? "delete" : "add"]("tray");
    foldTray(board);
  };
  return h("button", {
    type: "button",
    class: "mlb-more-dims",
    hidden: true,
    onclick: toggle,
  });
}

/**
 * Shows of the tray what is searched for, and of many lines the first, with how many dims more there are.
 * @returns how many dims are searched for
 */
export function foldTray(board: Board): number {
  const found = findDims(board);
  const tray = board.panels.zones.querySelector(".mlb-tray > .mlb-chips");
  const more = tray?.querySelector(".mlb-more-dims") as HTMLElement | null;
  if (!tray || !more) return found;
  const chips = [...tray.querySelectorAll(":scope > .mlb-chip:not([hidden])")] as HTMLElement[];
  const lines = (all: HTMLElement[]) => new Set(all.filter((each) => !each.hidden).map((each) => each.offsetTop)).size;
  const open = board.opened.has("tray");
  // Hidden for no moment where it is needed: it would lose the focus.
  more.hidden = lines(chips) <= MOST_LINES;
  if (more.hidden) return found;
  more.setAttribute("aria-expanded", String(open));
  // With the words that it will have, for its own room.
  more.textContent = open ? "fewer" : `+${chips.length} more`;
  if (open) return found;
  let hidden = 0;
  for (const chip of [...chips].reverse()) {
    if (lines([...chips, more]) <= SEEN) break;
    chip.hidden = true;
    hidden += 1;
  }
  more.textContent = `+${hidden} more`;
  return found;
}

/**
 * Hides the chips of the tray whose dims are not searched for.
 * @returns how many are left
 */
function findDims({ panels, searched }: Board): number {
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
