/**
 * What is selected: a dim, a device, a collective, a moment. It is Python's, one for all views in whatever cell; here it
 * is marked on what is drawn: what is selected itself has `aria-current`, what belongs to it `data-related`. The page
 * marks at once and asks then, so that a selection works while Python is silent as well.
 */

import type { Board } from "./board.ts";
import { openSelected } from "./collectives.ts";
import { plural } from "./format.ts";
import { markSlices } from "./slices.ts";
import type { Collective, Selection, View } from "./types.ts";

const NOTHING = { dim: null, device: null, collective: null, moment: null };

/** Selects; what is not named stays selected. */
export function select(board: Board, changes: Partial<Selection>) {
  board.selection = { ...board.selection, ...changes, groups: [], coordinates: {}, ranges: [] };
  board.marked();
  if (board.readOnly) return;
  board.selecting += 1;
  board.channel.intent("select", changes).then(() => {
    board.selecting -= 1;
  });
}

/**
 * Releases all that is selected.
 * @returns whether anything was
 */
export function clear(board: Board): boolean {
  const any = Object.keys(NOTHING).some((name) => board.selection[name as "dim"] !== null);
  if (!any) return false;
  select(board, NOTHING);
  board.say("Nothing is selected.");
  return true;
}

/** Whether a collective moves a dim, or is there because of it. */
export function concerns({ dims, because }: Pick<Collective, "dims" | "because">, dim: string | null): boolean {
  return dim !== null && (dims.includes(dim) || because.includes(`\`${dim}\``));
}

/** Selects a device; once more releases it. */
export function chooseDevice(board: Board, device: number) {
  const wanted = board.selection.device === device ? null : device;
  select(board, { device: wanted });
  if (wanted === null) board.say("No device is selected.");
}

/**
 * A click, or Enter, on a device or a collective; once more releases it.
 * @returns whether that selects anything
 */
export function choose(board: Board, target: Element): boolean {
  if (target.closest("button:not(.mlb-fold), a, summary, select, input, .mlb-term")) return false;
  const device = target.closest("[data-device]")?.getAttribute("data-device");
  if (device !== null && device !== undefined) {
    chooseDevice(board, Number(device));
    return true;
  }
  const id = target.closest("[data-collective]:not(.mlb-segment)")?.getAttribute("data-collective");
  if (!id) return false;
  chooseCollective(board, board.selection.collective === id ? null : id);
  return true;
}

function chooseCollective(board: Board, id: string | null) {
  select(board, { collective: id, moment: null });
  const row = board.view.collectives.rows.find((each) => each.id === id);
  bringIntoPanel(board.root);
  const segments = board.view.timeline?.lanes.flatMap((lane) => lane.segments) ?? [];
  const parts = segments.filter((each) => each.collective === id).length;
  const drawn = parts ? ` The step over time has it in ${plural(parts, "place")}.` : "";
  const what = row ? `${row.kind} over ${row.key} of ${row.value}` : "a collective";
  board.say(id ? `Selected: ${what}.${drawn}` : "No collective is selected.");
}

/** Scrolls a panel to the row of the collective that is selected, with what it says, and nothing around the panel. */
export function bringIntoPanel(root: Element) {
  const row = root.querySelector(".mlb-collective[aria-current]");
  const panel = row?.closest(".mlb-body");
  if (!row || !panel) return;
  const [inner, outer] = [row.getBoundingClientRect(), panel.getBoundingClientRect()];
  const last = row.nextElementSibling?.getBoundingClientRect().bottom ?? inner.bottom;
  if (inner.top < outer.top || Math.max(inner.bottom, last) > outer.bottom)
    panel.scrollTop += inner.top - outer.top - 8;
}

/** Marks what is selected in all that is drawn. */
export function paintSelection(board: Board) {
  const { root, selection, view } = board;
  const { dim, device, collective } = selection;
  for (const chip of root.querySelectorAll(".mlb-chip[data-dim]"))
    current(chip, dim !== null && chip.getAttribute("data-dim") === dim);
  for (const row of root.querySelectorAll("[data-collective]")) {
    const id = row.getAttribute("data-collective");
    current(row, collective !== null && id === collective);
    const moved = view.collectives.rows.find((each) => each.id === id);
    row.toggleAttribute("data-related", moved !== undefined && concerns(moved, dim));
  }
  for (const tile of root.querySelectorAll("[data-device]")) {
    const number = Number(tile.getAttribute("data-device"));
    current(tile, device === number);
    const groups = selection.groups.filter((group) => number !== device && group.devices.includes(number));
    tile.toggleAttribute("data-peer", groups.length > 0);
    const words = groups.map((group) => group.key).join(", ");
    if (words) tile.setAttribute("data-peer", words);
    const label = tile.querySelector(".mlb-peer");
    if (label) label.textContent = words;
  }
  markSlices(root, device === null ? null : root.querySelector(`[data-device="${device}"]`));
  openSelected(root, collective);
  paintTensors(board);
}

/** Marks the tensors that have the dim, in the list to choose from. */
function paintTensors({ root, selection, view }: Board) {
  const dims = new Map(view.places.rows.map((row) => [row.place, row.dims]));
  for (const option of root.querySelectorAll(".mlb-tensors option")) {
    const has = selection.dim !== null && dims.get(option.getAttribute("value") ?? "")?.includes(selection.dim);
    const text = (option.textContent ?? "").replace(/^● /, "");
    const wanted = has ? `● ${text}` : text;
    if (option.textContent !== wanted) option.textContent = wanted;
    option.toggleAttribute("data-related", Boolean(has));
  }
}

function current(element: Element, is: boolean) {
  if (is) element.setAttribute("aria-current", "true");
  else element.removeAttribute("aria-current");
}

/**
 * What is to be said of a device when Python has told its groups.
 * @returns "" where no device is selected
 */
export function deviceText(view: View, selection: Selection): string {
  if (selection.device === null) return "";
  const place = Object.entries(selection.coordinates).map(([axis, at]) => `${axis} ${at}`);
  const { shards } = view;
  const split = (shards?.splits ?? []).flatMap((axes, i) => (axes.length ? [i] : []));
  const known = shards !== null && selection.ranges.length === shards.dims.length;
  const ranges = known ? split.map((i) => rangeText(shards.dims[i], selection.ranges[i])) : [];
  const holds = known ? ` holds ${ranges.join(", ") || "all"} of ${shards.place}` : "";
  const groups = selection.groups.map((group) => `over ${group.key} with ${others(group, selection.device)}`);
  const talks = groups.length ? `it talks ${groups.join(", and ")}` : "it sends nothing";
  return `Device ${selection.device} (${place.join(", ")})${holds}; ${talks}.`;
}

function rangeText(dim: string, [start, stop]: number[]): string {
  return stop > start ? `${dim} ${start} to ${stop - 1}` : `only padding of ${dim}`;
}

function others(group: Selection["groups"][number], device: number | null): string {
  const listed = group.devices.filter((each) => each !== device);
  const more = group.size - 1 - Math.min(listed.length, 8);
  return `${listed.slice(0, 8).join(", ")}${more > 0 ? ` and ${more} more` : ""}`;
}
