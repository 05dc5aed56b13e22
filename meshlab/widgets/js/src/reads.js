// @ts-check
/**
 * What a panel asks of Python only while it is seen (`views/reads.READS`): too much to be sent with every drop. The last
 * answer stays until the one for the present revision has come; then the panels that read it are drawn again.
 */

/** @typedef {import("./board.js").Board} Board */

/** @typedef {{data: any, fresh: boolean, asked: boolean, error: string}} Read */

// The parts of the view that say of which plans answers are; of another layout beside, and when its costs come, one alone.
const PLANNED = ["board", "costs", "beside"];
// Those of what a search has found.
const FOUND = /** @type {Record<string, string[]>} */ ({
  met: ["search"],
  regrets: ["search"],
  way: ["search", "board"],
});
// So many answers are remembered.
const KEPT = 24;
/** @type {Readonly<Read>} */
const UNKNOWN = { data: null, fresh: false, asked: false, error: "" };

export class Reads {
  /** @param {Pick<Board, "channel" | "readOnly" | "revision" | "stage">} board */
  constructor(board) {
    this.board = board;
    /** @type {Map<string, Read>} by what was asked, as text */
    this.known = new Map();
    /** How often answers were out of date, "" of plans: what was asked before that is dropped when it comes. */
    this.rounds = /** @type {Record<string, number>} */ ({
      "": 0,
      ...Object.fromEntries(Object.keys(FOUND).map((what) => [what, 0])),
    });
  }

  /**
   * What is known; asks for it where it is not of the present revision.
   * @param {string} what the name of a part, as Python's registry has it
   * @param {Record<string, unknown>} [args]
   * @returns {Readonly<Read>} `data` is null until the first answer; `fresh` says whether it is of the present revision
   */
  of(what, args = {}) {
    const key = JSON.stringify([what, args]);
    const read = this.known.get(key) ?? { ...UNKNOWN };
    // The latest are kept.
    this.known.delete(key);
    this.known.set(key, read);
    if (this.known.size > KEPT) this.known.delete(/** @type {string} */ (this.known.keys().next().value));
    if (!read.fresh && !read.asked && !this.board.readOnly) this.ask(key, what, args);
    return read;
  }

  /**
   * @param {string} key
   * @param {string} what
   * @param {Record<string, unknown>} args
   */
  async ask(key, what, args) {
    const of = kindOf(what);
    const mine = this.rounds[of];
    this.put(key, { asked: true });
    const answer = await this.board.channel.send("read", { what, args });
    if (mine !== this.rounds[of]) return;
    // It is being worked out: this is asked again when that has come, and is on its way until then.
    if (answer?.data?.pending) return;
    const error = answer?.kind === "nack" ? [answer.reason, answer.fix].filter(Boolean).join(" ") : "";
    if (answer) this.put(key, { data: error ? null : answer.data, fresh: true, asked: false, error });
    else this.put(key, { asked: false });
    if (answer) this.board.stage.answered(what);
    else this.board.stage.tellBusy();
  }

  /**
   * Whether an answer is on its way.
   * @param {string[]} parts of these, by their names
   * @returns {boolean}
   */
  waits(parts) {
    return [...this.known].some(([key, { asked }]) => asked && parts.includes(JSON.parse(key)[0]));
  }

  /**
   * Forgets what is of a plan before, for a panel that is shown only now: nothing of it stands there that could stay.
   * @param {string[]} parts of these, by their names
   */
  forget(parts) {
    if (this.board.readOnly) return;
    for (const [key, { fresh, asked }] of this.known)
      if (!fresh && !asked && parts.includes(JSON.parse(key)[0])) this.known.delete(key);
  }

  /**
   * @param {string} key
   * @param {Partial<Read>} news
   */
  put(key, news) {
    this.known.set(key, { ...(this.known.get(key) ?? UNKNOWN), ...news });
  }

  /**
   * Takes note of the parts of the view that changed: what was known is of the plan or the costs before.
   * @param {string[]} parts
   */
  changed(parts) {
    const old = Object.keys(this.rounds).filter((of) => (FOUND[of] ?? PLANNED).some((part) => parts.includes(part)));
    for (const of of old) this.rounds[of] += 1;
    for (const key of this.known.keys())
      if (old.includes(kindOf(JSON.parse(key)[0]))) this.put(key, { fresh: false, asked: false });
  }
}

/**
 * @param {string} what
 * @returns {string} of what its answers are: a search's own, or "" for those of plans
 */
const kindOf = (what) => (what in FOUND ? what : "");
