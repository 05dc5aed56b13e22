/**
 * Steps through a collective: before, hop by hop, afterwards; forward, back, and by itself. Python says what is sent
 * (`views/devices/hops.py`). Which hop is shown is the page's alone. Arrow keys step, Home and End go to the ends, Space
 * plays. Pieces move only where motion is welcome.
 */
import type { Board } from "./board.ts";
import { h, prose, redraw, s } from "./dom.ts";
import { bytes, exact, seconds } from "./format.ts";
import { drawHopPicture } from "./hop_picture.ts";
import { lastOf, nameOf, positionText } from "./hop_states.ts";
import { select } from "./selection.ts";
import { drawSpots, spot } from "./spots.ts";
import type { Drawing } from "./stage.ts";
import type { Collective, Hops } from "./types.ts";

// Milliseconds: between two hops that are played, and for a piece to get there.
const [PACE, FLIGHT] = [1400, 520];
const KEYS = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1, Home: -Infinity, End: Infinity } as Record<
  string,
  number
>;
const ICONS = {
  first: "M3 2v10M11 2L6 7l5 5",
  back: "M9 2L4 7l5 5",
  forward: "M5 2l5 5l-5 5",
  last: "M11 2v10M3 2l5 5l-5 5",
  play: "M4 2l8 5l-8 5z",
  pause: "M4 2v10M10 2v10",
} as Record<string, string>;

/** What is known of the hops of a collective in the group of the selected device. */
function hopsOf({ reads, selection }: Board, collective: string): { hops: Hops | null; error: string } {
  const { data, error } = reads.of("hops", { collective, device: selection.device ?? 0 });
  return { hops: data?.id ? data : null, error };
}

/** The steps of a collective; those of a layout that stands beside the board's are not shown. */
export function drawHops(board: Board, collective: string): HTMLElement | null {
  if ("isOther" in board) return null;
  return spot("hops", () => {
    const { hops, error } = hopsOf(board, collective);
    if (error) return [h("p", { class: "mlb-error" }, `✕ ${error}`)];
    if (!hops) return [h("p", { class: "mlb-none" }, "Its hops are being worked out …")];
    return [drawPlayer(board, hops)];
  });
}

/** The position that is shown: of another collective the first. */
function positionOf({ chosen }: Board, hops: Hops): number {
  return chosen.hop.of === hops.id ? Math.min(chosen.hop.at, lastOf(hops)) : 0;
}

/** What leads to the steps of a collective, wherever it is told of. */
export function drawStepThrough(board: Board, id: string): HTMLElement | null {
  if ("isOther" in board || !board.stage.tabs.get("traffic")?.isConnected) return null;
  const onclick = () => stepThrough(board, id);
  return h(
    "button",
    { type: "button", class: "mlb-button", title: "H", onclick, "data-op": "step_through" },
    "▶ Step through",
  );
}

/** Shows the steps of a collective in Traffic, and gives them the keys as soon as they are known. */
export function stepThrough(board: Board, id: string) {
  const { chosen, stage } = board;
  if (id !== board.selection.collective) select(board, { collective: id, moment: null });
  chosen.hop.wanted = true;
  if (stage.shown !== "traffic") stage.show("traffic");
  goThere(board);
}

function goThere(board: Board) {
  const player = board.root.querySelector<HTMLElement>(".mlb-hops");
  const panel = player?.closest(".mlb-body");
  if (!board.chosen.hop.wanted || !player || !panel) return;
  board.chosen.hop.wanted = false;
  player.focus({ preventScroll: true });
  panel.scrollTop += player.getBoundingClientRect().top - panel.getBoundingClientRect().top - 8;
}

function drawPlayer(board: Board, hops: Hops): HTMLElement {
  queueMicrotask(() => goThere(board));
  const played = hops.hops.length > 0;
  return h(
    "div",
    {
      class: "mlb-hops",
      role: "group",
      tabindex: played ? 0 : -1,
      "aria-label": `${hops.kind} over ${hops.key} of ${hops.value}, hop by hop`,
      "data-collective-hops": hops.id,
      "data-group-of": board.selection.device ?? 0,
      onkeydown: (event) => onKey(board, event),
    },
    h("div", { class: "mlb-hops-head" }, h("span", { class: "mlb-tag" }, "Hop by hop:"), drawGroups(board, hops)),
    played && drawControls(board, hops),
    h("div", { class: "mlb-hops-shown" }, drawShown(board, hops)),
    h("p", { class: "mlb-foot mlb-hops-sums" }, sumsText(board, hops)),
    hops.note && h("p", { class: "mlb-foot" }, hops.note),
  );
}

