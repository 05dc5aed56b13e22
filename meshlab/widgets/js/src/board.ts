/**
 * The workbench: it holds the hand, sends what is dropped, and redraws its panels when Python has answered. A panel is a
 * function of the view that gives elements; nothing on the screen is kept anywhere else.
 */
import { drawAdvice } from "./advice.ts";
import { Asking } from "./asking.ts";
import { drawBaseline } from "./baseline.ts";
import { Channel } from "./channel.ts";
import { Charts } from "./charts.ts";
import { nothingChosen } from "./chosen.ts";
import { h, redraw } from "./dom.ts";
import { followEdits } from "./edit.ts";
import { drawSave } from "./export.ts";
import { Focus } from "./focus.ts";
import { paintGoal } from "./goal.ts";
import { type Arrow, type Hand, nextLegal, UNRECORDED, verdict, zoneName } from "./hand.ts";
import { drawHeader } from "./header.ts";
import { makeHeld } from "./held.ts";
import { Hint } from "./hint.ts";
import { drawOffers } from "./instead.ts";
import { listenToKeys } from "./keyboard.ts";
import { keysText } from "./keys.ts";
import { followLook } from "./look.ts";
import { type Heard, type Model, refusalOf } from "./model.ts";
import { makePanels } from "./panels.ts";
import { PointerDrag } from "./pointer.ts";
import { Popover } from "./popover.ts";
import { Prices } from "./prices.ts";
import { followProfile } from "./profile.ts";
import { Reads } from "./reads.ts";
import { Remedies } from "./remedies.ts";
import { hidePicture, remember } from "./remember.ts";
import { askedOf, restore } from "./restore.ts";
import { Room } from "./room.ts";
import { type Shown, split } from "./scopes.ts";
import { followSearch } from "./search.ts";
import { deviceText, paintSelection, select } from "./selection.ts";
import { doneText, grabbedText, HOW, priceText, refusedText, SIZES, totalsText } from "./sentences.ts";
import { freeze, isUnderWay, sayLost, showSilence } from "./silence.ts";
import { Stage } from "./stage.ts";
import { drawSaid, speak } from "./status.ts";
import { drawDetail } from "./step_words.ts";
import { paintTask } from "./task.ts";
import { explained } from "./terms.ts";
import { StepTimeline } from "./timeline.ts";
import { drawTotals } from "./totals.ts";
import { Tour } from "./tour.ts";
import { foldTray } from "./tray.ts";
import { PARTS, type Selection, type View } from "./types.ts";
import { drawLayoutLine, drawZones, paintZones } from "./zones.ts";

export class Board {
  model: Model;
  root: HTMLElement;
  hand: Hand | null = null;
  readOnly = false;
  adding = false;
  ready = false;
  /** Where a chip was dropped that is not drawn there yet. */
  arriving: { dim: string; zone: string; by: Hand["by"] } | null = null;
  chosen = nothingChosen();
  costs: Pick<View, "time" | "peak_memory" | "timeline"> = { time: null, peak_memory: null, timeline: null };
  selection: Selection;
  searched = "";
  searching = false;
  awaited = false;
  tracing = false;
  asking: Asking;
  focus: Focus;
  /** The disclosures that are open. */
  opened = new Set<string>();
  channel: Channel;
  prices: Prices;
  remedies: Remedies;
  reads: Reads;
  /** The part of the mesh that the picture of devices shows; null for all of it. */
  window: [number, number][] | null = null;
  /** The stop that Python has not answered; "" for none. */
  unheard = "";
  // How many selections Python has not answered yet.
  selecting = 0;
  panels = makePanels();
  timeline = new StepTimeline(this);
  charts: Charts;
  room: Room;
  stage: Stage;
  showHeld: (on: boolean) => void;
  showPicture: ReturnType<typeof hidePicture>;
  popover: Popover;
  hint: Hint;
  tour: Tour;
  drag: PointerDrag;
  dirty = new Set<string>();
  together: Shown | null = null;
  /** What costs follow from, by the document that it was read of. */
  read = { document: "", asked: "" };
  listeners: [string, () => void][];
  unlisten: () => void;
  /** What the status line was last said of. */
  said: string;
  /** Whether the goal was met when that was. */
  met = false;

