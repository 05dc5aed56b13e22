/**
 * The collectives as a table: what each moves, over what, how often, and how much it sends. Columns sort, a text filters.
 * The row of the selected one opens: why it is there, what would remove it, and the line that causes it.
 */

import type { Board } from "./board.ts";
import type { Order } from "./chosen.ts";
import { h, prose } from "./dom.ts";
import { bytes, exact, plural } from "./format.ts";
import { drawHops } from "./hops.ts";
import { axisLabel, markClass } from "./marks.ts";
import { drawRemedies } from "./remedies.ts";
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

/** What a row says when it is open, by its place. */
const DETAILS: WeakMap<Element, () => (Node | null | false)[]> = new WeakMap();

/** Opens the row of the collective that is selected, and closes the others. */
export function openSelected(root: Element, selected: string | null) {
  for (const more of root.querySelectorAll(".mlb-collective-more")) {
    const open = selected !== null && more.getAttribute("data-of") === selected && !more.hasAttribute("data-filtered");
    const place = more.firstElementChild;
    const head = more.previousElementSibling;
    head?.querySelector(".mlb-fold")?.setAttribute("aria-expanded", String(open));
    if (place && open && !place.hasChildNodes())
      place.append(...(DETAILS.get(more)?.() ?? []).filter((each) => each !== null && each !== false));
    if (place && !open) place.replaceChildren();
    more.toggleAttribute("hidden", !open);
    if (open) head?.removeAttribute("hidden");
  }
}

/** @returns its row, and the one below that opens */
function drawOne(board: Board, row: Collective): HTMLElement[] {
  const { view } = board;
  const { kind, key, total, wire, times, payload, value, dims, because, id } = row;
  const often = times > 1 ? ` × ${exact(times)}` : "";
  const what = `${kind} over ${key} of ${value}`;
  const fold = h("button", {
    type: "button",
    class: "mlb-fold",
    "aria-expanded": "false",
    "aria-label": `why: ${what}`,
    "data-key": `fold:${id}`,
  });
  const number = (text: string, title: string) => h("td", { class: "mlb-number", title }, text);
  const head = h(
    "tr",
    {
      class: `mlb-collective ${markClass(view, key)}`,
      "data-kind": kind,
      "data-axes": key,
      "data-collective": id,
      "data-key": `collective:${id}`,
      tabindex: 0,
    },
    h("td", { class: "mlb-collective-kind" }, fold, h("b", {}, kind)),
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
  const more = h(
    "tr",
    { class: "mlb-collective-more", "data-of": id, hidden: true },
    h("td", { colspan: COLUMNS.length }),
  );
  DETAILS.set(more, () => drawDetails(board, row));
  return [head, more];
}

function drawDetails(board: Board, row: Collective): (HTMLElement | null | false)[] {
  const { wire, times, payload, dtype, because, source, code, total } = row;
  const often = times > 1 ? `, ${exact(times)} times: ${bytes(total)}` : "";
  return [
    h("p", {}, prose(because)),
    h("p", { class: "mlb-none" }, `Payload ${bytes(payload)} of ${dtype}; each device sends ${bytes(wire)}${often}.`),
    drawRemedies(board, row, "traffic"),
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

function drawHead(board: Board, sort: () => void): HTMLElement {
  const heads = COLUMNS.map(({ name, label, of, number }) => {
    const turn = () => {
      const same = board.chosen.order.by === name;
      board.chosen.order = { ...board.chosen.order, by: name, down: same ? !board.chosen.order.down : Boolean(number) };
      sort();
    };
    const button = h(
      "button",
      { type: "button", class: "mlb-sort", "data-key": `sort:${name}`, title: TITLES[name], onclick: turn },
      label,
    );
    return h(
      "th",
      { scope: "col", "data-column": name, class: number ? "mlb-number" : "" },
      button,
      of && h("small", {}, of),
    );
  });
  return h("thead", {}, h("tr", {}, heads));
}

export function drawCollectives(board: Board): (HTMLElement | null)[] {
  const { view } = board;
  const { rows, left_out: left } = view.collectives;
  if (rows.length === 0) return [h("p", { class: "mlb-none" }, idle(view))];
  const drawn = new Map(rows.map((row) => [row, drawOne(board, row)]));
  const body = h("tbody");
  const count = h("p", { class: "mlb-none mlb-counted", "aria-live": "polite" });
  const arrange = () => {
    const { order } = board.chosen;
    const ordered = sorted(rows, order);
    body.append(...ordered.flatMap((row) => drawn.get(row) ?? []));
    for (const head of table.querySelectorAll("th"))
      if (head.getAttribute("data-column") !== order.by) head.removeAttribute("aria-sort");
      else head.setAttribute("aria-sort", order.down ? "descending" : "ascending");
    let shown = 0;
    for (const row of ordered) {
      const [head, more] = drawn.get(row) as HTMLElement[];
      const fits = matches(row, order.filter);
      shown += Number(fits);
      head.hidden = !fits || (!order.all && shown > MOST);
      more.toggleAttribute("data-filtered", !fits);
    }
    all.hidden = order.all || shown <= MOST;
    all.textContent = `Show all ${exact(shown)}`;
    openSelected(table, board.selection.collective);
    count.textContent = counted(view, shown);
  };
  const table = h(
    "table",
    { class: "mlb-table mlb-collectives", "aria-label": "collectives" },
    drawHead(board, arrange),
    body,
  );
  const all = h("button", {
    type: "button",
    class: "mlb-button mlb-all",
    "data-key": "all-collectives",
    onclick: () => {
      board.chosen.order = { ...board.chosen.order, all: true };
      arrange();
      drawn
        .get(sorted(rows, board.chosen.order).filter((row) => matches(row, board.chosen.order.filter))[MOST])?.[0]
        .focus({ preventScroll: true });
    },
  });
  const search = h("input", {
    type: "search",
    class: "mlb-find",
    placeholder: "filter: kind, axis, name, line …",
    "aria-label": "filter the collectives",
    "data-key": "filter",
    value: board.chosen.order.filter,
  });
  search.addEventListener("input", () => {
    board.chosen.order = { ...board.chosen.order, filter: search.value.trim() };
    arrange();
  });
  arrange();
  return [
    h("div", { class: "mlb-table-tools" }, rows.length > 1 ? search : null, count),
    h("div", { class: "mlb-table-box" }, table),
    all,
    left ? h("p", { class: "mlb-none" }, `and ${exact(left)} smaller ones`) : null,
  ];
}