/** Which group is drawn, and the others to choose from. */
function drawGroups(board: Board, hops: Hops): (Node | string)[] {
  const { group_count: count, group, groups, devices, size, more } = hops;
  const drawn =
    devices.length && more ? `: the first ${exact(devices.length)}, and ${exact(more)} more that do the same` : "";
  if (count === 1) return [`${exact(size)} devices${drawn}`];
  const choose = ({ currentTarget: { value } }: { currentTarget: HTMLSelectElement }) =>
    select(board, { device: Number(value) });
  const picker = h(
    "select",
    { class: "mlb-select mlb-hops-group", "aria-label": "group of devices", onchange: choose },
    groups.map(({ device, name }) => h("option", { value: device, selected: device === group }, name)),
  );
  return [picker, `one of ${exact(count)} groups of ${exact(size)} devices${drawn}`];
}

function drawControls(board: Board, hops: Hops): HTMLElement {
  const button = (name: string, label: string, onclick: () => void) =>
    h(
      "button",
      {
        type: "button",
        class: "mlb-button mlb-hop-button",
        "data-hop": name,
        "aria-label": label,
        title: label,
        onclick,
      },
      drawIcon(name),
      name === "play" && h("span", {}, "Play"),
    );
  const range = h("input", {
    type: "range",
    class: "mlb-hop-range",
    min: 0,
    max: lastOf(hops),
    value: positionOf(board, hops),
    "aria-label": "hop",
    "aria-valuetext": nameOf(hops, positionOf(board, hops)),
    oninput: ({ currentTarget: { value } }) => go(board, Number(value)),
  });
  return h(
    "div",
    { class: "mlb-hop-controls" },
    button("first", "before the first hop", () => go(board, 0)),
    button("back", "one hop back", () => step(board, -1)),
    button("play", "play", () => toggle(board)),
    button("forward", "one hop forward", () => step(board, 1)),
    button("last", "after the last hop", () => go(board, Infinity)),
    range,
  );
}

function drawIcon(name: string): SVGElement {
  return s(
    "svg",
    { viewBox: "0 0 14 14", width: 14, height: 14, "aria-hidden": "true" },
    s("path", { d: ICONS[name] }),
  );
}

function drawShown(board: Board, hops: Hops): (Node | null)[] {
  const position = positionOf(board, hops);
  const { stage, selection } = board;
  // What is around it in the panel has its room as well.
  const width = Math.max(270, stage.body(stage.shown).clientWidth - 72);
  return [
    h("p", { class: "mlb-hop-said", "aria-live": "polite" }, prose(positionText(hops, position))),
    drawHopPicture(board.view, hops, position, width, selection.device, board.room.scale),
  ];
}

/** What a device sends in all, by its formula; on a machine how long that takes. */
export function sumsText({ view }: Pick<Board, "view">, hops: Hops): string {
  const often = hops.times > 1 ? `, ${exact(hops.times)} times a step` : "";
  const sent = `Each device sends ${hops.formula}${often}; n = ${exact(hops.size)} devices.`;
  if (hops.seconds === null) return sent;
  const over = hops.times > 1 ? " each time" : "";
  return `${sent} On ${view.machine.on} that takes ${seconds(hops.seconds)}${over}, by all links that the machine has for it.`;
}

// To step

/** The hops that are shown, if some are. */
function shownOf(board: Board): Hops | null {
  const id = board.root.querySelector("[data-collective-hops]")?.getAttribute("data-collective-hops");
  return id ? hopsOf(board, id).hops : null;
}

/** Goes to a position, and plays no longer. */
function go(board: Board, to: number) {
  stop(board);
  show(board, to);
}

function step(board: Board, by: number) {
  const hops = shownOf(board);
  if (hops) go(board, positionOf(board, hops) + by);
}

function show(board: Board, to: number) {
  const hops = shownOf(board);
  if (!hops) return;
  const [before, at] = [positionOf(board, hops), Math.max(0, Math.min(lastOf(hops), to))];
  board.chosen.hop = { ...board.chosen.hop, of: hops.id, at };
  paintHops(board);
  if (at === before + 1) fly(board.root);
}

function toggle(board: Board) {
  const hops = shownOf(board);
  if (!hops) return;
  if (board.chosen.hop.timer) return go(board, positionOf(board, hops));
  show(board, positionOf(board, hops) === lastOf(hops) ? 0 : positionOf(board, hops) + 1);
  goOn(board);
}

/** Steps on after a while, until the end, or until it is no longer seen. */
function goOn(board: Board) {
  board.chosen.hop.timer = window.setTimeout(() => {
    const hops = shownOf(board);
    board.chosen.hop.timer = 0;
    if (hops && board.root.isConnected && board.chosen.hop.of === hops.id && positionOf(board, hops) < lastOf(hops)) {
      show(board, positionOf(board, hops) + 1);
      goOn(board);
    } else paintHops(board);
  }, PACE);
  paintHops(board);
}

function stop({ chosen }: Board) {
  window.clearTimeout(chosen.hop.timer);
  chosen.hop.timer = 0;
}

