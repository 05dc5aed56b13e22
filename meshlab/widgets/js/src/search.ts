/**
 * Searches for the best layout: what can be searched for, how far the latest search is, or what it has proved. The bar
 * is what the best layout costs; its filled part is what every layout costs at least, the hatched rest is the gap.
 */

import type { Board } from "./board.ts";
import { disclosure } from "./disclosure.ts";
import { h, type Properties, prose } from "./dom.ts";
import { exact } from "./format.ts";
import { drawKept } from "./keeps.ts";
import { EMPTY } from "./model.ts";
import { searchText } from "./sentences.ts";
import { spot } from "./spots.ts";
import type { Bracket, Card, Search, Taken, View } from "./types.ts";

/** What can be searched for, before anything was; then the latest search, with what else there is. */
export function drawSearches(board: Board): (HTMLElement | null)[] {
  const { search } = board.view;
  return [
    search || !board.can("auto") ? null : drawGoals(board),
    ...drawKept(board),
    search && drawSearch(board, search),
  ];
}

/** @param but an objective that is offered elsewhere */
function drawGoals(board: Board, but: string = ""): HTMLElement {
  const { objectives } = board.view.comparison;
  // Not disabled while it searches: what is asked for last counts.
  const buttons = objectives
    .filter(({ name }) => name !== but)
    .map(({ name, label, condition }, i) => {
      const more = { class: `mlb-button ${i || but ? "" : "mlb-primary"}` };
      return drawGoal(board, name, label, i || but ? label : `Find the ${label}`, sentence(condition), more);
    });
  return h("div", { class: "mlb-goals", role: "group", "aria-label": "searches" }, buttons);
}

function drawGoal(
  board: Board,
  name: string,
  label: string,
  text: string,
  about: string,
  more: Properties = {},
): HTMLElement {
  const find = () => askSearch(board, name);
  const said = { "data-auto": name, "aria-label": `Find the ${label}`, ...hintOf(board.view, about) };
  return button(text, find, { key: name, ...said, ...more });
}

/** What a button says of itself: while something is searched for not in a hint, since Escape hides hints first. */
export function hintOf(view: Pick<View, "search">, about: string): Record<string, string> {
  return isSearching(view) ? { title: about } : { "data-hint": about };
}

const sentence = (text: string): string => `${text.charAt(0).toUpperCase()}${text.slice(1)}.`;

export function button(label: string, onclick: () => unknown, more: Properties = {}): HTMLElement {
  return h("button", { type: "button", class: "mlb-button", onclick, ...more }, label);
}

/**
 * A button that puts a layout on the board; of the one that is there it says so.
 * @param spoken what it does, for who does not see where it stands
 */
export function takeButton(board: Board, label: string, { layout, load }: Taken, spoken: string): HTMLElement {
  if (layout === board.view.layout.text) return drawOnBoard();
  const take = () => load && board.send(load.op, load.args);
  const said = { title: layout || EMPTY, "aria-label": `${label}: ${spoken}`, "data-take": "" };
  return button(label, take, said);
}

const drawOnBoard = (): HTMLElement => h("span", { class: "mlb-card-tag" }, "✓ on the board");

/** The layout that was on the board before that of the search was taken, if one was. */
export const beforeOf = ({ search, comparison }: Pick<View, "search" | "comparison">): Card | undefined =>
  comparison.cards.find(({ key }) => key === search?.before);

function drawBack(board: Board): HTMLElement | undefined {
  const card = beforeOf(board.view);
  const back = () => card && board.send(card.load.op, card.load.args);
  return card && button(`← Back to ${card.name}`, back, { "data-back": "", title: card.layout || EMPTY });
}

