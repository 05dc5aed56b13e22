/**
 * The collectives as a table: what each moves, over what, how often, and how much it sends. Columns sort, a text filters.
 * The row of the selected one opens: why it is there, what would remove it, and the line that causes it.
 */

import type { Board } from "./board.ts";
import type { Order } from "./chosen.ts";
import { type Child, h, prose, redraw } from "./dom.ts";
import { bytes, exact, plural } from "./format.ts";
import { drawHops, drawStepThrough } from "./hops.ts";
import { axisLabel, markClass } from "./marks.ts";
import { drawnWith } from "./reconcile.ts";
import { drawRemedies } from "./remedies.ts";
import { spot } from "./spots.ts";
import { explained, termsOf } from "./terms.ts";
import type { Collective, View } from "./types.ts";

export type Column = {
  name: string;
  label: string;
  of?: string;
  value: (row: Collective) => string | number;
  number?: boolean;
};

const COLUMNS: Column[] = [
  { name: "kind", label: "kind", value: (row) => row.kind },
  { name: "key", label: "over", value: (row) => row.key },
  { name: "value", label: "value, and why", value: (row) => row.value },
  { name: "payload", label: "payload", of: "each time", value: (row) => row.payload, number: true },
  { name: "times", label: "×", of: "a step", value: (row) => row.times, number: true },
  { name: "total", label: "sends", of: "in all", value: (row) => row.total, number: true },
];
const TITLES = {
  payload: "bytes of the operand on one device, one execution",
  times: "executions in one step",
  total: "wire bytes that one device sends in a step, all executions together",
} as Record<string, string>;
// Of more rows the first are shown, and the others on demand.
const MOST = 12;

/** The rows in the order that is asked for; equal ones stay as they come, those that send most first. */
export function sorted(rows: Collective[], { by, down }: Pick<Order, "by" | "down">): Collective[] {
  const { value } = COLUMNS.find((column) => column.name === by) ?? COLUMNS[COLUMNS.length - 1];
  const sign = down ? -1 : 1;
  return [...rows].sort((one, other) => {
    const [a, b] = [value(one), value(other)];
    if (typeof a === "number" && typeof b === "number") return sign * (a - b);
    return sign * String(a).localeCompare(String(b), "en", { numeric: true });
  });
}

/** Whether a collective has all words of a filter, in whatever it says. */
export function matches({ kind, key, value, dims, dtype, source, code, because }: Collective, filter: string): boolean {
  const text = [kind, key, value, dims.join(" "), dtype, source, code, because].join(" ").toLowerCase();
  return filter
    .toLowerCase()
    .split(/\s+/)
    .every((word) => text.includes(word));
}

/** Opens the row of the collective that is selected, and closes the others. */
export function openSelected(root: Element, selected: string | null) {
  for (const more of root.querySelectorAll(".mlb-collective-more")) {
    const open = more.getAttribute("data-of") === selected && !more.hasAttribute("data-filtered");
    const [place, head] = [more.firstElementChild as Element, more.previousElementSibling as Element];
    const details = drawnWith(more).details as () => Child[];
    const around = more.closest(".mlb-body") ?? root;
    if (open !== place.hasChildNodes()) redraw(place, open ? explained([details()], termsOf(around, place)) : []);
    more.toggleAttribute("hidden", !open);
    head.toggleAttribute("hidden", Boolean(drawnWith(head).hidden) && !open);
    head.querySelector(".mlb-fold")?.setAttribute("aria-expanded", String(open));
  }
}

/**
 * @param fits whether the filter leaves it
 * @param shown whether it is among the first
 * @returns its row, and the one below that opens
 */
function drawOne(board: Board, row: Collective, fits: boolean, shown: boolean): HTMLElement[] {
  const { view } = board;
  const { kind, key, total, wire, times, payload, value, dims, because, id } = row;
  const often = times > 1 ? ` × ${exact(times)}` : "";
  const what = `${kind} over ${key} of ${value}`;
  const fold = { type: "button", class: "mlb-fold", "aria-expanded": "false", "aria-label": `why: ${what}` };
  const number = (text: string, title: string) => h("td", { class: "mlb-number", title }, text);
  const head = h(
    "tr",
    {
      key: id,
      class: `mlb-collective ${markClass(view, key)}`,
      "data-kind": kind,
      "data-axes": key,
      "data-collective": id,
      tabindex: 0,
      hidden: !shown,
    },
    h("td", { class: "mlb-collective-kind" }, h("button", fold), h("b", {}, kind)),
    h("td", {}, axisLabel(view, key)),
    h(
      "td",
      { class: "mlb-collective-value", title: because.replaceAll("`", "") },
      h(
        "div",
        {},
        value,
        dims.length > 0 && h("span", { class: "mlb-collective-dims" }, ` [${dims.join(" ")}]`),
        row.source && h("code", { class: "mlb-collective-source" }, ` ${row.source}`),
      ),
      h("div", { class: "mlb-because" }, prose(because)),
    ),
    number(bytes(payload), `payload ${exact(payload)} bytes`),
    number(`× ${exact(times)}`, `${plural(times, "execution")} in a step`),
    number(bytes(total), `wire ${exact(wire)} bytes${often}`),
  );
  const details = () => drawDetails(board, row);
  const more = h(
    "tr",
    { key: `why ${id}`, class: "mlb-collective-more", "data-of": id, "data-filtered": !fits, hidden: true, details },
    h("td", { colspan: COLUMNS.length }, fits && id === board.selection.collective ? details() : []),
  );
  return [head, more];
}

