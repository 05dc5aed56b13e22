/**
 * A board without Python: what stands for the notebook's model, and answers the page's messages from a table of recorded
 * states (meshlab/widgets/frozen/record.py) as Python would (notebook/protocol.py). The page is the same, `session.ts`.
 *
 * A state follows from the layout alone, and says where each gesture leads or why it is refused. What depends on how a
 * reader came there is worked out here, by the same rules as in Python: undo (documents/document.py), the layouts that were
 * tried (state/tried.py), what stays selected and which tensor follows a chip (state/selection.py).
 */
import { addressOf } from "./address.ts";
import { UNRECORDED } from "./hand.ts";
import type { Model } from "./model.ts";
import { Recorded, type Tensor } from "./recorded.ts";
import { type Tried, type TriedLayout, titlesOf, triedOf, withLayout } from "./tried.ts";
import type { Selection, Shards } from "./types.ts";

export { follow } from "./address.ts";

type Refused = { code: string; text: string; fix: string; columns: unknown[] };
type Reply = { kind: string; [name: string]: unknown };
type Args = Record<string, any>;

// By how much numbers may differ that are the same (state/task.py).
const SAME = 1e-9;
const DONE: Reply = { kind: "ack" };
const NO_DEVICE = { coordinates: {}, groups: [], ranges: [] };
const NOT_HERE: Refused = {
  code: UNRECORDED,
  text: "Not recorded in this file.",
  fix: "A live notebook shows it: the code for that is above the board.",
  columns: [],
};

export class Replay extends Recorded implements Model {
  traits: Record<string, any>;
  listeners: Record<string, Set<(...args: any[]) => void>> = {};
  rev = 0;
  now: number;
  past: number[] = [];
  future: number[] = [];
  tried: Tried;
  beside: TriedLayout | null = null;
  selection: Pick<Selection, "place" | "dim" | "device" | "collective" | "moment">;
  /** The tab that is shown. */
  tab: string;
  /** Told when what is shown is another: layout, selection or tab. */
  onMove = () => {};

  /** @param text the table, as meshlab/widgets/frozen/record.py writes it */
  constructor(text: string) {
    super(text);
    this.now = this.root.start;
    this.tried = this.table.open(this.root.tried);
    const place = this.tensors(this.now)[0]?.place ?? null;
    this.selection = { place, dim: null, device: null, collective: null, moment: null };
    const session = { opened: this.part(this.now, "board").document, can: this.table.open(this.root.can) };
    this.tab = this.views[0];
    this.traits = { ...this.table.open(this.root.traits), session, rev: 0, ...this.parts() };
  }

  // What the page asks of a model

  get(name: string): any {
    return this.traits[name];
  }

  on(event: string, listener: (...args: any[]) => void) {
    this.listeners[event] ??= new Set();
    this.listeners[event].add(listener);
  }

  off(event: string, listener: (...args: any[]) => void) {
    this.listeners[event]?.delete(listener);
  }

  shows(view: string) {
    this.tab = view;
    this.onMove();
  }

  send(message: any) {
    queueMicrotask(() => {
      const reply = this.answer(message);
      this.fire("msg:custom", { id: message.id, now: Date.now() / 1000, rev: this.rev, ...reply }, []);
    });
  }

  fire(event: string, ...said: unknown[]) {
    for (const listener of [...(this.listeners[event] ?? [])]) listener(...said);
  }

  /** Shares what has changed. */
  share(traits: Record<string, any>) {
    const changed = Object.keys(traits).filter((name) => traits[name] !== this.traits[name]);
    Object.assign(this.traits, traits);
    for (const name of changed) this.fire(`change:${name}`);
  }

  // What Python does

  answer(message: { kind: string; op?: string; args?: Args; intents?: any[]; what?: string; peak?: boolean }): Reply {
    const { kind, op = "", args = {}, intents = [], what = "", peak = false } = message;
    if (kind === "hello" || kind === "advise") return DONE;
    if (kind === "prices") return { kind, prices: intents.map((each) => this.price(each.op, each.args, peak)) };
    if (kind === "read") return this.read(what, args);
    return kind === "intent" ? this.intent(op, args) : refusal(NOT_HERE);
  }

