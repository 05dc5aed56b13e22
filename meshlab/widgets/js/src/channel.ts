/**
 * The page's side of the protocol (see meshlab/widgets/notebook/protocol.py). The page never writes shared state: it sends
 * intents and waits for their answers. Where none comes within two seconds the board turns read-only, so that it does
 * not look alive without a kernel; the next word from Python opens it again, for which it is asked ever more rarely.
 */
import type { Heard, Model } from "./model.ts";
import type { Answer, Intent } from "./types.ts";

const PATIENCE = 2000;
// Prices are worked out when they are asked for: on a busy machine that takes longer than silence does.
const PRICING = 15_000;
const SLOW = ["prices", "advise", "read"];
// A selection waits behind prices that are being worked out: late, it is as good. At another size a program is planned
// anew, or traced.
const SLOW_INTENTS = ["select", "resize_dim", "resize_axis", "open"];
// A library is a megabyte and a half: on its way for long, it says nothing of Python.
const FETCHING = 60_000;
// How often Python is asked whether it is there, while something is under way; and at first while it is silent.
const WATCH = 5000;
// How long it is left alone at the most: a question may be lost where the connection was just being made.
const RARELY = 60_000;

export class Channel {
  model: Model;
  onSilence: (silent: boolean) => void;
  silent = false;
  closed = false;
  asking?: ReturnType<typeof setTimeout>;
  pause = WATCH;
  view = Math.random().toString(36).slice(2, 8);
  count = 0;
  waiting = new Map<
    string,
    { resolve: (answer: Heard | null) => void; timer: ReturnType<typeof setTimeout>; sent: number }
  >();
  // Milliseconds by which Python's clock is ahead of the page's, by the quickest answer so far.
  ahead: number | null = null;
  quickest = Number.POSITIVE_INFINITY;
  // Whether the kernel that this board belongs to is known to be gone.
  cut = false;
  watching?: ReturnType<typeof setInterval>;

  /** @param onSilence told when Python stops and starts to answer */
  constructor(model: Model, onSilence: (silent: boolean) => void) {
    this.model = model;
    this.onSilence = onSilence;
    this.receive = this.receive.bind(this);
    this.heard = this.heard.bind(this);
    model.on("msg:custom", this.receive);
    this.checkComm = this.checkComm.bind(this);
    model.on("change:rev", this.heard);
    model.on("comm_live_update", this.checkComm);
    this.hello();
  }

  /** The notebook has lost its connection to this widget, or has it again. */
  checkComm() {
    this.cut = true;
    this.hello();
  }

  /** Asks from time to time whether Python is there, or no longer; while it is silent, `silence` does. */
  watch(on: boolean) {
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
   * @returns the answer; null where none came in time
   */
  intent(op: string, args: Record<string, unknown> = {}): Promise<Heard | null> {
    return this.send("intent", { op, args });
  }

  /**
   * Asks what several intents would cost.
   * @param peak whether the peak memory is asked for as well
   */
  prices(intents: Intent[], peak: boolean): Promise<Heard | null> {
    return this.send("prices", { intents, peak });
  }

  send(
    kind: "hello" | "intent" | "prices" | "advise" | "read" | "bytes" | "library",
    content: Record<string, unknown>,
  ): Promise<Heard | null> {
    // An answer could not be heard, and Python would be asked for one again and again.
    if (this.closed) return Promise.resolve(null);
    this.count += 1;
    const id = `${this.view}-${this.count}`;
    const sent = Date.now();
    return new Promise((resolve) => {
      const slow = SLOW.includes(kind) || SLOW_INTENTS.includes(String(content.op)) ? PRICING : PATIENCE;
      const patience = kind === "library" || kind === "bytes" ? FETCHING : slow;
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
   * @param buffers what came with it as bytes
   */
  receive(answer: Answer, buffers: ArrayBufferView[] = []) {
    this.heard();
    const asked = this.waiting.get(answer?.id);
    if (!asked) return;
    clearTimeout(asked.timer);
    this.waiting.delete(answer.id);
    this.setClock(asked.sent, answer.now);
    asked.resolve({ ...answer, buffers });
  }

  /** @param now Python's clock, in seconds */
  setClock(sent: number, now?: number) {
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
