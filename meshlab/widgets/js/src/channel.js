// @ts-check
/**
 * The page's side of the protocol (see meshlab/widgets/notebook/protocol.py). The page never writes shared state: it sends
 * intents and waits for their answers. Where none comes within two seconds the board turns read-only, so that it does
 * not look alive without a kernel; the next word from Python opens it again, for which it is asked ever more rarely.
 */

const PATIENCE = 2000;
// Prices are worked out when they are asked for: on a busy machine that takes longer than silence does.
const PRICING = 15_000;
const SLOW = ["prices", "advise", "read"];
// A library is a megabyte and a half: on its way for long, it says nothing of Python.
const FETCHING = 60_000;
// How often Python is asked whether it is there, while something is under way; and at first while it is silent.
const WATCH = 5000;
// How long it is left alone at the most: a question may be lost where the connection was just being made.
const RARELY = 60_000;

/**
 * @typedef {import("./types.js").Model} Model
 * @typedef {import("./types.js").Answer} Answer
 */

export class Channel {
  /**
   * @param {Model} model
   * @param {(silent: boolean) => void} onSilence told when Python stops and starts to answer
   */
  constructor(model, onSilence) {
    this.model = model;
    this.onSilence = onSilence;
    this.silent = false;
    /** @type {ReturnType<typeof setTimeout> | undefined} */
    this.asking = undefined;
    this.pause = WATCH;
    this.view = Math.random().toString(36).slice(2, 8);
    this.count = 0;
    /** @type {Map<string, {resolve: (answer: Answer | null) => void, timer: ReturnType<typeof setTimeout>, sent: number}>} */
    this.waiting = new Map();
    // Milliseconds by which Python's clock is ahead of the page's, by the quickest answer so far.
    /** @type {number | null} */
    this.ahead = null;
    this.quickest = Number.POSITIVE_INFINITY;
    this.receive = this.receive.bind(this);
    this.heard = this.heard.bind(this);
    model.on("msg:custom", this.receive);
    this.checkComm = this.checkComm.bind(this);
    // Whether the kernel that this board belongs to is known to be gone.
    this.cut = false;
    /** @type {ReturnType<typeof setInterval> | undefined} */
    this.watching = undefined;
    model.on("change:rev", this.heard);
    model.on("comm_live_update", this.checkComm);
    this.hello();
  }

  /** The notebook has lost its connection to this widget, or has it again. */
  checkComm() {
    this.cut = true;
    this.hello();
  }

  /**
   * Asks from time to time whether Python is there, or no longer; while it is silent, `silence` does.
   * @param {boolean} on
   */
  watch(on) {
    if (on === (this.watching !== undefined)) return;
    clearInterval(this.watching);
    this.watching = on ? setInterval(() => this.silent || this.hello(), WATCH) : undefined;
  }

  /** Asks whether Python answers, and how its clock stands. */
  hello() {
    return this.send("hello", {});
  }

  close() {
    this.closed = true;
    this.model.off("msg:custom", this.receive);
    this.model.off("change:rev", this.heard);
    this.model.off("comm_live_update", this.checkComm);
    this.watch(false);
    clearTimeout(this.asking);
    this.giveUp();
  }

  /** Tells whoever waits that no answer comes: another board of this page may wait for what this one asked for. */
  giveUp() {
    for (const { resolve, timer } of this.waiting.values()) {
      clearTimeout(timer);
      resolve(null);
    }
    this.waiting.clear();
  }

  /**
   * Sends an intent.
   * @param {string} op
   * @param {Record<string, unknown>} [args]
   * @returns {Promise<Answer | null>} the answer; null where none came in time
   */
  intent(op, args = {}) {
    return this.send("intent", { op, args });
  }

  /**
   * Asks what several intents would cost.
   * @param {{op: string, args: Record<string, unknown>}[]} intents
   * @param {boolean} peak whether the peak memory is asked for as well
   * @returns {Promise<Answer | null>}
   */
  prices(intents, peak) {
    return this.send("prices", { intents, peak });
  }

  /**
   * @param {"hello" | "intent" | "prices" | "advise" | "read" | "library"} kind
   * @param {Record<string, unknown>} content
   * @returns {Promise<Answer | null>}
   */
  send(kind, content) {
    // An answer could not be heard, and Python would be asked for one again and again.
    if (this.closed) return Promise.resolve(null);
    this.count += 1;
    const id = `${this.view}-${this.count}`;
    const sent = Date.now();
    return new Promise((resolve) => {
      // A selection waits behind prices that are being worked out; late, it is as good.
      const slow = SLOW.includes(kind) || content.op === "select" ? PRICING : PATIENCE;
      const patience = kind === "library" ? FETCHING : slow;
      const timer = setTimeout(() => this.silence(), patience);
      this.waiting.set(id, { resolve, timer, sent });
      // Until when, by Python's clock, the page waits: what Python reads later it must not carry out.
      const good = this.ahead === null ? null : (sent + this.ahead + patience) / 1000;
      try {
        this.model.send({ v: 2, kind, id, base_rev: this.model.get("rev"), good, ...content });
      } catch {
        this.silence();
      }
    });
  }

  /**
   * Whatever Python says shows that it answers: also what comes too late for whoever asked, who has been told so.
   * @param {Answer} answer
   * @param {ArrayBufferView[]} [buffers] what came with it as bytes
   */
  receive(answer, buffers = []) {
    this.heard();
    const asked = this.waiting.get(answer?.id);
    if (!asked) return;
    clearTimeout(asked.timer);
    this.waiting.delete(answer.id);
    this.setClock(asked.sent, answer.now);
    asked.resolve({ ...answer, buffers });
  }

  /**
   * @param {number} sent
   * @param {number} [now] Python's clock, in seconds
   */
  setClock(sent, now) {
    const took = Date.now() - sent;
    if (now === undefined || took >= this.quickest) return;
    this.quickest = took;
    this.ahead = now * 1000 - sent - took / 2;
  }

  heard() {
    this.cut = false;
    if (!this.silent) return;
    this.silent = false;
    clearTimeout(this.asking);
    this.pause = WATCH;
    this.onSilence(false);
    // Without Python's clock nothing that is sent could say until when it is good.
    if (this.ahead === null) this.hello();
  }

  silence() {
    this.giveUp();
    const known = this.silent && !this.cut;
    this.silent = true;
    if (!known) this.onSilence(true);
    clearTimeout(this.asking);
    this.asking = setTimeout(() => this.hello(), this.pause);
    this.pause = Math.min(2 * this.pause, RARELY);
  }
}