  read(what: string, args: Args): Reply {
    if (what === "link") return { kind: "read", data: { text: this.link(args.view) } };
    // The way from a layout before is what was recorded of that.
    const { begins, ...asked } = args;
    const state = begins ? this.stateOf(begins) : this.now;
    const known = this.table.shallow(this.state(state).reads)[keyOf(what, asked)];
    return known === undefined ? refusal(NOT_HERE) : { kind: "read", data: this.table.open(known) };
  }

  intent(op: string, args: Args): Reply {
    if (op === "select") return this.select(args);
    if (op === "undo" || op === "redo") return this.back(op);
    if (op === "predict") return this.predict(args.number);
    if (op === "baseline") return this.compareWith(args.document ? this.documented(args.document) : this.root.start);
    if (op === "beside") return this.showBeside(args);
    const next = this.after(op, args);
    if (typeof next !== "number") return refusal(next);
    const name = this.nameAfter(op, args, next);
    const tried = this.tried;
    this.tried = withLayout(tried, next, name, next);
    if (next === this.now) {
      if (tried !== this.tried) this.changed();
      return DONE;
    }
    this.past.push(this.now);
    this.future = [];
    this.move(next);
    if (op === "place") this.follow(args.dim, args.axes);
    this.changed();
    return DONE;
  }

  /** How the layout is called to which a gesture leads; "" for its number. */
  nameAfter(op: string, args: Args, next: number): string {
    if (op === "toggle") return this.part(next, "named").named?.short ?? "";
    return op === "load" ? (args.name ?? "") : op === "preset" && !args.combine ? this.label(args.name) : "";
  }

  /** The state after a gesture, or why it is refused. */
  after(op: string, args: Args): number | Refused {
    if (op === "reset") return this.root.start;
    if (op === "load") return this.laidOut(args.layout) ?? NOT_HERE;
    const move = this.table.shallow(this.table.shallow(this.states[this.now]).moves)[keyOf(op, args)];
    return move === undefined ? NOT_HERE : this.table.open(move);
  }

  price(op: string, args: Args, peak: boolean): unknown {
    const next = this.after(op, args);
    if (typeof next !== "number") return { refused: next };
    const { bytes, seconds, work, ...memory } = this.totals(next);
    return { bytes, seconds, peak: peak ? memory.peak : null, fits: peak ? memory.fits : null, work };
  }

  back(op: "undo" | "redo"): Reply {
    const [from, to] = op === "undo" ? [this.past, this.future] : [this.future, this.past];
    const next = from.pop();
    if (next === undefined)
      return refusal({ ...NOT_HERE, code: "nothing", text: `There is nothing to ${op}.`, fix: "" });
    to.push(this.now);
    this.tried = withLayout(this.tried, next, "", next);
    this.move(next);
    this.changed();
    return DONE;
  }

  /** Goes to a state; what it has as well stays selected. */
  move(next: number) {
    this.now = next;
    const { collective } = this.selection;
    const there = collective !== null && collective in this.moved(next);
    if (!there) Object.assign(this.selection, { collective: null, moment: null });
  }

  /** Selects the largest tensor that a chip shards where it was placed, unless the one that is shown is one of them. */
  follow(dim: string, axes: string[]) {
    const isSharded = ({ tensor: { dims, splits } }: Tensor) =>
      dims.some((each, i) => each === dim && splits[i].some((axis) => axes.includes(axis)));
    const sharded = this.tensors(this.now).filter(isSharded);
    if (!sharded.length || sharded.some(({ place }) => place === this.selection.place)) return;
    const size = ({ tensor }: Tensor) => tensor.shape.reduce((all, each) => all * each, 1);
    this.selection.place = sharded.reduce((best, each) => (size(each) > size(best) ? each : best)).place;
  }

