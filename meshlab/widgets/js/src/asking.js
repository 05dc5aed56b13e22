// @ts-check
/** What the board asks of Python by itself: the prices of zones, and advice once it has been left alone. */
import { zonesOf } from "./hand.js";

/**
 * @typedef {import("./hand.js").Hand} Hand
 * @typedef {import("./board.js").Board} Board
 */

// Milliseconds for which the pointer rests over a chip before it is priced ahead.
const REST = 120;
// Milliseconds without a change after which advice is asked for.
const IDLE = 700;

export class Asking {
  /** @param {Board} board */
  constructor(board) {
    this.board = board;
    this.resting = 0;
    this.advising = 0;
  }

  stop() {
    clearTimeout(this.resting);
    clearTimeout(this.advising);
  }

  /**
   * Asks for the prices of all zones, the nearest to the chip first.
   * @param {Hand} hand
   */
  zones(hand) {
    const { view, panels, prices, revision } = this.board;
    const box = (/** @type {string} */ zone) =>
      panels.zones.querySelector(`.mlb-zone[data-zone="${CSS.escape(zone)}"]`)?.getBoundingClientRect();
    const start = box(hand.from);
    const distance = (/** @type {string} */ zone) => {
      const there = box(zone);
      return start && there ? Math.hypot(there.x - start.x, there.y - start.y) : 0;
    };
    const order = zonesOf(view).sort((one, other) => distance(one) - distance(other));
    prices.ask(view, hand, revision, order, view.machine.on !== "" && !view.slow);
  }

  /**
   * Prices a chip over which the pointer rests, before it is lifted.
   * @param {string | null} dim
   * @param {string} from
   */
  rest(dim, from) {
    const { board } = this;
    clearTimeout(this.resting);
    if (dim === null || board.hand || board.readOnly || board.view.slow) return;
    this.resting = window.setTimeout(() => {
      if (!board.hand) this.zones({ dim, from, by: "pointer", target: null, add: board.adding });
    }, REST);
  }

  /** Asks for advice once the board has been left alone for a while. */
  advice() {
    const { board } = this;
    clearTimeout(this.advising);
    if (board.view.slow) return;
    this.advising = window.setTimeout(() => {
      if (board.hand) this.advice();
      else if (!board.readOnly) board.channel.send("advise", {});
    }, IDLE);
  }
}
