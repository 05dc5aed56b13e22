// @ts-check
/**
 * The board: it holds the hand, sends what is dropped, and redraws its panels when Python has answered. A panel is a
 * function of the view that gives elements; nothing on the screen is kept anywhere else.
 */
import { Channel } from "./channel.js";
import { drawCollectives } from "./collectives.js";
import { drawCommunication } from "./communication.js";
import { drawComparison, isSearching } from "./comparison.js";
import { h, prose, redraw } from "./dom.js";
import { bytes, seconds, signedBytes, signedSeconds } from "./format.js";
import { axesAfter, chipOf, dropIntent, nextLegal, verdict, zoneName, zonesOf } from "./hand.js";
import { drawHeader, drawTotals } from "./header.js";
import { listenToKeys } from "./keyboard.js";
import { drawMachine } from "./machine.js";
import { drawMemory } from "./memory.js";
import { drawMesh } from "./mesh.js";
import { makePanels } from "./panels.js";
import { PointerDrag } from "./pointer.js";
import { drawTime } from "./time.js";
import { Training } from "./training.js";
import { drawZones, paintZones } from "./zones.js";

/**
 * @typedef {import("./types.js").View} View
 * @typedef {import("./types.js").Model} Model
 * @typedef {import("./types.js").Answer} Answer
 * @typedef {import("./hand.js").Hand} Hand
 */

// Milliseconds after which a hand is taken to rest over a zone.
const REST = 80;

/**
 * @param {Answer} answer
 * @returns {string}
 */
function priceOf(answer) {
  const sent = `each device would send ${bytes(answer.bytes ?? 0)} per step (${signedBytes(answer.change ?? 0)})`;
  const by = typeof answer.seconds_change === "number" ? ` (${signedSeconds(answer.seconds_change)})` : "";
  const step = answer.seconds === undefined ? "" : `; a step would take ${seconds(answer.seconds)}${by}`;
  const more = typeof answer.peak_change === "number" ? ` (${signedBytes(answer.peak_change)})` : "";
  const over = answer.fits === false ? ", which does not fit" : "";
  const peak = answer.peak === undefined ? "" : `; peak memory would be ${bytes(answer.peak)}${more}${over}`;
  return `${sent}${step}${peak}`;
}

export class Board {
  /**
   * @param {Model} model
   * @param {HTMLElement} root
   */
  constructor(model, root) {
    this.model = model;
    this.root = root;
    /** @type {Hand | null} */
    this.hand = null;
    this.readOnly = false;
    this.adding = false;
    /** @type {{time: View["time"], peak_memory: View["peak_memory"]}} */
    this.costs = { time: null, peak_memory: null };
    this.machine = "";
    this.awaited = false;
    this.pricing = 0;
    /** @type {Set<string>} the disclosures that are open */
    this.opened = new Set();
    this.channel = new Channel(model, (silent) => this.showSilence(silent));
    this.panels = makePanels();
    root.append(...this.panels.all);
    this.training = new Training(this, this.panels.training);
    this.drag = new PointerDrag(this);
    listenToKeys(this);
    this.draw = this.draw.bind(this);
    this.drawJob = this.drawJob.bind(this);
    this.drawNotice = this.drawNotice.bind(this);
    model.on("change:view", this.draw);
    model.on("change:job", this.drawJob);
    model.on("change:notice", this.drawNotice);
    this.draw();
    this.drawJob();
    this.say("Drag a dim onto a mesh axis; or pick it up with a click, or with Space and the arrow keys.");
  }

  close() {
    clearTimeout(this.pricing);
    this.channel.close();
    this.model.off("change:view", this.draw);
    this.model.off("change:job", this.drawJob);
    this.model.off("change:notice", this.drawNotice);
  }

  /**
   * What is drawn; while costs are being worked out, the last ones stay.
   * @returns {View}
   */
  get view() {
    /** @type {View} */
    const view = this.model.get("view");
    if (!view.pending) this.costs = { time: view.time, peak_memory: view.peak_memory };
    return view.pending ? { ...view, ...this.costs } : view;
  }

  draw() {
    const rev = String(this.model.get("rev"));
    // Costs come after the revision that they are of; whatever else is drawn stays, under the hand that holds it.
    if (this.root.getAttribute("data-rev") !== rev) this.drawRevision();
    redraw(this.panels.totals, drawTotals(this.view));
    this.drawCosts();
    if (this.root.getAttribute("data-rev") !== rev) this.root.setAttribute("data-rev", rev);
    if (this.awaited && !this.view.pending && !this.hand) this.sayTotals();
  }

