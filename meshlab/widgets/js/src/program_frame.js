// @ts-check
/** What stands around the rows of the program: a search, a filter, the tree, and what is said of the active row. */
import { h } from "./dom.js";

/** @typedef {import("./program.js").Program} Program */
/** @typedef {import("./program_tree.js").Filter} Filter */

/** @type {Record<Filter, string>} */
export const FILTERS = { all: "all steps", collectives: "collectives", matmuls: "matmuls" };

/**
 * Makes the elements, which stay.
 * @param {Program} program
 */
export function makeFrame(program) {
  const input = h("input", {
    type: "search",
    class: "mlb-program-find",
    placeholder: "find dim, value, operation, line",
    "aria-label": "find in the program",
    "data-key": "program:find",
    oninput: () => program.find(),
    onkeydown: (/** @type {KeyboardEvent} */ event) => program.onFind(event),
  });
  const found = h("span", { class: "mlb-found", role: "status" });
  const turn = (/** @type {1 | -1} */ step, /** @type {string} */ text, /** @type {string} */ label) =>
    h(
      "button",
      {
        type: "button",
        class: "mlb-button mlb-turn",
        "aria-label": label,
        "data-key": `program:${label}`,
        onclick: () => program.goOn(step),
      },
      text,
    );
  const picker = h(
    "select",
    {
      class: "mlb-select",
      "aria-label": "steps to show",
      "data-key": "program:filter",
      onchange: () => program.choose(/** @type {Filter} */ (picker.value)),
    },
    Object.entries(FILTERS).map(([value, text]) => h("option", { value }, text)),
  );
  const turns = [turn(-1, "↑", "previous hit"), turn(1, "↓", "next hit")];
  const tools = h("div", { class: "mlb-program-tools" }, input, found, turns, picker);
  const space = h("div", { class: "mlb-program-space", role: "presentation" });
  const list = h(
    "div",
    {
      class: "mlb-tree",
      role: "tree",
      "aria-label": "steps of the program",
      tabindex: "0",
      "data-key": "program:tree",
      "data-scroll": "program",
      onscroll: () => program.paint(),
      onkeydown: (/** @type {KeyboardEvent} */ event) => program.onKey(event),
      onclick: (/** @type {MouseEvent} */ event) => program.onClick(event),
    },
    space,
  );
  const detail = h("div", {
    class: "mlb-program-detail",
    role: "group",
    "aria-label": "the active step",
    tabindex: "0",
  });
  return { input, found, picker, tools, space, list, detail };
}