function drawSearch(board: Board, search: Search): HTMLElement {
  const { phase, outdated, proof, objective, ties = [] } = search;
  // What it kept to stands in the fields above, where that has not changed.
  const kept = search.kept && (search.changed || !board.can("limit_auto"));
  return h(
    "section",
    { class: "mlb-sought", "aria-label": "the latest search", "data-phase": phase, "data-outdated": outdated || null },
    h(
      "div",
      { class: "mlb-sought-head" },
      h("p", {}, headOf(search)),
      proof ? h("code", { title: search.layout || EMPTY }, search.layout || EMPTY) : null,
      drawButtons(board, search),
    ),
    kept ? h("p", { class: "mlb-kept-said" }, prose(`with ${search.kept}`)) : null,
    outdated ? h("p", { class: "mlb-outdated" }, `⚠ ${outdated}`) : null,
    spot("search", () => drawBracket(board)),
    search.searched && !outdated ? h("p", { class: "mlb-foot mlb-searched" }, prose(searchedText(search))) : null,
    h(
      "div",
      { class: "mlb-sought-more" },
      ties.length && !outdated ? drawTies(board, ties, search.tied ?? 0) : null,
      proof ? disclosure(board, "proof", "The proof", [h("p", { class: "mlb-proof" }, prose(proof))]) : null,
      board.can("auto") ? disclosure(board, "goals", "Other searches", [drawGoals(board, objective)]) : null,
    ),
  );
}

/** Among which layouts the answer is the best. */
export function searchedText({ searched, not_searched: not }: Pick<Search, "searched" | "not_searched">): string {
  return `Searched: ${searched}. Not searched: ${not}.`;
}

function headOf({ phase, label, error, bracket }: Search): (Node | string)[] {
  if (phase === "searching") return [`Searching for the ${label} …`];
  if (phase === "cancelled") return [`The search for the ${label} was cancelled. ${error}`];
  if (phase === "failed") return [h("span", { class: "mlb-error" }, "✕ ", prose(error))];
  const words = bracket && isProved(bracket) ? `✓ The ${label}: ` : `The ${label} evaluated so far: `;
  return [words, h("b", {}, bracket?.texts.value ?? "")];
}

function drawButtons(board: Board, search: Search): HTMLElement {
  const { phase, same, outdated, objective, label, condition } = search;
  const searching = phase === "searching";
  const cancel = button("◼ Cancel", () => cancelSearch(board), {
    "data-op": "cancel_auto",
    title: "Escape",
  });
  const take = button("Use this layout", () => takeBest(board), {
    "data-take": "best",
    "aria-label": `Use this layout: put ${searching ? "the best layout so far" : "this layout"} on the board`,
  });
  const stop = button("◼ Stop and use", () => board.send("stop_auto"), {
    "data-op": "stop_auto",
    "aria-label": "Stop and use: end the search with the best layout so far",
    title: "end the search, and put the best layout so far on the board",
  });
  const can = searching || (search.load && !outdated);
  const again = board.can("auto") && drawGoal(board, objective, label, "↻", `Search again. ${sentence(condition)}`);
  return h(
    "div",
    { class: "mlb-sought-buttons" },
    same ? [drawOnBoard(), drawBack(board)] : can && take,
    searching && stop,
    searching && cancel,
    again,
  );
}

/** Puts the best layout of the latest search on the board, which may have got better since the button was drawn. */
function takeBest(board: Board) {
  const { load } = board.view.search ?? {};
  if (load) board.send(load.op, load.args);
  else board.say("No layout that fits yet.", "refused");
}

