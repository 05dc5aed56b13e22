/** What "?" of the header opens: the tour, the pages of the project, the keys, and the words of the board. */

import type { Board } from "./board.ts";
import { h, prose } from "./dom.ts";
import { drawKeys } from "./keys.ts";
import { pageLink } from "./pages.ts";
import { TERMS } from "./terms.ts";

const PAGES = [
  ["docs/start.md", "Start in ten minutes"],
  ["docs/learn.md", "Lessons"],
  ["docs/board.md", "The board"],
  ["docs/gallery.md", "Gallery"],
  ["docs/glossary.md", "Glossary"],
];

export function drawHelp(board: Board): HTMLElement {
  const open = (opener: HTMLElement) =>
    board.popover.open(opener, "Help", [
      drawStart(board),
      drawPages(),
      heading("Keys"),
      drawKeys(board),
      ...drawWords(),
    ]);
  return h(
    "button",
    {
      type: "button",
      class: "mlb-button",
      "data-op": "help",
      "aria-haspopup": "dialog",
      "aria-label": "Help",
      title: "Help: the tour, the keys and the words of the board",
      onclick: ({ currentTarget }) => open(currentTarget),
    },
    "?",
  );
}

const heading = (text: string) => h("h4", {}, text);

function drawStart(board: Board): HTMLElement {
  const start = () => {
    board.tour.start(true);
    board.popover.element.hidePopover();
  };
  const words = "Start the tour";
  return h("button", { type: "button", class: "mlb-button mlb-primary", "data-op": "tour", onclick: start }, words);
}

function drawPages(): HTMLElement {
  const links = PAGES.map(([path, title]) => h("li", {}, pageLink(path, title)));
  return h("ul", { class: "mlb-pages", "aria-label": "pages of the project" }, links);
}

/** The glossary, in the order of the alphabet. */
function drawWords(): HTMLElement[] {
  const words = Object.keys(TERMS).sort((one, other) => one.localeCompare(other));
  const rows = words.flatMap((word) => [h("dt", {}, word), h("dd", {}, prose(TERMS[word]))]);
  return [heading("Words"), h("dl", { class: "mlb-words", "aria-label": "words" }, rows)];
}
