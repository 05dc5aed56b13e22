/**
 * A value of a run's last step: the list to choose from, how far a look is, and what the devices held. For a look the step
 * runs once more in Python's background (`state/looks.py`); what is drawn comes from there (`views/devices/looked.py`).
 */

import type { Board } from "./board.ts";
import { h, prose } from "./dom.ts";
import { exact } from "./format.ts";
import { type Drawn, drawHeat, runOf, short } from "./heat.ts";
import { identity } from "./identity.ts";
import { rangesText } from "./slices.ts";
import type { DeviceNumbers, Looked, NamedValue, NotThere } from "./types.ts";

/** What is chosen of a look: which value to look at next, and of the one that is shown which of its kinds. */
export type LookChosen = {
  name: string;
  /** The look that was closed, and the one that the rest is of. */
  closed: number;
  of: number;
  value: number;
  form: number;
  iterations: number[];
  addend: number | null;
  /** What stands there until the next answer has come. */
  shown: Looked | NotThere | null;
  error: string;
  /** What was last said of it. */
  said: string;
};

export const noLook = (): LookChosen => ({
  name: "",
  closed: 0,
  of: 0,
  value: 0,
  form: 0,
  iterations: [],
  addend: 0,
  shown: null,
  error: "",
  said: "",
});

/** @returns what can be looked at after a run, and the button; nothing where there is no run to look into */
export function drawLookTools(board: Board): HTMLElement[] {
  const run = runOf(board.model.get("job"));
  if (!run || !board.can("look")) return [];
  const { look } = board.chosen;
  const { data, error } = board.reads.of("values", { run });
  if (error || !data) return [];
  const groups = data.groups.map(({ title, rows }) =>
    h(
      "optgroup",
      { label: title },
      rows.map((row) => h("option", { value: row.name, selected: row.name === look.name }, valueText(row))),
    ),
  );
  const more = data.left_out ? `; ${exact(data.left_out)} more by explorer.look(…)` : "";
  const choose = ({ currentTarget: { value } }: { currentTarget: HTMLSelectElement }) => {
    look.name = value;
    board.stage.again("devices");
  };
  const select = h(
    "select",
    {
      class: "mlb-select mlb-step-values",
      "aria-label": `value of the step of run ${run}`,
      title: `what the last step of run ${run} computes${more}`,
      onchange: choose,
    },
    h("option", { value: "", selected: look.name === "" }, "a value of the step …"),
    groups,
  );
  const works = board.view.look?.phase === "working";
  const press = () => board.send("look", { value: look.name });
  const button = { type: "button", class: "mlb-button", "data-op": "look", title: HOW, onclick: press };
  return [select, h("button", { ...button, disabled: look.name === "" || works }, "Look")];
}

const HOW = "runs the last step once more, and shows what each device held of the value";

/** @returns a value in the list: its name, its dims, how often its line runs, and the line */
export function valueText({ name, dims, shape, source, times }: NamedValue): string {
  const sizes = dims.map((dim, i) => `${dim} ${exact(shape[i])}`).join(" · ") || "scalar";
  return [name, sizes, times > 1 && `${exact(times)} times`, source !== name && source].filter(Boolean).join("   ");
}

/** How far a look is, or why there is none. */
export function drawLooking(board: Board): HTMLElement | null {
  const { look } = board.view;
  if (!look || "isOther" in board || board.chosen.look.closed === look.number) return null;
  if (look.phase === "working") {
    const cancel = { type: "button", class: "mlb-button", "data-op": "cancel_look" };
    return h(
      "p",
      { class: "mlb-looking", role: "status" },
      h("progress", { "aria-label": `looking at ${look.value}` }),
      h("span", {}, prose(`The last step of run ${look.run} is compiled with \`${look.value}\` beside its results …`)),
      h("button", { ...cancel, onclick: () => board.send("cancel_look") }, "Cancel"),
    );
  }
  const why = look.phase === "failed" ? look.error : board.chosen.look.error;
  return why ? h("p", { class: "mlb-error mlb-looking", role: "alert" }, "✕ ", prose(why)) : null;
}

/** @returns what is looked at; null where nothing is, or in the layout beside the board's */
export function lookedOf(board: Board): Looked | NotThere | null {
  const { look } = board.view;
  const { look: chosen } = board.chosen;
  if (look?.phase !== "done" || chosen.closed === look.number || "isOther" in board) return null;
  const { number } = look;
  if (chosen.of !== number)
    Object.assign(chosen, { of: number, value: 0, form: 0, iterations: [], addend: 0, shown: null, error: "" });
  const { value, form, iterations, addend } = chosen;
  const { data, error } = board.reads.of("looked", { number, value, form, iterations, addend });
  if (data) chosen.shown = data;
  chosen.error = error;
  return error ? null : chosen.shown;
}

/** Goes back to the tensor that is selected. */
export function closeLook(board: Board) {
  const { look } = board.view;
  if (!look || look.phase === "working") return;
  board.chosen.look.closed = look.number;
  board.stage.again("devices");
}

/** Says on the status line how a look has ended. */
export function followLook(board: Board) {
  const { look } = board.view;
  const said = look ? `${look.number} ${look.phase}` : "";
  if (board.chosen.look.said === said) return;
  board.chosen.look.said = said;
  if (look?.phase === "done") board.say(`Devices shows \`${look.value}\` of run ${look.run}.`, "done");
  if (look?.phase === "failed") board.say(look.error, "refused");
}