function onKey(board: Board, event: KeyboardEvent) {
  const target = event.target as HTMLElement;
  if (event.ctrlKey || event.metaKey || event.altKey || target.closest("select")) return;
  const hops = shownOf(board);
  if (!hops) return;
  if (event.key in KEYS) go(board, positionOf(board, hops) + KEYS[event.key]);
  else if (event.key === " " && !target.closest("button")) toggle(board);
  else return;
  event.preventDefault();
  event.stopPropagation();
}

/** Draws the position that is chosen, in what is there already: the controls stay under the hand. */
function paintHops(board: Board) {
  const root = board.root.querySelector(".mlb-hops");
  const hops = shownOf(board);
  if (!root || !hops) return;
  const [at, playing] = [positionOf(board, hops), board.chosen.hop.timer > 0];
  // Pieces that stay do not go on with the flight of another hop.
  for (const flight of root.getAnimations({ subtree: true })) flight.cancel();
  const shown = root.querySelector(".mlb-hops-shown");
  if (shown) redraw(shown, ...drawShown(board, hops));
  const range = root.querySelector(".mlb-hop-range") as HTMLInputElement | null;
  if (range) range.value = String(at);
  range?.setAttribute("aria-valuetext", nameOf(hops, at));
  const label = playing ? "pause" : "play";
  const button = root.querySelector("[data-hop=play]");
  button?.setAttribute("aria-label", label);
  button?.setAttribute("title", label);
  button?.querySelector("path")?.setAttribute("d", ICONS[label]);
  const word = button?.querySelector("span");
  if (word) word.textContent = playing ? "Pause" : "Play";
  for (const [names, end] of [
    ["first back", 0],
    ["forward last", lastOf(hops)],
  ] as const)
    for (const name of names.split(" "))
      root.querySelector(`[data-hop=${name}]`)?.setAttribute("aria-disabled", String(at === end));
}

/** Lets the hops that are drawn follow the device that is selected, and shows what is chosen of them. */
export function markHops(board: Board) {
  const drawn = board.root.querySelector(".mlb-hops");
  if (!drawn) return;
  if (drawn.getAttribute("data-group-of") !== String(board.selection.device ?? 0)) drawSpots(board.root, "hops");
  paintHops(board);
}

/** Draws the hops again, if some are shown, as wide as the stage is now. */
export function fitHops(board: Board) {
  if (board.root.querySelector(".mlb-hops")) paintHops(board);
}

/** Moves what has just come from where it was. */
function fly(root: Element) {
  if (matchMedia("(prefers-reduced-motion: reduce)").matches) return;
  for (const piece of root.querySelectorAll(".mlb-hop-new")) {
    const from = root.querySelector(`.mlb-hop-row[data-of="${piece.getAttribute("data-from")}"]`);
    const own = piece.closest(".mlb-hop-row");
    const scale = (piece.closest("svg") as SVGSVGElement | null)?.getScreenCTM()?.d ?? 1;
    if (!from || !own) continue;
    const away = (from.getBoundingClientRect().top - own.getBoundingClientRect().top) / scale;
    piece.animate(
      [
        { transform: `translateY(${away}px)`, opacity: 0.4 },
        { transform: "none", opacity: 1 },
      ],
      {
        duration: FLIGHT,
        easing: "ease-in-out",
      },
    );
  }
}

// A view by itself

/** The collective that is shown by itself: the one that is selected, or the one that sends most. */
function chosenOf({ view, selection }: Board): Collective | undefined {
  const { rows } = view.collectives;
  return rows.find(({ id }) => id === selection.collective) ?? rows[0];
}

/** The collectives to choose from. */
function drawCollectivePicker(board: Board): HTMLElement[] {
  const chosen = chosenOf(board);
  if (!chosen) return [];
  const choose = ({ currentTarget: { value } }: { currentTarget: HTMLSelectElement }) =>
    select(board, { collective: value, moment: null });
  const picker = h(
    "select",
    { class: "mlb-select", "aria-label": "collective", onchange: choose },
    board.view.collectives.rows.map((row) =>
      h(
        "option",
        { value: row.id, selected: row.id === chosen.id },
        `${row.kind} over ${row.key} of ${row.value}   ${bytes(row.total)} a step`,
      ),
    ),
  );
  return [picker];
}

function drawCollective(board: Board): (Node | null)[] {
  const chosen = chosenOf(board);
  if (!chosen) return [h("p", { class: "mlb-none" }, "Nothing is sent under this layout: there are no hops to show.")];
  return [h("p", { class: "mlb-because" }, prose(chosen.because)), drawHops(board, chosen.id)];
}

export const panel: Drawing = {
  tools: drawCollectivePicker,
  draw: drawCollective,
  marked: paintHops,
  alone: true,
};