  constructor(model: Model, root: HTMLElement) {
    this.model = model;
    this.root = root;
    this.selection = model.get("selection").selection;
    this.asking = new Asking(this);
    this.focus = new Focus(root);
    this.channel = new Channel(model, (silent) => showSilence(this, silent));
    this.prices = new Prices(this.channel, () => this.paint());
    this.remedies = new Remedies(this);
    this.reads = new Reads(this);
    this.charts = new Charts(this);
    this.room = new Room(this);
    this.stage = new Stage(this);
    this.showHeld = makeHeld(this);
    const { banner, heard, header, task, score, goal, layout } = this.panels;
    const main = h("div", { class: "mlb-main" }, layout, this.room.divider, this.stage.element);
    root.style.setProperty("--asked", `${model.get("height") ?? 600}px`);
    this.showPicture = hidePicture(String(model.get("saved") ?? ""));
    // A view by itself has nothing around it.
    const only = String(model.get("panel") ?? "");
    const view = only === "timeline" ? this.panels.timeline : only ? this.stage.alone(only) : null;
    const parts = view ? [banner, task, view, drawSave(this, only)] : null;
    const whole = [banner, header, task, score, goal, main, this.panels.timeline];
    root.append(h("div", { class: parts ? "mlb-alone" : "mlb-frame" }, ...(parts ?? whole)), heard);
    this.popover = new Popover(this);
    this.hint = new Hint(root);
    this.tour = new Tour(this);
    this.drag = new PointerDrag(this);
    this.unlisten = listenToKeys(this);
    this.panels.help.append(keysText(this));
    this.listeners = [
      ...PARTS.map((part) => [`change:${part}`, () => this.later(part)] as [string, () => void]),
      ["change:rev", () => this.later("rev")],
      ["change:tab", () => only || this.stage.show(this.stage.asked)],
      ["change:job", () => this.showJob()],
      ["change:notice", () => model.get("notice")?.reason && this.say(model.get("notice").reason, "refused")],
    ];
    for (const [event, listener] of this.listeners) model.on(event, listener);
    this.draw([...PARTS]);
    this.said = this.asked;
    this.met = this.view.goal?.met ?? false;
    this.ready = true;
    this.showJob();
    this.say(this.can("resize_dim") ? HOW + SIZES : HOW);
    restore(this);
    this.tour.offer();
  }

  close() {
    // What is still under way must not ask Python anew.
    this.readOnly = true;
    this.asking.stop();
    this.remedies.close();
    this.prices.stop();
    this.showPicture();
    this.tour.close();
    this.charts.close();
    this.channel.close();
    this.unlisten();
    for (const [event, listener] of this.listeners) this.model.off(event, listener);
  }

  /** What is drawn, of all parts together; put together once for each change. */
  get view(): Shown {
    this.together ??= this.merge();
    return this.together;
  }

  /** Puts the parts together; while costs are being worked out, the last ones stay. */
  merge(): Shown {
    const view: Shown = Object.assign({}, ...PARTS.map((part) => this.model.get(part)));
    const { time, peak_memory, timeline, places, tensor } = view;
    // Of very many tensors a few are listed, and the one that is shown.
    if (tensor && !places.rows.some((row) => row.place === tensor.place))
      view.places = { ...places, rows: [...places.rows, tensor] };
    Object.assign(view, split(view.columns, this.opened));
    if (!view.pending) this.costs = { time, peak_memory, timeline };
    return view.pending ? { ...view, ...this.costs } : view;
  }

  /** The document that the Explorer was opened with. */
  get openedWith(): string {
    return this.model.get("session").opened;
  }

  /** @returns whether an operation can be asked for, or something read: of a board without Python only what was recorded */
  can(what: string): boolean {
    return this.model.get("session").can.includes(what);
  }