  /** Predicts the number that the task asks for, and shares what it is. */
  predict(predicted: number): Reply {
    const { task } = this.traits.task;
    if (!task?.locked) {
      const text = task?.question ? "The first prediction counts." : "The board asks for no number.";
      return refusal({ ...NOT_HERE, code: "nothing", text, fix: "" });
    }
    const { number, near } = this.table.open(this.root.asked);
    const right = Math.abs(predicted - number) <= Math.max(near, SAME) * Math.abs(number);
    this.share({ task: { task: { ...task, locked: false, predicted, number, right } } });
    return DONE;
  }

  compareWith(state: number | undefined): Reply {
    if (state === undefined) return refusal(NOT_HERE);
    if (state === this.tried.baseline) return DONE;
    this.tried = { ...withLayout(this.tried, state, "", this.now), baseline: state };
    this.changed();
    return DONE;
  }

  showBeside({ document, preset }: Args): Reply {
    let other: TriedLayout | null = null;
    if (document || preset) {
      const state = preset ? this.after("preset", { name: preset, combine: false }) : this.documented(document);
      if (typeof state !== "number") return refusal(state ?? NOT_HERE);
      const name = (preset && this.label(preset)) || this.part(state, "board").layout.text || "empty";
      other = triedOf(this.tried, state) ?? { number: -1, name, state };
    }
    if (JSON.stringify(other) === JSON.stringify(this.beside)) return DONE;
    this.beside = other;
    this.changed();
    return DONE;
  }

  select(asked: Args): Reply {
    // A collective that is selected brings the tensor that it moves.
    const brought = "place" in asked ? null : this.moved(this.now)[asked.collective];
    const changes = brought ? { ...asked, place: brought } : asked;
    const { place, device, collective } = { ...this.selection, ...changes };
    if (this.unknown({ place, device, collective }, this.now).length) return refusal(NOT_HERE);
    const changed = Object.keys(changes).some((name) => changes[name] !== this.selection[name as "place"]);
    const tensor = place !== this.selection.place;
    Object.assign(this.selection, changes);
    if (changed) this.share({ selection: this.selected(), ...(tensor ? { devices: this.devices() } : {}) });
    if (changed) this.onMove();
    return DONE;
  }

  /** Shares a new revision. */
  changed() {
    this.rev += 1;
    this.share({ ...this.parts(), rev: this.rev });
    this.onMove();
  }

  /** Shows a tab on the page. */
  turnTo(view: string) {
    this.share({ tab: { view, count: this.traits.tab.count + 1 } });
  }

  /** The link of a tab as it is. */
  link(view: string): string {
    return `${globalThis.location?.href.split("#")[0] ?? ""}#${encodeURI(addressOf(this, view)).replaceAll("%25", "%")}`;
  }

  // What is shown of it

  /** All parts of the view (views/board.PARTS). */
  parts(): Record<string, any> {
    const parts = this.table.shallow(this.state(this.now).parts);
    const recorded = Object.fromEntries(Object.keys(parts).map((name) => [name, this.table.open(parts[name])]));
    return {
      ...recorded,
      comparison: { comparison: { ...recorded.comparison.comparison, cards: this.cards() } },
      search: this.searched(recorded.search),
      history: this.history(),
      devices: this.devices(),
      selection: this.selected(),
      beside: this.besides(),
    };
  }

  cards(): unknown[] {
    const { all, baseline } = this.tried;
    const titles = this.titles();
    return all.map(({ number, label, note, state }) => {
      const [{ name, totals, ...card }] = this.part(state, "comparison").comparison.cards;
      const marks = { ...(label ? { label } : {}), ...(note ? { note } : {}) };
      const now = { now: state === this.now, baseline: state === baseline };
      return { ...card, key: String(number), name: titles.get(number) ?? name, ...marks, ...now, totals };
    });
  }

  titles(): Map<number, string> {
    return titlesOf(this.tried.all, ({ state }) => {
      const { named } = this.part(state, "named");
      return named ? [named.short, named.text] : [];
    });
  }

