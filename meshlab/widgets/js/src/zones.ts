/**
 * Draws the board: mesh axes are rows, places are columns, and each zone, where they cross, has the chips of the dims
 * that are sharded there; below is the tray. While a chip is held each zone says what a drop would change, or why it is
 * refused; the best zone has a star.
 */

import type { Board } from "./board.ts";
import { h } from "./dom.ts";
import { drawAxisHead, drawMadeUp, drawPin, pinText } from "./edit.ts";
import { exact, percent, plural, signedBytes, signedSeconds } from "./format.ts";
import { dropIntent, type Hand, partsOf, TRAY, type Verdict, verdict, zoneName, zoneOf, zonesOf } from "./hand.ts";
import { drawNever } from "./keeps.ts";
import { markClass } from "./marks.ts";
import { EMPTY, predicted } from "./model.ts";
import { best, type Priced } from "./prices.ts";
import { type ChipMark, drawTray, foldTray, whyUnfit } from "./tray.ts";
import type { Axis, Chip, Column, RefusedDrop, View } from "./types.ts";

// What a screen reader says of a mark.
const SAID: Record<ChipMark, string> = { star: "has the best zone", unfit: "cannot be split now" };
const ZIGZAG = "in zig-zag order inside attention: each device has an early and a late part, so all have the same work";

/**
 * @param column null in the tray
 * @param help id of the element that explains the keys
 * @param mark what advice says of it
 */
function drawChip(
  view: View,
  chip: Chip,
  axis: string,
  column: Column | null,
  help: string,
  mark?: ChipMark,
): HTMLElement {
  const zone = column ? zoneOf(axis, column.at) : TRAY;
  const axes = column?.rules[chip.name] ?? [];
  const place = column ? `sharded over ${axes.join(", then ")}` : "without a compute rule";
  const where = column?.at ? `, for ${column.label}` : "";
  const zigzag = column?.zigzag?.includes(chip.name);
  const number = axes.length > 1 ? `${axes.indexOf(axis) + 1} of ${axes.length}` : "";
  const order = [number, zigzag && "zig-zag"].filter(Boolean).join(", ");
  const size = exact(chip.size) + (column ? ` → ${exact(Math.ceil(chip.size / parts(view, axes)))}` : "");
  // At a place, where compute rules stand beside it, what a device has of it is enough.
  const short = column?.at ? size.slice(size.indexOf("→")) : size;
  // The label begins with what is seen, for those who speak to their screen.
  const seen = [chip.name, short, order].filter(Boolean).join(" ");
  return h(
    "button",
    {
      type: "button",
      key: chip.name,
      class: `mlb-chip ${column ? markClass(view, axis) : ""}`,
      "data-dim": chip.name,
      "data-zone": zone,
      "data-mark": mark ?? null,
      title: `${chip.name} ${size}${zigzag ? `, ${ZIGZAG}` : ""}${mark === "unfit" ? `, ${SAID.unfit}. ${whyUnfit(view, chip.name)}` : ""}`,
      "aria-label": [
        seen,
        column?.at && size,
        `${place}${where}`,
        zigzag && ZIGZAG,
        !column?.at && pinText(view, chip.name),
        mark && SAID[mark],
      ]
        .filter(Boolean)
        .join(", "),
      "aria-describedby": help,
      "aria-pressed": "false",
    },
    mark === "star" && h("span", { class: "mlb-star", "aria-hidden": "true" }, "★"),
    h("span", { class: "mlb-chip-name" }, chip.name),
    " ",
    h("span", { class: "mlb-chip-size" }, short),
    " ",
    order && h("span", { class: "mlb-chip-order" }, order),
    !column?.at && drawPin(view, chip.name),
  );
}

function parts(view: View, axes: string[]): number {
  return view.mesh.axes.reduce((count, axis) => (axes.includes(axis.name) ? count * axis.size : count), 1);
}

function drawZone(zone: string, label: string, style: string, content: (Node | null)[]): HTMLElement {
  return h(
    "div",
    { key: zone, class: `mlb-zone ${style}`, "data-zone": zone, role: "group", "aria-label": label },
    content,
    h("div", { class: "mlb-zone-note", "aria-hidden": "true" }),
    h("button", { type: "button", class: "mlb-here", "data-drop": zone, hidden: true }),
  );
}

/**
 * The room of a column: no less than what is in it, numbers whole, and than a price needs. What is left goes to the
 * compute rules, and to places by what they hold: one without a rule is as narrow as it can be.
 */