  get revision(): number {
    return Number(this.model.get("rev"));
  }

  /** Draws a part that changed together with all others that came in the same message. */
  later(part: string) {
    this.together = null;
    if (this.dirty.size === 0) queueMicrotask(() => this.draw([...this.dirty]));
    this.dirty.add(part);
  }

  draw(parts: string[]) {
    this.dirty.clear();
    this.together = null;
    const { view, panels } = this;
    this.reads.changed(parts);
    if (parts.join() === "search") return this.drawProgress();
    if (parts.join() === "xla") return this.stage.answered("xla");
    if (parts.includes("look")) followLook(this);
    if (parts.includes("profile")) followProfile(this);
    if (["look", "profile"].includes(parts.join())) return this.drawAsked(parts);
    if (parts.includes("board")) {
      if (this.hand && !view.chips.some((chip) => chip.name === this.hand?.dim)) this.hand = null;
      if (this.ready && this.revision > 0 && this.can("restore")) remember(view.document, this.openedWith);
      this.prices.forget(this.revision);
      redraw(panels.header, drawHeader(this));
      if (this.hand) this.asking.zones(this.hand);
      this.asking.advice();
    }
    if (parts.includes("task")) paintTask(this);
    if (parts.includes("board") || parts.includes("named")) redraw(panels.line, drawLayoutLine(view));
    if (parts.includes("board") || parts.includes("comparison")) redraw(panels.baseline, drawBaseline(this));
    if (parts.includes("board") || parts.includes("advice")) this.drawBoard();
    redraw(panels.advice, drawAdvice(this));
    followEdits(this, parts);
    this.root.toggleAttribute("data-machine", view.machine.on !== "");
    this.root.toggleAttribute("data-pending", view.pending);
    this.paint();
    if (parts.includes("costs")) this.timeline.draw();
    // Panels draw what is selected.
    if (parts.includes("selection")) this.heardSelection();
    this.stage.changed(parts);
    if (parts.includes("search")) followSearch(this);
    this.marked();
    this.remedies.redraw();
    this.hint.check();
    this.root.setAttribute("data-rev", String(this.revision));
    // A change by a script or in another view is said as well: the line never tells of another layout than the board.
    const reached = !this.met && view.goal?.met;
    const other = this.ready && (this.said !== this.asked || reached);
    if ((other || (this.awaited && !view.pending)) && !this.hand) this.sayTotals();
    if (this.readOnly) freeze(this);
    this.charts.fetchAhead();
    this.watch();
  }

  /** Draws how far a search is, several times a second, and nothing that a hand may be about to press. */
  drawProgress() {
    this.stage.changed(["search"]);
    followSearch(this);
    this.watch();
  }

  /** Draws how far something is that was asked for. */
  drawAsked(parts: string[]) {
    this.stage.changed(parts);
    this.watch();
  }

  showJob() {
    this.stage.training.show(this.model.get("job"));
    this.watch();
  }

  drawBoard() {
    redraw(this.panels.zones, drawZones(this));
    foldTray(this);
  }

  /** Draws again a choice that was not carried out, so that it goes back to what it was. */
  drawChoices() {
    this.draw(["board"]);
  }

  paint() {
    paintZones(this);
    this.drag?.place();
    const { hand, view } = this;
    const price = hand?.target ? this.prices.of(view, hand, hand.target) : undefined;
    redraw(this.panels.totals, drawTotals(view, price));
    this.showHeld(hand !== null);
    paintGoal(this, price);
    if (!hand?.target || !price) return;
    if (price.refused) this.sayVerdict(hand, hand.target);
    else this.say(priceText(view, hand, hand.target, price));
  }

  /**
   * Says something on the status line, which screen readers read out.
   * @param more what stands behind it, such as a button
   */
  say(text: string, mood: "plain" | "done" | "refused" = "plain", more: (Node | string)[] = []) {
    speak(this.panels.status, text, mood, more);
  }