  drawRevision() {
    const { view, panels } = this;
    if (this.hand && !view.chips.some((chip) => chip.name === this.hand?.dim)) this.hand = null;
    redraw(panels.header, drawHeader(this));
    redraw(panels.zones, drawZones(this));
    paintZones(panels.zones, view, this.hand);
    redraw(panels.mesh, drawMesh(this));
    redraw(panels.communication, drawCommunication(this));
    redraw(panels.collectives, drawCollectives(view));
  }

  /**
   * Draws what may follow a drop; the machine only where its placement changed, for that is a large picture.
   * @param {boolean} [anew] draws all of it: a choice that was refused is to go back to what it was
   */
  drawCosts(anew = false) {
    const { view, panels } = this;
    this.root.toggleAttribute("data-machine", view.machine.on !== "");
    this.root.toggleAttribute("data-pending", view.pending);
    for (const panel of [panels.time, panels.memory]) panel.setAttribute("aria-busy", String(view.pending));
    const machine = JSON.stringify(view.machine);
    if (anew || machine !== this.machine) redraw(panels.machine, drawMachine(this));
    this.machine = machine;
    redraw(panels.time, drawTime(this));
    redraw(panels.memory, drawMemory(this));
    panels.comparison.setAttribute("aria-busy", String(isSearching(view)));
    redraw(panels.comparison, drawComparison(this));
  }

  drawJob() {
    this.training.show(this.model.get("job"));
  }

  drawNotice() {
    const notice = this.model.get("notice");
    if (notice?.reason) this.say(notice.reason, "refused");
  }

  /**
   * Says something on the status line, which screen readers read out.
   * @param {string} text
   * @param {"plain" | "done" | "refused"} [mood]
   */
  say(text, mood = "plain") {
    const { status } = this.panels;
    status.setAttribute("data-mood", mood);
    redraw(status, prose(text));
  }

  /**
   * Sends an intent, and says why where it was refused.
   * @param {string} op
   * @param {Record<string, unknown>} [args]
   * @returns {Promise<Answer | null>}
   */
  async send(op, args = {}) {
    const before = this.asked;
    const answer = await this.channel.intent(op, args);
    if (answer) this.root.setAttribute("data-ack", answer.id);
    if (answer?.kind === "nack") this.say([answer.reason, answer.fix].filter(Boolean).join(" "), "refused");
    else if (answer && this.asked !== before) this.sayTotals();
    return answer;
  }

  /** The layout, the machine and the assumptions, as one text. */
  get asked() {
    const { layout, machine, time } = this.view;
    return JSON.stringify([layout.text, machine.on, machine.axes, time?.options]);
  }

  sayTotals() {
    const { communication, change, layout } = this.view;
    const by = change ? ` (${signedBytes(change.bytes)})` : "";
    const sent = `each device sends ${bytes(communication.total)} per step${by}`;
    const { machine, time, peak_memory: peak, pending } = this.view;
    this.awaited = pending;
    if (pending) {
      this.say(`Layout ${layout.text || "empty"}: ${sent}. Costs are being worked out …`, "done");
      return;
    }
    const takes =
      time && !time.missing ? ` A step takes ${time.texts.estimate} on ${machine.title}, ${machine.slice}.` : "";
    const over = peak?.fits === false ? ` ${peak.text}` : "";
    this.say(`Layout ${layout.text || "empty"}: ${sent}.${takes}${over}`, "done");
  }

  /**
   * Picks a chip up.
   * @param {string} dim
   * @param {string} from
   * @param {Hand["by"]} by
   */
  grab(dim, from, by) {
    if (this.readOnly) return;
    this.hand = { dim, from, by, target: null, add: this.adding };
    paintZones(this.panels.zones, this.view, this.hand);
    this.say(this.grabbed(this.hand));
  }

  /**
   * @param {Hand} hand
   * @returns {string}
   */
  grabbed(hand) {
    const { view } = this;
    const said = zonesOf(view).map((zone) => ({ zone, ...verdict(view, hand, zone) }));
    const legal = said.filter((each) => each.state === "legal").map((each) => zoneName(each.zone));
    const refused = said
      .filter((each) => each.state === "refused")
      .map((each) => `${zoneName(each.zone)}: ${each.note}`);
    const how = { pointer: "Drop it on", click: "Click", keyboard: "Arrow keys choose, Enter drops, Escape cancels:" };
    const places = legal.length ? `${how[hand.by]} ${legal.join(", ")}.` : "No zone takes it.";
    return [`${hand.dim} (${chipOf(view, hand.dim).size}) picked up.`, places, ...refused].join(" ");
  }

