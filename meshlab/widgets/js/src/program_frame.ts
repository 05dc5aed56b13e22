/** What stands around the rows of the program: a search, a filter, the tree, and what is said of the active row. */
import { h } from "./dom.ts";
import type { Program } from "./program.ts";
import type { Filter } from "./program_tree.ts";

/** Whose program is shown, by what Python calls its tree. */
export type Whose = "program" | "inserted";
const PROGRAMS: Record<Whose, string> = { program: "the plan", inserted: "XLA's program" };

export const FILTERS: Record<Filter, string> = { all: "all steps", collectives: "collectives", matmuls: "matmuls" };

/** Makes the elements, which stay. */
export function makeFrame(program: Program) {
  const input = h("input", {
    type: "search",
    class: "mlb-program-find",
    placeholder: "find dim, value, operation, line",
    "aria-label": "find in the program",
    oninput: () => program.find(),
    onkeydown: (event: KeyboardEvent) => program.onFind(event),
  });
  const found = h("span", { class: "mlb-found", role: "status" });
  const turn = (step: 1 | -1, text: string, label: string) =>
    h(
      "button",
      {
        type: "button",
        class: "mlb-button mlb-turn",
        "aria-label": label,
        onclick: () => program.goOn(step),
      },
      text,
    );
  const picker = h(
    "select",
    {
      class: "mlb-select",
      "aria-label": "steps to show",
      onchange: ({ currentTarget: { value } }) => program.choose(value as Filter),
    },
    Object.entries(FILTERS).map(([value, text]) => h("option", { value }, text)),
  );
  const whose = h(
    "select",
    {
      class: "mlb-select",
      "aria-label": "whose program",
      onchange: ({ currentTarget: { value } }) => program.show(value as Whose),
    },
    Object.entries(PROGRAMS).map(([value, text]) => h("option", { value }, text)),
  );
  const turns = [turn(-1, "↑", "previous hit"), turn(1, "↓", "next hit")];
  const tools = h("div", { lasting: true, class: "mlb-program-tools" }, input, found, turns, picker, whose);
  const space = h("div", { class: "mlb-program-space", role: "presentation" });
  const list = h(
    "div",
    {
      lasting: true,
      class: "mlb-tree",
      role: "tree",
      "aria-label": "steps of the program",
      tabindex: "0",
      onscroll: () => program.paint(),
      onkeydown: (event: KeyboardEvent) => program.onKey(event),
      onclick: (event: MouseEvent) => program.onClick(event),
    },
    space,
  );
  const detail = h("div", {
    lasting: true,
    class: "mlb-program-detail",
    role: "group",
    "aria-label": "the active step",
    tabindex: "0",
  });
  return { input, found, picker, whose, tools, space, list, detail };
}