  /** Sends an intent, and says why where it was refused; a board that can only be read sends none. */
  async send(op: string, args: Record<string, unknown> = {}): Promise<Heard | null> {
    if (this.readOnly) return null;
    const before = this.asked;
    const answer = await this.channel.intent(op, args);
    if (answer === null) sayLost(this, op, args);
    if (answer) this.root.setAttribute("data-ack", answer.id);
    if (answer?.kind === "nack")
      this.say(refusalOf(answer), answer.code === UNRECORDED ? "plain" : "refused", drawOffers(this, answer));
    else if (answer?.kind === "ack" && answer.note) this.say(answer.note, "done");
    else if (answer && this.asked !== before) this.sayTotals();
    else if (answer && doneText(op, args)) this.say(doneText(op, args), "done");
    return answer;
  }

  /** What costs follow from, as one text. */
  get asked(): string {
    const { document } = this.view;
    if (document !== this.read.document) this.read = { document, asked: askedOf(document) };
    return this.read.asked;
  }

  sayTotals() {
    this.said = this.asked;
    this.awaited = this.view.pending;
    this.met = this.view.goal?.met ?? false;
    // What does not fit is no success.
    const mood = this.view.peak_memory?.fits === false ? "plain" : "done";
    this.say(totalsText(this.view), mood, drawSaid(this.view));
  }

  /** Takes what is selected from Python, and says of a device what Python knows; not what was replaced meanwhile. */
  heardSelection() {
    if (this.selecting > 1) return;
    const before = this.selection;
    this.selection = this.view.selection;
    const text = deviceText(this.view, this.selection);
    const known = before.device === this.selection.device && before.groups.length > 0;
    if (text && !known && !this.hand && this.ready) this.say(text);
  }

  /** Marks what is selected in all that is drawn. */
  marked() {
    redraw(this.panels.detail, explained(drawDetail(this)));
    paintSelection(this);
    this.stage.marked();
    this.remedies.watch();
  }

  // The hand

  /** Picks a chip up. */
  grab(dim: string, from: string, by: Hand["by"]) {
    if (this.readOnly) return;
    this.hand = { dim, from, by, target: null, add: this.adding };
    this.paint();
    this.asking.zones(this.hand);
    this.say(grabbedText(this.view, this.hand));
    if (this.selection.dim !== dim) select(this, { dim });
  }

  /** Points at a zone. */
  aim(zone: string | null, add: boolean) {
    const { hand } = this;
    if (!hand) return;
    const adding = add || this.adding;
    if (hand.target === zone && hand.add === adding) return;
    this.hand = { ...hand, target: zone, add: adding };
    if (hand.add !== adding) this.asking.zones(this.hand);
    if (zone !== null) this.sayVerdict(this.hand, zone);
    this.paint();
  }

  /** Says what a zone says to the chip. */
  sayVerdict(hand: Hand, zone: string) {
    const { view } = this;
    const said = verdict(view, hand, zone, this.prices.of(view, hand, zone));
    const refused = refusedText(said.note, said.refusal, this.can("pad"));
    if (said.state === "refused") this.say(refused, "refused");
    if (said.state === "unrecorded") this.say(refused);
    if (said.state === "legal") this.say(`${zoneName(view, zone)}: ${hand.dim} ${said.note}.`);
  }

  /** Points at the next zone that takes the chip. */
  step(arrow: Arrow, add: boolean) {
    if (!this.hand) return;
    const hand = { ...this.hand, add: add || this.adding };
    const zone = nextLegal(this.view, hand, arrow, (each) => this.prices.of(this.view, hand, each));
    if (zone === null) this.say(`No zone takes ${hand.dim}.`, "refused");
    else this.aim(zone, hand.add);
  }

  letGo() {
    if (!this.hand) return;
    this.hand = null;
    this.adding = false;
    this.prices.stop();
    this.paint();
    // What a drop sends goes first.
    queueMicrotask(() => this.remedies.resume());
    this.say("");
  }

  // Python

  /** Keeps an eye on Python while it is at work on something. */
  watch() {
    this.channel.watch(isUnderWay(this.view, this.model.get("job")));
  }
}