  /**
   * Points at a zone.
   * @param {string | null} zone
   * @param {boolean} add
   */
  aim(zone, add) {
    const { hand, view } = this;
    if (!hand) return;
    const adding = add || this.adding;
    if (hand.target === zone && hand.add === adding) return;
    this.hand = { ...hand, target: zone, add: adding };
    paintZones(this.panels.zones, view, this.hand);
    if (zone === null) return;
    const said = verdict(view, this.hand, zone);
    if (said.state === "refused") this.say(`${said.note} ${said.refusal?.fix ?? ""}`, "refused");
    if (said.state === "legal") this.price(this.hand, zone, said.note);
  }

  /**
   * Says what a drop would cost, as soon as Python has answered.
   * @param {Hand} hand
   * @param {string} zone
   * @param {string} note
   */
  price(hand, zone, note) {
    const { op, args } = dropIntent(this.view, hand, zone);
    const lead = `${zoneName(zone)}: ${hand.dim} ${note}`;
    this.say(`${lead}.`);
    // Only where the hand rests: whoever drops at once does not wait for the price.
    clearTimeout(this.pricing);
    this.pricing = window.setTimeout(() => {
      if (this.hand?.dim !== hand.dim || this.hand.target !== zone) return;
      this.channel.preview(op, args, (answer) => {
        if (this.hand?.dim !== hand.dim || this.hand.target !== zone) return;
        this.say(`${lead}; ${priceOf(answer)}.`);
      });
    }, REST);
  }

  /**
   * Points at the next zone that takes the chip.
   * @param {1 | -1} step
   * @param {boolean} add
   */
  step(step, add) {
    if (!this.hand) return;
    const hand = { ...this.hand, add: add || this.adding };
    const zone = nextLegal(this.view, hand, step);
    if (zone === null) this.say(`No zone takes ${hand.dim}.`, "refused");
    else this.aim(zone, hand.add);
  }

  /** Drops the chip where it is aimed; a zone that refuses it, or none, leaves everything as it was. */
  async drop() {
    const { hand, view } = this;
    if (!hand) return;
    const zone = hand.target;
    const said = zone === null ? null : verdict(view, hand, zone);
    this.letGo();
    if (zone === null || said?.state === "here") return;
    if (said?.state === "refused") {
      this.say(`Refused: ${said.note} ${said.refusal?.fix ?? ""}`, "refused");
      return;
    }
    const { op, args } = dropIntent(view, hand, zone);
    const goal = axesAfter(view, hand, zone).includes(zone) ? zone : "";
    const answer = await this.send(op, args);
    if (answer?.kind === "ack" && hand.by === "keyboard") this.focusChip(hand.dim, goal);
  }

  /**
   * @param {string} dim
   * @param {string} zone
   */
  focusChip(dim, zone) {
    const key = CSS.escape(`chip:${dim}:${zone}`);
    /** @type {HTMLElement | null} */ (this.panels.zones.querySelector(`[data-key="${key}"]`))?.focus();
  }

  letGo() {
    if (!this.hand) return;
    this.hand = null;
    paintZones(this.panels.zones, this.view, null);
    this.say("");
  }

  /** @param {boolean} silent */
  showSilence(silent) {
    this.readOnly = silent;
    this.root.toggleAttribute("data-readonly", silent);
    this.drag?.clear();
    this.letGo();
    const again = h("button", { type: "button", class: "mlb-button", onclick: () => this.retry() }, "Try again");
    const text = "Python does not answer: its kernel is busy, stopped or not connected. The board can only be read.";
    redraw(this.panels.banner, ...(silent ? [h("span", {}, text), again] : []));
    this.panels.banner.hidden = !silent;
  }

  retry() {
    this.channel.intent("select", { place: this.view.shards?.place ?? "" });
  }

  /** @param {boolean} adding */
  setAdding(adding) {
    this.adding = adding;
    const how = adding ? "is added to those that split the dim already" : "takes the place of those that split the dim";
    this.say(`From now on an axis ${how}.`);
  }
}
