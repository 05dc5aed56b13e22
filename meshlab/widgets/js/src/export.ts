/**
 * A way out of the notebook: the layout in other forms, to be copied (`copy.ts`), figures for print as SVG, PDF and PNG,
 * and their numbers as CSV and JSON. Python makes all of them (meshlab/widgets/notebook/files.py): nothing is read off
 * the page, and nothing of this changes the board.
 */

import type { Board } from "./board.ts";
import { drawFile } from "./board_file.ts";
import { drawCopy } from "./copy.ts";
import { h, prose, redraw } from "./dom.ts";
import { blobOf, download, SILENT } from "./download.ts";
import { drawLink } from "./link.ts";
import { type Heard, refusalOf } from "./model.ts";
import { withResolution } from "./png.ts";
import { keptNodes } from "./program.ts";
import type { FileOffer, Files, Pending, SavedFile } from "./types.ts";

const WIDTHS: [number, string][] = [
  [85, "one column, 85 mm"],
  [175, "two columns, 175 mm"],
  [250, "a slide, 250 mm"],
];
// The width that was chosen last, of every board on the page.
let width = WIDTHS[0][0];
const INCH = 25.4;
const DPI = 300;
// Milliseconds after which Python is asked again for what it still works out.
const AGAIN = 500;
const PENDING = "It is being worked out, and saved then …";

/** The button of the header. */
export function drawExport(board: Board): HTMLElement {
  const saves = board.can("files");
  const copies = "copy the layout as Python, JSON, PartitionSpecs …";
  const title = saves ? `${copies}; save figures for print, and their numbers` : copies;
  return opener(board, "Export ▾", title, (button) => {
    const copy = drawCopy(board);
    const panel = board.stage.shown;
    const files = saves && [
      h("h4", {}, "Save as a file"),
      drawFiles(board, [panel, "workbench"]),
      h("h4", {}, "Save the board, or open one"),
      drawFile(board, (answer) => answer && board.popover.refuse(answer)),
    ];
    board.popover.open(button, "Export", [copy.element, drawLink(board), ...(files || [])]);
    copy.fill();
  });
}

/** What a view that stands alone has below it. */
export function drawSave(board: Board, panel: string): HTMLElement {
  const title = "save figures for print, and their numbers";
  const open = (button: HTMLElement) => board.popover.open(button, "Save as a file", [drawFiles(board, [panel])]);
  return h("div", { class: "mlb-save" }, opener(board, "Save ▾", title, open));
}

function opener(board: Board, label: string, title: string, open: (button: HTMLElement) => void): HTMLElement {
  return h(
    "button",
    {
      type: "button",
      class: "mlb-button",
      "data-op": "export",
      "aria-haspopup": "dialog",
      title,
      onclick: ({ currentTarget }) => board.readOnly || open(currentTarget),
    },
    label,
  );
}

/** What can be saved of some panels, which Python lists. */
function drawFiles(board: Board, panels: string[]): HTMLElement {
  const rows = h("div", {}, h("p", { class: "mlb-none" }, "…"));
  const select = h(
    "select",
    {
      "aria-label": "width of figures",
      onchange: ({ currentTarget }) => {
        width = Number(currentTarget.value);
      },
    },
    WIDTHS.map(([mm, text]) => h("option", { value: mm, selected: mm === width }, text)),
  );
  fillFiles(board, panels, rows);
  const line = h("label", { class: "mlb-export-row" }, h("span", {}, "Figures for print"), select);
  return h("div", { class: "mlb-files" }, line, rows);
}

async function fillFiles(board: Board, panels: string[], rows: HTMLElement) {
  const answers = await Promise.all(
    panels.map((panel) => board.channel.send("read", { what: "files", args: { panel } })),
  );
  if (answers.includes(null)) board.popover.missed(() => fillFiles(board, panels, rows));
  const failed = answers.find((answer) => answer?.kind !== "read");
  if (failed !== undefined) return redraw(rows, h("p", { class: "mlb-error" }, refusalOf(failed) || SILENT));
  const offers = answers.flatMap((answer) => ((answer as { data: unknown }).data as Files).files);
  const unique = offers.filter(({ name }, i) => offers.findIndex((other) => other.name === name) === i);
  redraw(
    rows,
    unique.map((offer) => drawOffer(board, offer)),
  );
  board.popover.place();
}

function drawOffer(board: Board, offer: FileOffer): HTMLElement {
  const { title, why } = offer;
  const kinds = [
    ...(offer.figure ? ["svg", "pdf", "png"] : []),
    ...(offer.table ? ["csv", "json"] : []),
    ...(offer.code ? ["py"] : []),
  ];
  const buttons = kinds.map((kind) => {
    const label = kind.toUpperCase();
    const look = { type: "button", class: "mlb-button", "data-save": kind, "aria-label": `${label} of ${title}` };
    return h("button", { ...look, disabled: why !== "", onclick: () => save(board, offer, kind) }, label);
  });
  const said = why && h("small", {}, prose(why));
  const row = { class: "mlb-export-row", "data-export": offer.name, "data-empty": why !== "" };
  return h("div", row, h("span", {}, title, said), buttons);
}

/** Saves a file, and says so; where there is none yet, why. */
async function save(board: Board, { name }: FileOffer, kind: string) {
  const { refusal } = board.popover;
  refusal.replaceChildren();
  // Of the program every row is saved that the filter leaves.
  const only = name === "program" ? keptNodes(board) : null;
  const args = { name, kind: kind === "png" ? "svg" : kind, width, ...(only ? { only } : {}) };
  const answer = await madeOf(board, args);
  const made = answer?.kind === "read" ? (answer.data as SavedFile) : null;
  if (!made) {
    const why = refusalOf(answer) || SILENT;
    refusal.replaceChildren(...prose(why));
    return board.say(why, "refused");
  }
  const [file, blob, said] = kind === "png" ? await asPng(name, made.text) : [made.file, blobOf(made), made.said];
  download(file, blob);
  board.say(`Saved ${file}, ${said}.`, "done");
}

/** What Python has made; where something has to be worked out first it is asked again. */
async function madeOf(board: Board, args: Record<string, unknown>): Promise<Heard | null> {
  for (;;) {
    const answer = await board.channel.send("read", { what: "file", args });
    if (answer?.kind !== "read" || !("pending" in (answer.data as SavedFile | Pending))) return answer;
    board.say(PENDING);
    await new Promise((done) => setTimeout(done, AGAIN));
  }
}

/** A figure as the browser draws it, at 300 dots per inch. */
async function asPng(name: string, svg: string): Promise<[string, Blob, string]> {
  const url = URL.createObjectURL(new Blob([svg], { type: "image/svg+xml" }));
  const image = new Image();
  try {
    image.src = url;
    await image.decode();
    const wide = Math.round((width / INCH) * DPI);
    const high = Math.round((wide * image.naturalHeight) / image.naturalWidth);
    const canvas = h("canvas", { width: wide, height: high });
    (canvas.getContext("2d") as CanvasRenderingContext2D).drawImage(image, 0, 0, wide, high);
    const blob = await new Promise((done: (blob: Blob | null) => void) => canvas.toBlob(done, "image/png"));
    return [`meshlab-${name}.png`, withResolution(blob as Blob, DPI), `${wide} × ${high} px`];
  } finally {
    URL.revokeObjectURL(url);
  }
}
