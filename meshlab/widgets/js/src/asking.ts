/** What the board asks of Python by itself: the prices of zones, and advice once it has been left alone. */

import type { Board } from "./board.ts";
import { type Hand, zonesOf } from "./hand.ts";

// Milliseconds for which the pointer rests over a chip before it is priced ahead.
const REST = 120;
// Milliseconds without a change after which advice is asked for.
const IDLE = 700;

export class Asking {
  board: Board;
  resting = 0;
  advising = 0;
  /** Whether advice was due, or asked for, while Python was silent. */
  lost = false;

  constructor(board: Board) {
    this.board = board;
  }

  stop() {
    clearTimeout(this.resting);
    clearTimeout(this.advising);
  }

  /** Asks for the prices of all zones, the nearest to the chip first. */
  zones(hand: Hand) {
    const { view, panels, prices, revision } = this.board;
    const box = (zone: string) =>
      panels.zones.querySelector(`.mlb-zone[data-zone="${CSS.escape(zone)}"]`)?.getBoundingClientRect();
    const start = box(hand.from);
    const distance = (zone: string) => {
      const there = box(zone);
      return start && there ? Math.hypot(there.x - start.x, there.y - start.y) : 0;
    };
    const order = zonesOf(view).sort((one, other) => distance(one) - distance(other));
    prices.ask(view, hand, revision, order, view.machine.on !== "" && !view.slow);
  }

  /** Prices a chip over which the pointer rests, before it is lifted. */
  rest(dim: string | null, from: string) {
    const { board } = this;
    clearTimeout(this.resting);
    if (dim === null || board.hand || board.readOnly || board.view.slow) return;
    this.resting = window.setTimeout(() => {
      if (!board.hand) this.zones({ dim, from, by: "pointer", target: null, add: board.adding });
    }, REST);
  }

  /** Asks for advice at once; what is not answered is asked again once Python is heard. */
  async now() {
    this.lost = false;
    if (!(await this.board.channel.send("advise", {}))) this.lost = true;
  }

  /** Asks for the advice that Python's silence has prevented. */
  heard() {
    if (this.lost) this.now();
  }

  /** Asks for advice once the board has been left alone for a while. */
  advice() {
    const { board } = this;
    clearTimeout(this.advising);
    if (board.view.slow || board.view.goal?.quiet || !board.can("advise")) return;
    this.advising = window.setTimeout(() => {
      if (board.hand) this.advice();
      else if (board.readOnly) this.lost = true;
      else this.now();
    }, IDLE);
  }
}
