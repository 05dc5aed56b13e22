/**
 * What a panel asks of Python only while it is seen (`views/reads.READS`): too much to be sent with every drop. The last
 * answer stays until the one for the present revision has come; then the panels that read it are drawn again.
 */
import type { Board } from "./board.ts";
import { refusalOf } from "./model.ts";
import type { Pending, ReadData } from "./types.ts";

/** What a panel asks for, once it is worked out. */
export type Data<Name extends keyof ReadData> = Exclude<ReadData[Name], Pending>;
type Read<Name extends keyof ReadData> = { data: Data<Name> | null; fresh: boolean; asked: boolean; error: string };
type Any = Read<any>;

// The parts of the view that say of which plans answers are; of another layout beside, and when its costs come, one alone.
const PLANNED = ["board", "costs", "beside"];
// Those of what a search has found, XLA has compiled, or was measured.
const FOUND = {
  step: [...PLANNED, "profile"], // with what was measured of it
  values: [], // of a run by its number
  met: ["search"],
  regrets: ["search"],
  way: ["search", "board"],
  inserted: ["xla", "board"],
} as Record<string, string[]>;
// So many answers are remembered.
const KEPT = 24;
const UNKNOWN: Readonly<Any> = { data: null, fresh: false, asked: false, error: "" };

export class Reads {
  board: Pick<Board, "channel" | "readOnly" | "revision" | "stage">;
  /** By what was asked, as text. */
  known = new Map<string, Any>();
  /** How often answers were out of date, "" of plans: what was asked before that is dropped when it comes. */
  rounds = {
    "": 0,
    ...Object.fromEntries(Object.keys(FOUND).map((what) => [what, 0])),
  } as Record<string, number>;

  constructor(board: Pick<Board, "channel" | "readOnly" | "revision" | "stage">) {
    this.board = board;
  }

  /**
   * What is known; asks for it where it is not of the present revision.
   * @param what the name of a part, as Python's registry has it
   * @returns `data` is null until the first answer; `fresh` says whether it is of the present revision
   */
  of<Name extends keyof ReadData>(what: Name, args: Record<string, unknown> = {}): Readonly<Read<Name>> {
    const key = JSON.stringify([what, args]);
    const read = this.known.get(key) ?? { ...UNKNOWN };
    // The latest are kept.
    this.known.delete(key);
    this.known.set(key, read);
    if (this.known.size > KEPT) this.known.delete(this.known.keys().next().value as string);
    if (!read.fresh && !read.asked && !this.board.readOnly) this.ask(key, what, args);
    return read;
  }

  async ask(key: string, what: string, args: Record<string, unknown>) {
    const of = kindOf(what);
    const mine = this.rounds[of];
    this.put(key, { asked: true });
    const answer = await this.board.channel.send("read", { what, args });
    if (mine !== this.rounds[of]) return;
    // It is being worked out: this is asked again when that has come, and is on its way until then.
    const data = answer?.kind === "read" ? answer.data : null;
    if (data?.pending) return;
    if (answer) this.put(key, { data, fresh: true, asked: false, error: refusalOf(answer) });
    else this.put(key, { asked: false });
    if (answer) this.board.stage.answered(what);
    else this.board.stage.tellBusy();
  }

  /**
   * Whether an answer is on its way.
   * @param parts of these, by their names
   */
  waits(parts: string[]): boolean {
    return [...this.known].some(([key, { asked }]) => asked && parts.includes(JSON.parse(key)[0]));
  }

  /**
   * Forgets what is of a plan before, for a panel that is shown only now: nothing of it stands there that could stay.
   * @param parts of these, by their names
   */
  forget(parts: string[]) {
    if (this.board.readOnly) return;
    for (const [key, { fresh, asked }] of this.known)
      if (!fresh && !asked && parts.includes(JSON.parse(key)[0])) this.known.delete(key);
  }

  /** Has what Python did not answer asked for again, by those who show it. */
  heard() {
    const lost = [...this.known].filter(([, { fresh, asked }]) => !fresh && !asked);
    for (const what of new Set(lost.map(([key]) => JSON.parse(key)[0]))) this.board.stage.answered(what);
  }

  put(key: string, news: Partial<Any>) {
    this.known.set(key, { ...(this.known.get(key) ?? UNKNOWN), ...news });
  }

  /** Takes note of the parts of the view that changed: what was known is of the plan or the costs before. */
  changed(parts: string[]) {
    const old = Object.keys(this.rounds).filter((of) => (FOUND[of] ?? PLANNED).some((part) => parts.includes(part)));
    for (const of of old) this.rounds[of] += 1;
    for (const key of this.known.keys())
      if (old.includes(kindOf(JSON.parse(key)[0]))) this.put(key, { fresh: false, asked: false });
  }
}

/** @returns of what its answers are: its own, or "" for those of plans */
const kindOf = (what: string): string => (what in FOUND ? what : "");