function drawBracket(board: Board): (HTMLElement | null)[] {
  const { search } = board.view;
  if (!search) return [];
  const { bracket, said, phase, label } = search;
  const searching = phase === "searching";
  if (!bracket) {
    const waiting = searching ? h("progress", { "aria-label": `Searching for the ${label} …` }) : null;
    return [waiting, said ? h("p", { class: "mlb-bracket-said" }, said) : null];
  }
  const { texts, plans } = bracket;
  const work = plans ? `${exact(plans)} plans, ${texts.seconds}` : texts.seconds;
  if (phase === "found")
    return [h("p", { class: "mlb-bracket-said" }, h("span", {}, provedText(bracket)), h("span", {}, work))];
  const now = { "aria-valuemin": 0, "aria-valuemax": 100, "aria-valuenow": provedOf(bracket).toFixed(1) };
  const role = searching ? { role: "progressbar", ...now } : { role: "img" };
  const name = searching ? `Searching for the ${label} …` : said;
  const gap = bracket.gap ? `gap ${texts.gap}` : "no gap";
  return [
    h(
      "div",
      { class: "mlb-bracket", ...role, "aria-label": name, "aria-valuetext": searching ? said : null },
      h("span", { class: "mlb-bracket-proved", style: `width:${provedOf(bracket).toFixed(2)}%` }),
      h("span", { class: "mlb-bracket-open" }),
    ),
    h(
      "p",
      { class: "mlb-bracket-said" },
      h("span", {}, bracket.bound ? `at least ${texts.bound}` : "no lower bound yet"),
      h("span", {}, `${gap} · ${work}`),
      h("span", {}, `${searching ? "best so far" : "best"} `, h("b", {}, texts.value)),
    ),
  ];
}

/** The part of what a layout costs that every layout costs, in percent. */
export function provedOf({ value, bound }: Pick<Bracket, "value" | "bound">): number {
  return value > 0 ? 100 * Math.max(0, Math.min(1, bound / value)) : 100;
}

// What lies closer to its bound is proved: as close as a search is asked to come.
const PROVED = 0.01;

const isProved = ({ gap }: Pick<Bracket, "gap">): boolean => gap <= PROVED;

/** What is proved of an answer. */
export function provedText({ gap, texts }: Pick<Bracket, "gap" | "texts">): string {
  if (gap === 0) return "✓ proved: no searched layout costs less";
  const least = `every searched layout costs at least ${texts.bound}`;
  return isProved({ gap }) ? `✓ proved within ${texts.gap}: ${least}` : `not proved, gap ${texts.gap}: ${least}`;
}

/** @param count how many there are */
function drawTies(board: Board, ties: Taken[], count: number): HTMLElement {
  const rows = ties.map((tie) =>
    h(
      "li",
      { key: tie.layout },
      h("code", {}, tie.layout || EMPTY),
      takeButton(board, "Use this layout", tie, `put ${tie.layout || EMPTY} on the board`),
    ),
  );
  const note =
    "Of layouts that cost almost the same the one with the least peak memory was taken; of these, the one with the fewest rules.";
  return disclosure(board, "ties", `${exact(count)} as good, within 0.5%`, [
    h("p", { class: "mlb-foot" }, note),
    h("ul", { class: "mlb-ties" }, rows),
    count > ties.length ? h("p", { class: "mlb-foot" }, `and ${exact(count - ties.length)} more`) : null,
  ]);
}

/** @returns whether something of Auto's is under way, which can be cancelled */
export function isSearching({ search }: Pick<View, "search">): boolean {
  return search?.phase === "searching" || search?.refining === true;
}

export function cancelSearch(board: Board) {
  board.send("cancel_auto");
}

/** Asks for a search, and says that it has begun; or how it has ended, where it has while that was answered. */
export async function askSearch(board: Board, objective: string) {
  const before = JSON.stringify(board.view.search);
  const answer = await board.send("auto", { objective });
  if (answer?.kind !== "ack") return;
  const { search } = board.view;
  const ended = search?.phase !== "searching" && JSON.stringify(search) !== before;
  board.searching = !ended;
  if (!answer.note) board.say(ended ? searchText(search) : "The search has begun.", "done");
}

/** Says how a search has ended. */
export function followSearch(board: Board) {
  const searching = board.view.search?.phase === "searching";
  if (board.searching && !searching) board.say(searchText(board.view.search), "done");
  board.searching = searching;
}