function roomOf({ at, rules }: Column): string {
  const longest = Math.max(0, ...Object.keys(rules).map((name) => name.length));
  return `minmax(min-content, ${at ? Math.min(14, longest) || 0.01 : 40}fr)`;
}

// The characters of a layout's end that are always seen.
const TAIL = 28;

/** The layout on the board by its name, if it has one, and as it is written in Python; where there is no room for all of it, its middle is left out. */
export function drawLayoutLine({ layout: { text }, named }: View): (HTMLElement | null)[] {
  const name = named && h("b", { class: "mlb-layout-name", title: named.text }, named.text);
  const tail = text.length > TAIL ? text.indexOf(" ", text.length - TAIL) : -1;
  const [head, rest] = tail < 0 ? [text || EMPTY, ""] : [text.slice(0, tail), text.slice(tail)];
  return [
    name,
    h("code", { class: "mlb-layout-text", title: text || EMPTY }, h("span", {}, head), h("span", {}, rest)),
  ];
}

/** Draws the table of zones, the tray below it, and the rules that say of a dim that it is not sharded at a place. */
export function drawZones(board: Board): (HTMLElement | null)[] {
  const { view } = board;
  const { columns, mesh } = view;
  const { id } = board.panels.help;
  const heads = columns.map((column) => drawHead(board, column));
  const rows = mesh.axes.flatMap((axis) => [
    drawAxisHead(board, axis),
    ...columns.map((column) => drawCell(board, column, axis, id)),
  ]);
  const free = view.chips.filter((chip) => (columns[0].rules[chip.name] ?? []).length === 0);
  const tray = drawZone(
    TRAY,
    "dims without a compute rule",
    "mlb-tray",
    drawTray(board, free, (chip, mark) => drawChip(view, chip, "", null, id, mark)),
  );
  const widths = columns.map(roomOf).join(" ");
  return [
    h(
      "div",
      // A few rows are as high as a finger is wide; many have to be lower.
      {
        class: "mlb-grid-of-zones",
        style: `--widths: ${widths}; --count: ${mesh.axes.length}; --row: ${mesh.axes.length > 3 ? 31 : 44}px`,
      },
      drawCorner(view),
      heads,
      rows,
    ),
    tray,
    drawMadeUp(board),
    drawStored(board),
  ];
}

/** The head of a column, with the rules at some of its places alone, each to be taken away. */
function drawHead(board: Board, column: Column): HTMLElement {
  const rules = column.within.flatMap(({ at, rules }) =>
    Object.entries(rules).map(([dim, axes]) => ({ at, dim, axes: axes.join("+") || "unsharded" })),
  );
  const name = h("span", { class: "mlb-column-name", title: titleOf(column) }, column.label);
  const look = { key: column.at, class: "mlb-column", "data-column": column.at };
  if (rules.length === 0) return h("div", look, name);
  const about = `${plural(rules.length, "more rule")} for ${column.label}`;
  const open = (opener: HTMLElement) => {
    const lines = rules.map(({ at, dim, axes }) =>
      drawRule(`${at}: ${dim} → ${axes}`, () => board.popover.send("remove", { dim, at })),
    );
    board.popover.open(opener, about, [h("div", { class: "mlb-within-rules" }, lines)]);
  };
  const said = { "aria-haspopup": "dialog", "aria-label": about, title: about };
  const more = { type: "button", class: "mlb-within", ...said };
  const onclick = ({ currentTarget }: { currentTarget: HTMLElement }) => open(currentTarget);
  return h("div", look, name, h("button", { ...more, onclick }, `+${rules.length}`));
}

/** A rule as a button that takes it away. */
function drawRule(text: string, onclick: () => void): HTMLElement {
  const said = { "aria-label": `${text} × (remove this rule)`, title: "remove this rule" };
  return h("button", { type: "button", key: text, class: "mlb-button", ...said, onclick }, h("code", {}, text), " ×");
}

