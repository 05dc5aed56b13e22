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

type Effect = { text: string; more: number };

/** What a change of the layout would change, in words and by its sign: time, or without a machine work; memory; bytes. */
export function effects(
  price: Price,
  { time: step, peak_memory: peak, communication, work }: Pick<View, "time" | "peak_memory" | "communication" | "work">,
): Effect[] {
  const [time, effects] = [predicted(step), [] as Effect[]];
  const add = (text: string, more: number) => effects.push({ text, more });
  if (time && price.seconds !== null) {
    const more = price.seconds - time.estimate;
    add(`step ${signedSeconds(more)}`, more);
  } else if (price.work !== work) add(`computes ${percent(price.work)}`, price.work - work);
  if (peak && price.peak !== null) add(`peak ${signedBytes(price.peak - peak.bytes)}`, price.peak - peak.bytes);
  const more = price.bytes - communication.total;
  add(`sends ${signedBytes(more)}`, more);
  if (price.fits === false) add(`✕ does not fit: ${bytes(price.peak ?? 0)}`, 1);
  return effects;
}

// What changes by less than this share of it is neither better nor worse.
const SAME = 1e-3;

/**
 * Whether a change is for the better or the worse: by the step, without one by work, and of equal work by bytes.
 * @returns nothing that does not fit is better
 */
export function verdictOf(
  price: Price,
  { time: step, communication, work }: Pick<View, "time" | "communication" | "work">,
): "better" | "worse" | "same" {
  if (price.fits === false) return "worse";
  const by = (now: number, then: number): "better" | "worse" | "same" =>
    Math.abs(then - now) <= SAME * now ? "same" : then < now ? "better" : "worse";
  const time = predicted(step);
  if (time && price.seconds !== null) return by(time.estimate, price.seconds);
  const less = by(work, price.work);
  return less === "same" ? by(communication.total, price.bytes) : less;
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

const VERDICTS = { better: "▼ better:", worse: "▲ worse:", same: "no gain:" };

/**
 * What a remedy would change, ahead of it whether that is for the better. What falls where all gets worse is no gain.
 */
function drawPrice(price: Priced, view: View): HTMLElement[] {
  if (price.refused?.code === UNRECORDED) return [h("span", { class: "mlb-same" }, price.refused.text)];
  if (price.refused) return [h("span", { class: "mlb-more" }, `✕ ${price.refused.text}`)];
  const verdict = verdictOf(price, view);
  const style = (more: number) => {
    if (more > 0) return "mlb-more";
    return more < 0 && verdict === "better" ? "mlb-less" : "mlb-same";
  };
  const sign = verdict === "better" ? "mlb-less" : verdict === "worse" ? "mlb-more" : "mlb-same";
  return [
    h("b", { class: `mlb-verdict-word ${sign}` }, VERDICTS[verdict]),
    ...effects(price, view).map(({ text, more }) => h("span", { class: style(more) }, text)),
    h("i", { class: "mlb-estimated" }, "estimated"),
  ];
}