  /** What a search has found, with the card that has its layout by now. */
  searched(part: any): any {
    if (!part.search) return part;
    const state = this.laidOut(part.search.load?.args.layout);
    const card = state === undefined ? undefined : triedOf(this.tried, state);
    const before = part.search.same ? { before: this.before() } : {};
    return { ...part, search: { ...part.search, ...before, card: card ? String(card.number) : null } };
  }

  /** The card of the layout before the present one, if there was one. */
  before(): string | undefined {
    const state = [...this.past].reverse().find((each) => each !== this.now);
    const tried = state === undefined ? undefined : triedOf(this.tried, state);
    return tried && String(tried.number);
  }

  /** The state of a layout that was tried, by its card. */
  stateOf(key: string): number {
    return this.tried.all.find(({ number }) => String(number) === key)?.state ?? this.now;
  }

  history(): unknown {
    return { history: { undo: this.past.length, redo: this.future.length } };
  }

  shown(number: number): Tensor | undefined {
    return this.tensors(number).find((each) => each.place === this.selection.place);
  }

  devices(): unknown {
    const mine = this.shown(this.now);
    const other = this.beside && this.shown(this.beside.state);
    const beside = other && { places: { rows: [other.tensor], left_out: 0 }, shards: other.shards };
    return { tensor: mine?.tensor ?? null, shards: mine?.shards ?? null, beside_devices: beside ?? null };
  }

  selected(): unknown {
    const { device } = this.selection;
    const more = device === null ? NO_DEVICE : this.ofDevice(device);
    return { selection: { ...this.selection, ...more } };
  }

  ofDevice(device: number): Pick<Selection, "coordinates" | "groups" | "ranges"> {
    const { table, root } = this;
    const groups = table.shallow(root.groups);
    const used: string[] = table.open(this.state(this.now).groups);
    const cell = this.part(this.now, "picture").picture.cells.devices.indexOf(device);
    const shards = this.shown(this.now)?.shards;
    return {
      coordinates: table.open(table.shallow(root.coordinates)[device]),
      groups: used.map((axes) => table.open(table.shallow(groups[axes])[device])),
      ranges: shards ? rangesOf(shards, Number(shards.held[cell])) : [],
    };
  }

  besides(): unknown {
    const { beside, root, table } = this;
    if (!beside) return { beside: null };
    const known = triedOf(this.tried, beside.state);
    const [board, costs] = [this.part(beside.state, "board"), this.part(beside.state, "costs")];
    return {
      beside: {
        name: (known && this.titles().get(known.number)) ?? beside.name,
        card: known ? String(known.number) : "",
        now: beside.state === this.now,
        ...picked(board, table.open(root.plan)),
        ...picked(costs, table.open(root.prediction)),
      },
    };
  }
}

/** @returns a question or a gesture as the text by which it is kept (frozen/questions.key_of) */
export function keyOf(what: string, args: unknown): string {
  const asked = Object.entries(args as object).filter(([, value]) => value !== null && value !== false);
  return JSON.stringify([what, ordered(Object.fromEntries(asked))]);
}

function ordered(value: any): any {
  if (Array.isArray(value)) return value.map(ordered);
  if (value === null || typeof value !== "object") return value;
  return Object.fromEntries(
    Object.keys(value)
      .sort()
      .map((name) => [name, ordered(value[name])]),
  );
}

function refusal({ text, fix, code }: Refused): Reply {
  return { kind: "nack", reason: text, fix, code };
}

function picked(value: Record<string, unknown>, names: string[]): Record<string, unknown> {
  return Object.fromEntries(names.map((name) => [name, value[name]]));
}

/** Where a slice begins and ends along each axis; slices are numbered row by row over the parts. */
function rangesOf({ parts, edges }: Shards, slice: number): number[][] {
  const ranges: number[][] = [];
  let rest = slice;
  for (let axis = parts.length - 1; axis >= 0; axis -= 1) {
    const part = rest % parts[axis];
    ranges.unshift([edges[axis][part], edges[axis][part + 1]]);
    rest = Math.floor(rest / parts[axis]);
  }
  return ranges;
}
