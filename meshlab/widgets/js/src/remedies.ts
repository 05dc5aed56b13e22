/**
 * What would remove a collective, as buttons: each says what it does, and what it would change, for the better or the
 * worse. Which there are Python is asked when a row opens (`views/remedies.py`): it tries each. A price is asked for when
 * its button comes into sight, one after the other, so that a drop waits for no more than one of them; it stands with
 * those of the zones, and is forgotten with them. Nothing is asked while a chip is held.
 */

import type { Board } from "./board.ts";
import { h, prose } from "./dom.ts";
import { bytes, percent, signedBytes, signedSeconds } from "./format.ts";
import { UNRECORDED } from "./hand.ts";
import { predicted } from "./model.ts";
import type { Priced } from "./prices.ts";
import { drawnWith } from "./reconcile.ts";
import { drawSpots, spot } from "./spots.ts";
import type { Collective, Intent, Price, Remedy, View } from "./types.ts";

/** A change of one quantity: in words, and by its sign; 0 where it is next to nothing. */
type Effect = { name: string; text: string; more: number };

/** What a change of the layout would change, in words and by its sign: time, or without a machine work; memory; bytes. */
export function effects(
  price: Price,
  { time: step, peak_memory: peak, communication, work }: Pick<View, "time" | "peak_memory" | "communication" | "work">,
): Effect[] {
  const [time, effects] = [predicted(step), [] as Effect[]];
  const add = (name: string, text: string, now: number, then: number) => {
    const more = Math.abs(then - now) <= SAME * now ? 0 : then - now;
    effects.push({ name, text, more });
  };
  if (time && price.seconds !== null)
    add("step", `step ${signedSeconds(price.seconds - time.estimate)}`, time.estimate, price.seconds);
  else if (price.work !== work) add("work", `computes ${percent(price.work)}`, work, price.work);
  if (peak && price.peak !== null) add("peak", `peak ${signedBytes(price.peak - peak.bytes)}`, peak.bytes, price.peak);
  const { total } = communication;
  add("traffic", `sends ${signedBytes(price.bytes - total)}`, total, price.bytes);
  if (price.fits === false) {
    const still = peak?.fits === false;
    add("room", `✕ ${still ? "still does" : "does"} not fit: ${bytes(price.peak ?? 0)}`, still ? 1 : 0, 1);
  }
  return effects;
}

// What changes by less than this share of it is neither better nor worse.
const SAME = 1e-3;

/**
 * What is said ahead of the changes: a verdict where all that changes goes one way; else which quantities get better,
 * and which worse, since what they are worth is for the reader to say.
 */
export function verdictsOf(effects: Effect[]): { text: string; more: number }[] {
  const [better, worse] = [-1, 1].map((sign) => effects.filter(({ more }) => Math.sign(more) === sign));
  if (!better.length && !worse.length) return [{ text: "no gain:", more: 0 }];
  const said = (of: Effect[], word: string, more: number, colon: string) => {
    // Of several quantities of which not all change, and of some that go another way, the names are said.
    const names = of.length < effects.length ? ` in ${of.map(({ name }) => name).join(", ")}` : "";
    return of.length ? [{ text: `${word}${names}${colon}`, more }] : [];
  };
  return [...said(better, "▼ better", -1, worse.length ? "," : ":"), ...said(worse, "▲ worse", 1, ":")];
}

/** The remedies of a collective, once they have been tried; those of a layout that stands beside the board's are not. */
export function drawRemedies(board: Board, collective: Collective): HTMLElement | null {
  if (!collective.proposed || board.readOnly || "isOther" in board) return null;
  return spot("remedies", () => drawTried(board, collective.id));
}

function drawTried(board: Board, id: string): (Node | null)[] {
  const { data, fresh } = board.hand ? UNASKED : board.reads.of("remedies", { collective: id });
  if (!fresh) return [h("p", { class: "mlb-none" }, "Trying what would remove it …")];
  const rows: Remedy[] = data?.rows ?? [];
  if (rows.length === 0) return [];
  const parts = rows.flatMap((remedy, i) => [i > 0 ? " or " : " ", ...drawOne(board, remedy)]);
  return [h("div", { class: "mlb-remedy" }, h("span", { class: "mlb-tag" }, "To remove it:"), parts)];
}

const UNASKED = { data: null, fresh: false };

function drawOne(board: Board, { text, effect, op, args }: Remedy): (Node | string)[] {
  const then = effect ? `: ${effect}` : "";
  if (!op || !args) return [h("span", {}, prose(`${text}${then}`))];
  const price = board.prices.ofIntent({ op, args });
  const button = h(
    "button",
    {
      type: "button",
      key: text,
      class: "mlb-button mlb-remedy-button",
      "data-priced": String(price !== undefined),
      intent: () => ({ op, args }),
      onclick: () => board.send(op, args),
    },
    h("span", {}, prose(text)),
    h("span", { class: "mlb-remedy-price" }, price ? drawPrice(price, board.view) : null),
  );
  return then ? [button, h("span", {}, prose(then))] : [button];
}

export class Remedies {
  board: Board;
  inSight = new Set<Element>();
  asking = false;
  observer: IntersectionObserver;

  constructor(board: Board) {
    this.board = board;
    this.observer = new IntersectionObserver((entries) => {
      for (const { target, isIntersecting } of entries) this.inSight[isIntersecting ? "add" : "delete"](target);
      this.ask();
    });
  }

  /** Has the buttons that are drawn priced as soon as they are in sight. */
  watch() {
    for (const button of this.board.root.querySelectorAll(".mlb-remedy-button[data-priced]"))
      this.observer.observe(button);
    this.ask();
  }

  /** Draws what is known by now. */
  redraw() {
    drawSpots(this.board.root, "remedies");
    this.watch();
  }

  /** Asks for what was not asked for while a chip was held. */
  resume() {
    if (!this.board.hand) this.redraw();
  }

  /** Asks for the prices of what is in sight and has none. */
  async ask() {
    const { board } = this;
    if (this.asking) return;
    this.asking = true;
    for (let intent = this.next(); intent && !board.readOnly && !board.hand; intent = this.next()) {
      const { revision } = board;
      const answered = await board.prices.askIntent(intent, revision, board.view.machine.on !== "");
      if (!answered && revision === board.revision) break;
      drawSpots(board.root, "remedies");
    }
    this.asking = false;
  }

  /** @returns what the first button in sight without a price does; of a slow program none is asked for */
  next(): Intent | undefined {
    const { prices, view } = this.board;
    if (view.slow) return undefined;
    const buttons = [...this.inSight].filter((button) => button.isConnected);
    return buttons.map((button) => (drawnWith(button).intent as () => Intent)()).find((each) => !prices.ofIntent(each));
  }

  close() {
    this.observer.disconnect();
  }
}

/** What a remedy would change, and ahead of it which of that is for the better, and which for the worse. */
function drawPrice(price: Priced, view: View): HTMLElement[] {
  if (price.refused?.code === UNRECORDED) return [h("span", { class: "mlb-same" }, price.refused.text)];
  if (price.refused) return [h("span", { class: "mlb-more" }, `✕ ${price.refused.text}`)];
  const changes = effects(price, view);
  const style = (more: number) => (more > 0 ? "mlb-more" : more < 0 ? "mlb-less" : "mlb-same");
  return [
    ...verdictsOf(changes).map(({ text, more }) => h("b", { class: `mlb-verdict-word ${style(more)}` }, text)),
    ...changes.map(({ text, more }) => h("span", { class: style(more) }, text)),
    h("i", { class: "mlb-estimated" }, "estimated"),
  ];
}
