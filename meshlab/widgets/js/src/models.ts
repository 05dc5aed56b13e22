/** The model on the board, and the list of those that have names: searched by what is typed, gone through by arrow keys. */

import type { Board } from "./board.ts";
import { type Child, h, redraw } from "./dom.ts";
import { exact, threeDigits } from "./format.ts";
import type { ListedModel } from "./types.ts";

const UNITS = ["", " k", " M", " B", " T"];

/** 8030261248 → "8.03 B". */
export function compact(count: number): string {
  const power = count < 1 ? 0 : Math.min(UNITS.length - 1, Math.floor(Math.log10(count * 1.0005) / 3));
  return `${threeDigits(count / 1000 ** power)}${UNITS[power]}`;
}

/** The models in whose names or groups all words are. */
export function matching(rows: ListedModel[], typed: string): ListedModel[] {
  const words = typed.toLowerCase().split(/\s+/).filter(Boolean);
  return rows.filter(({ name, group }) => words.every((word) => `${name} ${group}`.toLowerCase().includes(word)));
}

/** What the board is of; a button, where another model can be opened. */
export function drawTitle(board: Board): HTMLElement | null {
  const { title } = board.view;
  if (!title) return null;
  if (!board.can("open")) return h("b", { class: "mlb-title", title: `the program: ${title}` }, title);
  return h(
    "button",
    {
      type: "button",
      class: "mlb-button mlb-model",
      "data-op": "models",
      "aria-haspopup": "dialog",
      "aria-label": `${title}: open another model`,
      title: `the program: ${title}. Open another model`,
      onclick: ({ currentTarget }) => openModels(board, currentTarget),
    },
    h("span", { class: "mlb-title" }, title),
    h("span", { "aria-hidden": "true" }, "▾"),
  );
}

function openModels(board: Board, head: HTMLElement) {
  const list = h("div", { class: "mlb-models" });
  const search: HTMLInputElement = h("input", {
    type: "search",
    "aria-label": "find a model",
    placeholder: "find a model",
    autocomplete: "off",
    oninput: (): void => draw(),
  });
  const draw = (): void => redraw(list, ...drawModels(board, search.value));
  const onkeydown = (event: KeyboardEvent & { currentTarget: HTMLElement }) => {
    if (goThrough(event.currentTarget, search, event.key)) event.preventDefault();
  };
  const box = h("div", { class: "mlb-models-box", onkeydown }, search, list);
  board.popover.models = draw;
  draw();
  askModels(board);
  board.popover.open(head, "Open a model", [box]);
}

async function askModels(board: Board) {
  const answer = await board.channel.intent("list_models");
  if (answer === null) board.popover.missed(() => askModels(board));
}

/** Arrow keys go from the field through the models; Enter in the field opens the first. */
function goThrough(box: HTMLElement, search: HTMLElement, key: string): boolean {
  const focused = (box.getRootNode() as Document | ShadowRoot).activeElement;
  const stops = [search, ...box.querySelectorAll<HTMLElement>(".mlb-models button")];
  if (key === "Enter" && focused === search) stops[1]?.click();
  else if (key !== "ArrowDown" && key !== "ArrowUp") return false;
  else stops[stops.indexOf(focused as HTMLElement) + (key === "ArrowDown" ? 1 : -1)]?.focus();
  return true;
}

function drawModels(board: Board, typed: string): (Child | Child[])[] {
  const { models, title } = board.view;
  const rows = matching(models?.rows ?? [], typed);
  const groups = [...new Set(rows.map((row) => row.group))];
  const more =
    !models?.whole && !models?.error && h("p", { class: "mlb-none", role: "status" }, "Listing the models …");
  const error = models?.error && h("p", { class: "mlb-error" }, models.error);
  const none =
    models?.whole && rows.length === 0 && h("p", { class: "mlb-none", role: "status" }, "No model is called so.");
  return [
    groups.map((group) =>
      h(
        "section",
        { key: group },
        h("h4", {}, group),
        rows.filter((row) => row.group === group).map((row) => drawModel(board, row, row.name === title)),
      ),
    ),
    more,
    error,
    none,
  ];
}

function drawModel(board: Board, { name, parameters, sizes }: ListedModel, here: boolean): HTMLElement {
  const of = Object.entries(sizes).map(([dim, size]) => `${dim} ${exact(size)}`);
  return h(
    "button",
    {
      type: "button",
      key: name,
      class: "mlb-model-row",
      "data-model": name,
      "aria-current": here ? "true" : null,
      onclick: () => board.popover.send("open", { model: name }),
    },
    h("b", {}, here ? `${name} ✓` : name),
    h("span", {}, `${compact(parameters)} parameters`),
    h("span", { class: "mlb-model-sizes" }, of.join(" · ")),
  );
}
