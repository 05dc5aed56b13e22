/**
 * What would remove a collective, as buttons: each says what it does, and what it would change, for the better or the
 * worse. Which there are Python is asked when a row opens (`views/remedies.py`): it tries each. A price is asked for when
 * its button comes into sight, one after the other, so that a drop waits for no more than one of them; it stands with
 * those of the zones, and is forgotten with them. Nothing is asked while a chip is held.
 */

import type { Board } from "./board.ts";
import { h, prose } from "./dom.ts";
import { bytes, signedBytes, signedPoints, signedSeconds } from "./format.ts";
import { predicted } from "./model.ts";
import type { Priced } from "./prices.ts";
import { drawSpots, spot } from "./spots.ts";
import type { Collective, Intent, Price, Remedy, View } from "./types.ts";

/** What a change of the layout would change, in words: time, or without a machine work; memory; bytes. */
export function effects(
  price: Price,
  { time: step, peak_memory: peak, communication, work }: Pick<View, "time" | "peak_memory" | "communication" | "work">,
): string[] {
  const [time, lines] = [predicted(step), [] as string[]];
  if (time && price.seconds !== null) lines.push(`step ${signedSeconds(price.seconds - time.estimate)}`);
  else if (price.work !== work) lines.push(`computes ${signedPoints(price.work - work)}`);
  if (peak && price.peak !== null) lines.push(`peak ${signedBytes(price.peak - peak.bytes)}`);
  lines.push(`sends ${signedBytes(price.bytes - communication.total)}`);
  if (price.fits === false) lines.push(`✕ does not fit: ${bytes(price.peak ?? 0)}`);
  return lines;
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

/**
 * The remedies of a collective, once they have been tried; those of a layout that stands beside the board's are not.
 * @param where the panel: keys differ from panel to panel
 */
export function drawRemedies(board: Board, collective: Collective, where: string): HTMLElement | null {
  if (!collective.proposed || board.readOnly || "isOther" in board) return null;
  return spot("remedies", () => drawTried(board, collective.id, where));
}

function drawTried(board: Board, id: string, where: string): (Node | null)[] {
  const { data, fresh } = board.hand ? UNASKED : board.reads.of("remedies", { collective: id });
  if (!fresh) return [h("p", { class: "mlb-none" }, "Trying what would remove it …")];
  const rows: Remedy[] = data?.rows ?? [];
  if (rows.length === 0) return [];
  const parts = rows.flatMap((remedy, i) => [
    i > 0 ? " or " : " ",
    ...drawOne(board, remedy, `remedy:${where}:${id}:${i}`),
  ]);
  return [h("div", { class: "mlb-remedy" }, h("span", { class: "mlb-tag" }, "To remove it:"), parts)];
}

const UNASKED = { data: null, fresh: false };

function drawOne(board: Board, remedy: Remedy, key: string): (Node | string)[] {
  const { text, effect, op, args } = remedy;
  const then = effect ? `: ${effect}` : "";
  if (!op || !args) return [h("span", {}, prose(`${text}${then}`))];
  const price = h("span", { class: "mlb-remedy-price" });
  const button = h(
    "button",
    { type: "button", class: "mlb-button mlb-remedy-button", "data-key": key, onclick: () => board.send(op, args) },
    h("span", {}, prose(text)),
    price,
  );
  board.remedies.watch(button, { op, args });
  return then ? [button, h("span", {}, prose(then))] : [button];
}

export class Remedies {
  board: Board;
  intents = new Map<Element, Intent>();
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

  /** Has a button priced as soon as it is in sight. */
  watch(button: Element, intent: Intent) {
    this.intents.set(button, intent);
    this.observer.observe(button);
    this.paint(button);
  }

  /** Forgets the buttons that were drawn again, and paints the others. */
  repaint() {
    for (const button of [...this.intents.keys()]) {
      if (button.isConnected) this.paint(button);
      else this.forget(button);
    }
    this.ask();
  }

  forget(button: Element) {
    this.intents.delete(button);
    this.inSight.delete(button);
    this.observer.unobserve(button);
  }

  paint(button: Element) {
    const { prices, view } = this.board;
    const intent = this.intents.get(button) as Intent;
    const price = prices.ofIntent(intent);
    const place = button.lastElementChild as HTMLElement;
    place.replaceChildren(...(price ? drawPrice(price, view) : []));
    button.setAttribute("data-priced", String(Boolean(price)));
  }

  /** Asks for what was not asked for while a chip was held. */
  resume() {
    if (this.board.hand) return;
    drawSpots(this.board.root, "remedies");
    this.ask();
  }

  /** Asks for the prices of what is in sight and has none. */
  async ask() {
    const { board } = this;
    if (this.asking) return;
    this.asking = true;
    for (let button = this.next(); button && !board.readOnly && !board.hand; button = this.next()) {
      const intent = this.intents.get(button) as Intent;
      const { revision } = board;
      const answered = await board.prices.askIntent(intent, revision, board.view.machine.on !== "");
      if (!answered && revision === board.revision) break;
      for (const each of this.intents.keys()) this.paint(each);
    }
    this.asking = false;
  }

  /** @returns the first button in sight without a price; of a slow program none is asked for */
  next(): Element | undefined {
    const { prices, view } = this.board;
    if (view.slow) return undefined;
    const open = (button: Element) => {
      const intent = this.intents.get(button);
      return button.isConnected && intent !== undefined && !prices.ofIntent(intent);
    };
    return [...this.inSight].find(open);
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
  if (price.refused) return [h("span", { class: "mlb-more" }, `✕ ${price.refused.text}`)];
  const verdict = verdictOf(price, view);
  const style = (line: string) => {
    if (line.includes("✕") || line.includes("+")) return "mlb-more";
    return line.includes("−") && verdict === "better" ? "mlb-less" : "mlb-same";
  };
  const sign = verdict === "better" ? "mlb-less" : verdict === "worse" ? "mlb-more" : "mlb-same";
  return [
    h("b", { class: `mlb-verdict-word ${sign}` }, VERDICTS[verdict]),
    ...effects(price, view).map((line) => h("span", { class: style(line) }, line)),
    h("i", { class: "mlb-estimated" }, "estimated"),
  ];
}
