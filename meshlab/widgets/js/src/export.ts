/**
 * A way out of the notebook: the layout in other forms, to be copied (`copy.ts`), and what is drawn as SVG, PNG and CSV,
 * to be saved. Nothing of this changes the board.
 */

import type { Board } from "./board.ts";
import { drawCopy } from "./copy.ts";
import { blocksOf, csvText } from "./csv.ts";
import { h } from "./dom.ts";
import { exact } from "./format.ts";
import { PANELS } from "./panel_list.ts";
import { pictureOf } from "./svg_page.ts";

export type Drawn = { name: string; title: string; element: HTMLElement };

// Pictures for slides have two pixels for each of CSS; browsers draw no canvas that is longer than this.
const SCALE = 2;
const MOST_PIXELS = 16_384;

/** The button of the header. */
export function drawExport(board: Board): HTMLElement {
  return h(
    "button",
    {
      type: "button",
      class: "mlb-button",
      "data-op": "export",
      "aria-haspopup": "dialog",
      title: "copy the layout as Python, JSON, PartitionSpecs …; save pictures and tables",
      onclick: ({ currentTarget }) => openExport(board, currentTarget),
    },
    "Export ▾",
  );
}

function openExport(board: Board, button: HTMLElement) {
  const views = drawnOn(board).map((drawn) =>
    h(
      "div",
      { class: "mlb-export-row", "data-export": drawn.name },
      h("span", {}, drawn.title),
      saveButtons(board, drawn),
    ),
  );
  const copy = drawCopy(board);
  board.popover.open(button, "Export", [copy.element, h("h4", {}, "Save as a file"), ...views]);
  copy.fill();
}

/** @returns what can be saved of the workbench */
function drawnOn(board: Board): Drawn[] {
  const { stage, panels } = board;
  const title = PANELS.find((panel) => panel.name === stage.shown)?.title ?? stage.shown;
  const frame = board.root.querySelector(".mlb-frame") as HTMLElement;
  return [
    { name: stage.shown, title: `${title}, on the stage`, element: stage.body(stage.shown) },
    { name: "layout", title: "The layout, as zones", element: panels.zones },
    { name: "timeline", title: "One step over time", element: panels.timeline },
    { name: "workbench", title: "The whole workbench", element: frame },
  ].filter((drawn) => drawn.element?.getClientRects().length);
}

/** What is saved of a view that stands alone. */
export function drawSave(board: Board, name: string, element: HTMLElement): HTMLElement {
  return h(
    "div",
    { class: "mlb-export-row mlb-save", "data-export": name },
    "Save as",
    saveButtons(board, { name, title: name, element }),
  );
}

function saveButtons(board: Board, drawn: Drawn): HTMLElement[] {
  const kinds = [
    ["SVG", saveSvg],
    ["PNG", savePng],
    ["CSV", saveCsv],
  ] as const;
  return kinds.map(([kind, save]) =>
    h(
      "button",
      {
        type: "button",
        class: "mlb-button",
        "data-save": kind.toLowerCase(),
        "aria-label": `${kind} of ${drawn.title}`,
        onclick: async () => board.say(await save(drawn, board), "done"),
      },
      kind,
    ),
  );
}

/** @returns what was saved, in words */
async function saveSvg({ name, title, element }: Drawn): Promise<string> {
  const { svg, width, height } = pictureOf(element, title);
  download(`meshlab-${name}.svg`, new Blob([svg], { type: "image/svg+xml" }));
  return `Saved meshlab-${name}.svg, ${exact(width)} × ${exact(height)} px.`;
}

async function savePng({ name, title, element }: Drawn): Promise<string> {
  const { svg, width, height } = pictureOf(element, title);
  const scale = Math.min(SCALE, MOST_PIXELS / Math.max(width, height));
  const canvas = h("canvas", { width: Math.round(width * scale), height: Math.round(height * scale) });
  const image = new Image();
  const url = URL.createObjectURL(new Blob([svg], { type: "image/svg+xml" }));
  try {
    image.src = url;
    await image.decode();
    const context = canvas.getContext("2d") as CanvasRenderingContext2D;
    context.drawImage(image, 0, 0, canvas.width, canvas.height);
  } finally {
    URL.revokeObjectURL(url);
  }
  const blob = await new Promise((done: (blob: Blob | null) => void) => canvas.toBlob(done, "image/png"));
  if (!blob)
    return `The browser made no picture of ${exact(canvas.width)} × ${exact(canvas.height)} px; save it as SVG.`;
  download(`meshlab-${name}.png`, blob);
  return `Saved meshlab-${name}.png, ${exact(canvas.width)} × ${exact(canvas.height)} px.`;
}

async function saveCsv({ name, title, element }: Drawn, board: Board): Promise<string> {
  // Of very many rows only those in sight are in the page.
  const table = PANELS.find((panel) => panel.name === name)?.table?.(board);
  const blocks = table?.length ? [{ name, rows: table }] : blocksOf(element);
  if (!blocks.length) return `There is no table and no list in this: ${title}.`;
  // Spreadsheets read UTF-8 as such where it begins with this mark.
  download(`meshlab-${name}.csv`, new Blob(["\ufeff", csvText(blocks)], { type: "text/csv" }));
  const rows = blocks.reduce((sum, block) => sum + block.rows.length, 0);
  return `Saved meshlab-${name}.csv, ${exact(rows)} rows.`;
}

function download(name: string, blob: Blob) {
  const url = URL.createObjectURL(blob);
  const link = h("a", { href: url, download: name });
  document.body.append(link);
  link.click();
  link.remove();
  setTimeout(() => URL.revokeObjectURL(url), 10_000);
}