function drawCell(board: Board, column: Column, axis: Axis, help: string): HTMLElement {
  const { view } = board;
  const zone = zoneOf(axis.name, column.at);
  const chips = view.chips.filter((chip) => column.rules[chip.name]?.includes(axis.name));
  const many = axis.inTime ? "times one after the other" : "devices";
  const label = `mesh axis ${axis.name}, ${axis.size} ${many}${column.at ? `, for ${column.label}` : ""}`;
  const { inherited, follows = {} } = column;
  const held = (by: Column["rules"]) => view.chips.filter((chip) => by[chip.name]?.includes(axis.name));
  return drawZone(zone, label, markClass(view, axis.name), [
    h(
      "div",
      { class: "mlb-chips" },
      chips.map((chip) => drawChip(view, chip, axis.name, column, help)),
      held(inherited).map((chip) =>
        drawInherited(view, chip, axis.name, "inherited", "inherited from the compute rules."),
      ),
      held(follows).map((chip) => drawInherited(view, chip, axis.name, "follows", FOLLOWS)),
      column.at ? [] : drawNever(board, axis.name),
    ),
  ]);
}

const FOLLOWS =
  "no rule is here, but each device keeps its part alone of these gradients' sum, as what is made of them is stored so.";

/**
 * A dim that is stored at a place as it is computed, or as what is made of it is, for there is no other rule: no chip, for
 * nothing is there to take.
 */
function drawInherited(view: View, { name }: Chip, axis: string, how: string, why: string): HTMLElement {
  const title = `${name} on ${axis}: ${why}`;
  const attributes = { role: "img", "aria-label": `${name}, ${how}`, title, "data-inherited": name };
  return h("span", { class: `mlb-inherited ${markClass(view, axis)}`, ...attributes }, name);
}

/** What dashed names in columns are, where there are some. */
function drawCorner({ columns }: View): HTMLElement {
  const some = columns.some(({ inherited, follows = {} }) =>
    Object.values({ ...inherited, ...follows }).some((axes) => axes.length > 0),
  );
  const title =
    "dashed: inherited from the compute rules, or from what is made of gradients, as the column has no rule of its own";
  return h("div", { class: "mlb-corner", title }, some && h("span", { class: "mlb-inherited" }, "inherited"));
}

const TITLES = {
  compute: "Compute rules: how values are computed, wherever no rule at a place stores them otherwise.",
  parameters: "How parameters are stored between steps; their gradients and new values follow.",
  gradients: "How gradients are stored when they are complete.",
  state: "How the optimizer's state is stored.",
  tag: "How the values with this tag are stored.",
  glob: "How the values at these places are stored.",
  scope: "How what is in this scope (jax.named_scope) is computed, instead of the compute rules.",
} as Record<string, string>;

function titleOf(column: Column): string {
  return `${column.at ? `${column.at}: ` : ""}${TITLES[column.kind]}`;
}

function drawStored(board: Board): HTMLElement | null {
  const rules = board.view.columns.flatMap(({ at, rules }) =>
    Object.entries(rules).flatMap(([dim, axes]) => (at && axes.length === 0 ? [{ at, dim }] : [])),
  );
  if (rules.length === 0) return null;
  const buttons = rules.map(({ at, dim }) =>
    drawRule(`${at}: ${dim} unsharded`, () => board.send("remove", { dim, at })),
  );
  return h("div", { class: "mlb-stored" }, buttons);
}

/** What a zone says, a line each: for the better, for the worse, or what the better costs. */
type Line = { text: string; mood: "less" | "more" | "cost" | "misfit" | "plain" };

const MISFIT: Line = { text: "⚠ does not fit", mood: "misfit" };
const LEGAL: Line = { text: "✓", mood: "plain" };
// What stands on a zone that does not take the chip.
const SIGNS: Record<string, Line[]> = {
  refused: [{ text: "✕", mood: "more" }],
  unrecorded: [{ text: "not recorded", mood: "plain" }],
};

/** A change in few characters: less is better. */
function line(by: number, text: (by: number) => string, worse: "more" | "cost" = "more"): Line {
  return { text: text(by), mood: by === 0 ? "plain" : by > 0 ? worse : "less" };
}

/** What a drop would change. */
function changes(price: Priced | undefined, view: View): Line[] {
  if (!price || price.refused) return [];
  const { peak_memory: peak, communication, work } = view;
  const time = predicted(view.time);
  const lines: Line[] = [];
  if (time && price.seconds !== null) lines.push(line(price.seconds - time.estimate, signedSeconds));
  else {
    // Bytes alone would tell that nothing is worth sharding: what they buy is less work on each device.
    if (price.work !== work) lines.push(line(price.work - work, () => `→ ${percent(price.work)}`));
    lines.push(line(price.bytes - communication.total, signedBytes, "cost"));
  }
  if (peak && price.peak !== null) lines.push(line(price.peak - peak.bytes, signedBytes));
  return price.fits === false ? [...lines, MISFIT] : lines;
}