function drawDetails(board: Board, row: Collective): (HTMLElement | null | false)[] {
  const { wire, times, payload, dtype, because, source, code, total } = row;
  const often = times > 1 ? `, ${exact(times)} times: ${bytes(total)}` : "";
  return [
    h("p", {}, prose(because)),
    drawStepThrough(board, row.id),
    h("p", { class: "mlb-none" }, `Payload ${bytes(payload)} of ${dtype}; each device sends ${bytes(wire)}${often}.`),
    drawRemedies(board, row),
    drawHops(board, row.id),
    source !== "" &&
      h("p", { class: "mlb-source" }, h("code", {}, source), code && h("code", { class: "mlb-code" }, code)),
  ];
}

function idle(view: View): string {
  const split = view.chips.some((chip) => chip.axes.length > 0);
  return split
    ? "None: each device works on its own."
    : "None: nothing is sharded, so every device does all of the work.";
}

/** How many there are; in a loop one is executed many times. */
export function counted(view: View, shown: number): string {
  const { rows, left_out: left, count } = view.collectives;
  const written = rows.length + left;
  const often = count > written ? `, which a step executes ${exact(count)} times` : "";
  const some = shown < rows.length ? ` ${exact(shown)} of them match.` : "";
  return `${plural(written, "collective")}${often}.${some}`;
}

function drawHead({ chosen, stage }: Board): HTMLElement {
  const { by, down } = chosen.order;
  const heads = COLUMNS.map(({ name, label, of, number }) => {
    const sort = () => {
      chosen.order = { ...chosen.order, by: name, down: by === name ? !down : Boolean(number) };
      stage.answered("collectives");
    };
    return h(
      "th",
      {
        scope: "col",
        "data-column": name,
        class: number ? "mlb-number" : "",
        "aria-sort": by === name && (down ? "descending" : "ascending"),
      },
      h("button", { type: "button", class: "mlb-sort", title: TITLES[name], onclick: sort }, label),
      of && h("small", {}, of),
    );
  });
  return h("thead", {}, h("tr", {}, heads));
}

export function drawCollectives(board: Board): HTMLElement[] {
  const { view } = board;
  if (view.collectives.rows.length === 0) return [h("p", { class: "mlb-none" }, idle(view))];
  return [spot("collectives", () => drawTable(board))];
}

function drawTable(board: Board): (HTMLElement | null)[] {
  const { view, chosen, stage } = board;
  const { rows, left_out: left } = view.collectives;
  const { order } = chosen;
  const change = (changes: Partial<Order>) => {
    chosen.order = { ...chosen.order, ...changes };
    stage.answered("collectives");
  };
  const found = new Set(rows.filter((row) => matches(row, order.filter)));
  const ordered = sorted(rows, order);
  const first = new Set(ordered.filter((row) => found.has(row)).slice(0, order.all ? undefined : MOST));
  const search = h("input", {
    type: "search",
    class: "mlb-find",
    placeholder: "filter: kind, axis, name, line …",
    "aria-label": "filter the collectives",
    value: order.filter,
    oninput: ({ currentTarget: { value } }) => change({ filter: value.trim() }),
  });
  const count = h("p", { class: "mlb-none mlb-counted", "aria-live": "polite" }, counted(view, found.size));
  const table = h(
    "table",
    { class: "mlb-table mlb-collectives", "aria-label": "collectives" },
    drawHead(board),
    h(
      "tbody",
      {},
      ordered.flatMap((row) => drawOne(board, row, found.has(row), first.has(row))),
    ),
  );
  const showAll = ({ currentTarget }: { currentTarget: HTMLElement }) => {
    const drawn = currentTarget.parentElement as HTMLElement;
    change({ all: true });
    const [next] = [...drawn.querySelectorAll<HTMLElement>(".mlb-collective:not([hidden])")].slice(MOST);
    next.focus({ preventScroll: true });
  };
  const all = { type: "button", class: "mlb-button mlb-all", hidden: first.size === found.size, onclick: showAll };
  return [
    h("div", { class: "mlb-table-tools" }, rows.length > 1 ? search : null, count),
    h("div", { class: "mlb-table-box" }, table),
    h("button", all, `Show all ${exact(found.size)}`),
    left ? h("p", { class: "mlb-none" }, `and ${exact(left)} smaller ones`) : null,
  ];
}