/** What is looked at, of which step; what there is to choose of it, and the way back. */
export function drawLookedHead(board: Board, looked: Looked | NotThere): HTMLElement {
  const close = { type: "button", class: "mlb-button", "data-op": "close_look", title: "back to the tensor" };
  const back = h("button", { ...close, onclick: () => closeLook(board) }, "✕ Close");
  if (!looked.there) return h("div", { class: "mlb-look-shown" }, h("p", {}, prose(looked.why)), back);
  const { label, source, when, values, forms, loops, addends, sums, notes } = looked;
  const { look } = board.chosen;
  const choose = (news: Partial<LookChosen>) => {
    Object.assign(look, news);
    board.stage.again("devices");
  };
  const parts = [...addends.map((text, i): [string, string] => [String(i), `addend ${text}`])];
  if (addends.length && sums) parts.push(["", "the sum of all"]);
  const choices = [
    drawChoice("value", values, String(looked.value), (at) =>
      choose({ value: Number(at), form: 0, iterations: [], addend: 0 }),
    ),
    drawChoice("form", forms, String(looked.form), (at) => choose({ form: Number(at), iterations: [], addend: 0 })),
    ...loops.map(({ times, shown }, i) =>
      drawIteration(times, shown, loops.length > 1 ? ` of loop ${i + 1}` : "", (at) =>
        choose({ iterations: loops.map((loop, j) => (j === i ? at : loop.shown)) }),
      ),
    ),
    drawPairs("addend", parts, String(looked.addend ?? ""), (at) => choose({ addend: at === "" ? null : Number(at) })),
  ];
  return h(
    "div",
    { class: "mlb-look-shown" },
    h("p", { class: "mlb-summary" }, h("b", {}, label), source && ` at ${source}`, ` ${when}`),
    back,
    choices.some((each) => each !== null) && h("div", { class: "mlb-look-choices" }, choices),
    notes.map((note) => h("p", { class: "mlb-look-note" }, prose(note))),
  );
}

function drawChoice(what: string, texts: string[], chosen: string, choose: (value: string) => void) {
  const pairs = texts.map((text, i): [string, string] => [String(i), text]);
  return texts.length > 1 ? drawPairs(what, pairs, chosen, choose) : null;
}

function drawPairs(what: string, pairs: [string, string][], chosen: string, choose: (value: string) => void) {
  if (!pairs.length) return null;
  const look = { class: "mlb-select", "aria-label": what, "data-choice": what };
  return h(
    "select",
    { ...look, onchange: ({ currentTarget }: { currentTarget: HTMLSelectElement }) => choose(currentTarget.value) },
    pairs.map(([value, text]) => h("option", { value, selected: value === chosen }, text)),
  );
}

/** The iteration of a loop, from 0, as in `plan.watch`. */
function drawIteration(times: number, shown: number, of: string, choose: (at: number) => void): HTMLElement {
  const field = {
    type: "number",
    class: "mlb-steps",
    min: "0",
    max: String(times - 1),
    value: String(shown),
    "data-choice": "iteration",
    "aria-label": `iteration${of}, from 0 to ${exact(times - 1)}`,
  };
  const change = ({ currentTarget: { valueAsNumber: at } }: { currentTarget: HTMLInputElement }) => {
    if (Number.isInteger(at)) choose(Math.min(Math.max(at, 0), times - 1));
  };
  return h(
    "label",
    { class: "mlb-switch" },
    `iteration${of}`,
    h("input", { ...field, onchange: change }),
    `of ${exact(times)}`,
  );
}

/** The numbers in the slices of the tensor. */
export function lookedHeat(looked: Looked): Drawn {
  return { before: null, ...drawHeat(looked.shards, looked) };
}

/** What each device held, in numbers. */
export function drawLookedRows({ shards, rows, rows_left_out: left, cells }: Looked): HTMLElement {
  const few = rows.some((row) => row.numbers.length > 0);
  const odd = rows.some((row) => row.nan + row.infinite > 0);
  const heads = [
    "device",
    "holds",
    ...(few ? ["numbers"] : ["least", "mean", "greatest"]),
    ...(odd ? ["no number"] : []),
  ];
  const what = cells.complex ? "magnitudes of the numbers" : "numbers";
  return h(
    "div",
    { class: "mlb-look-table" },
    h(
      "table",
      { class: "mlb-table mlb-look-rows", "aria-label": `${what} on each device` },
      h(
        "thead",
        {},
        h(
          "tr",
          {},
          heads.map((head) => h("th", { scope: "col" }, head)),
        ),
      ),
      h(
        "tbody",
        {},
        rows.map((row) => {
          const numbers = few ? [numbersText(row)] : [row.least, row.mean, row.most].map(short);
          const { label } = identity(shards, row.slice, false);
          return h(
            "tr",
            { "data-row-device": row.device },
            h("th", { scope: "row" }, exact(row.device), row.where && h("small", {}, ` ${row.where}`)),
            h("td", {}, label && h("b", {}, `${label} `), rangesText(shards, row.slice)),
            numbers.map((text) => h("td", { class: "mlb-number" }, text)),
            odd && h("td", { class: row.nan + row.infinite ? "mlb-differs" : "" }, oddText(row)),
          );
        }),
      ),
    ),
    left > 0 && h("p", { class: "mlb-foot" }, `${exact(left)} more devices have no line here.`),
  );
}

function numbersText({ numbers }: DeviceNumbers): string {
  return numbers.map((each) => (typeof each === "number" ? short(each) : each)).join(", ");
}

function oddText({ nan, infinite }: DeviceNumbers): string {
  return [nan > 0 && `${exact(nan)} NaN`, infinite > 0 && `${exact(infinite)} infinite`].filter(Boolean).join(", ");
}
