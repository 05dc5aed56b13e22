// @ts-check
/**
 * The page's side of the protocol (see meshlab/widgets/notebook/protocol.py). The page never writes shared state: it sends
 * intents and waits for their answers. Where none comes within two seconds the board turns read-only, so that it does
 * not look alive without a kernel; the next word from Python opens it again.
 */

const PATIENCE = 2000;

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
    this.view = Math.random().toString(36).slice(2, 8);
    this.count = 0;
    /** @type {Map<string, {resolve: (answer: Answer | null) => void, timer: ReturnType<typeof setTimeout>}>} */
    this.waiting = new Map();
    this.previewing = false;
    /** @type {(() => void) | null} */
    this.nextPreview = null;
    this.receive = this.receive.bind(this);
    this.heard = this.heard.bind(this);
    model.on("msg:custom", this.receive);
    model.on("change:rev", this.heard);
  }

  close() {
    this.model.off("msg:custom", this.receive);
    this.model.off("change:rev", this.heard);
    for (const { timer } of this.waiting.values()) clearTimeout(timer);
    this.waiting.clear();
  }

  /**
   * Sends an intent.
   * @param {string} op
   * @param {Record<string, unknown>} [args]
   * @returns {Promise<Answer | null>} the answer; null where none came in time
   */
  intent(op, args = {}) {
    return this.send("intent", op, args);
  }

  /**
   * Asks what an intent would cost. One question is under way at a time; of those that come meanwhile the last is asked.
   * @param {string} op
   * @param {Record<string, unknown>} args
   * @param {(answer: Answer) => void} show
   */
  preview(op, args, show) {
    const ask = async () => {
      this.previewing = true;
      const answer = await this.send("preview", op, args);
      this.previewing = false;
      if (answer?.kind === "preview" && !this.nextPreview) show(answer);
      const next = this.nextPreview;
      this.nextPreview = null;
      next?.();
    };
    if (this.previewing) this.nextPreview = ask;
    else ask();
  }

  /**
   * @param {"intent" | "preview"} kind
   * @param {string} op
   * @param {Record<string, unknown>} args
   * @returns {Promise<Answer | null>}
   */
  send(kind, op, args) {
    this.count += 1;
    const id = `${this.view}-${this.count}`;
    return new Promise((resolve) => {
      const timer = setTimeout(() => this.silence(), PATIENCE);
      this.waiting.set(id, { resolve, timer });
      try {
        this.model.send({ v: 1, kind, id, base_rev: this.model.get("rev"), op, args });
      } catch {
        this.silence();
      }
    });
  }

  /**
   * Whatever Python says shows that it answers: also what comes too late for whoever asked, who has been told so.
   * @param {Answer} answer
   */
  receive(answer) {
    this.heard();
    const asked = this.waiting.get(answer?.id);
    if (!asked) return;
    clearTimeout(asked.timer);
    this.waiting.delete(answer.id);
    asked.resolve(answer);
  }

  heard() {
    if (this.silent) this.onSilence(false);
    this.silent = false;
  }

  silence() {
    for (const { resolve, timer } of this.waiting.values()) {
      clearTimeout(timer);
      resolve(null);
    }
    this.waiting.clear();
    this.silent = true;
    this.onSilence(true);
  }
}