/** Paints what each zone says to the chip that is held, or takes the paint off. */
export function paintZones(board: Board) {
  const { hand, view, prices } = board;
  const panel = board.panels.zones;
  panel.classList.toggle("mlb-holding", hand !== null);
  const known = hand ? prices.all(view, hand) : new Map();
  const { time, work, communication, slow } = view;
  const estimate = slow ? null : (predicted(time)?.estimate ?? null);
  const star = hand && !view.goal?.quiet && best(known, { seconds: estimate, work, bytes: communication.total });
  for (const zone of zonesOf(view)) {
    const element = panel.querySelector(`.mlb-zone[data-zone="${CSS.escape(zone)}"]`);
    if (!element) continue;
    const price = known.get(zone);
    const said = hand ? verdict(view, hand, zone, price) : null;
    element.setAttribute("data-state", said?.state ?? "idle");
    element.toggleAttribute("data-aim", hand !== null && hand.target === zone);
    element.toggleAttribute("data-best", zone === star);
    paintNote(element.querySelector(".mlb-zone-note") as HTMLElement, view, said, price, zone === star);
    const here = element.querySelector(".mlb-here") as HTMLButtonElement;
    here.hidden = !(hand?.by === "click" && said?.state === "legal");
    here.setAttribute("aria-label", hand ? `Put here: ${hand.dim} on ${zoneName(view, zone)}` : "");
  }
  for (const chip of panel.querySelectorAll(".mlb-chip")) {
    const pressed = hand?.dim === chip.getAttribute("data-dim") && hand?.from === chip.getAttribute("data-zone");
    chip.setAttribute("aria-pressed", String(pressed));
  }
  focusArrived(board);
}

/**
 * Focuses the chip that was dropped, once it is drawn: the answer may come before the board. Whoever has gone on with
 * something else meanwhile stays there.
 */
export function focusArrived(board: Board) {
  const { zones } = board.panels;
  if (!board.arriving) return;
  const { dim, zone, by } = board.arriving;
  const place = `[data-dim="${CSS.escape(dim)}"][data-zone="${CSS.escape(zone)}"]`;
  const chip = zones.querySelector(`.mlb-chip${place}`) as HTMLElement | null;
  if (!chip) return;
  board.arriving = null;
  if (chip.hidden) {
    board.opened.add("tray");
    foldTray(board);
  }
  const focused = (zones.getRootNode() as Document | ShadowRoot).activeElement;
  if (!focused || focused.contains(zones) || focused.getAttribute("data-dim") === dim)
    chip.focus({ preventScroll: true, focusVisible: by === "keyboard" } as FocusOptions);
}

function paintNote(note: HTMLElement, view: View, said: Verdict | null, price: Priced | undefined, star: boolean) {
  const state = said?.state ?? "";
  const legal = state === "legal" ? changes(price, view) : [];
  const lines = SIGNS[state] ?? (state === "legal" && !legal.length ? [LEGAL] : legal);
  const drawn = lines.map(({ text, mood }) => h("span", { class: `mlb-${mood}` }, ...words(text)));
  // The star stands on the border, so that it takes no room from the numbers.
  note.replaceChildren(...(star ? [h("span", { class: "mlb-note-star" }, "★")] : []), ...drawn);
  note.title = said && state in SIGNS ? said.note : "";
}

/** A narrow zone has room for the sign alone. */
function words(text: string): (Node | string)[] {
  return text === MISFIT.text ? ["⚠", h("span", { class: "mlb-misfit-words" }, " does not fit")] : [text];
}

/** Buttons for what can be done instead of a drop that is refused: what Python offers, pad the dim, or store it at a place. */
export function drawInstead(board: Board, hand: Hand, zone: string, refusal?: RefusedDrop): HTMLElement[] {
  const { dim } = hand;
  const { axis } = partsOf(zone);
  const button = (text: string, args: Record<string, unknown>, op = "place") => {
    const onclick = () => board.send(op, args);
    return h("button", { type: "button", key: text, class: "mlb-button mlb-remedy-button", onclick }, text);
  };
  const padded = button("Pad it", { ...dropIntent(board.view, hand, zone).args, pad: true });
  return [
    ...(refusal?.instead ?? []).map(({ label, op, args }) => button(label, args, op)),
    ...(refusal?.pads && board.can("pad") ? [padded] : []),
    ...(refusal?.columns ?? []).map(({ at, label }) =>
      button(`${dim} on ${axis}, for ${label}`, { dim, axes: [axis], at }),
    ),
  ];
}
