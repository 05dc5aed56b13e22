/**
 * The step over time: a lane of kernels, one for each set of mesh axes that something is sent over, and the memory of a
 * device below, on one scale of seconds. Where the lane of kernels is empty, communication is exposed. It zooms and pans
 * as a trace viewer does (`step_keys.ts`, `step_mouse.ts`); zoomed, searched or over the whole board it shows every slice,
 * with the loops, scopes and lines that kernels are in, which it asks Python for (`views/step_lanes.py`).
 */
import type { Board } from "./board.ts";
import { exact, plural } from "./format.ts";
import { MeasuredLane, measuredKey } from "./measured_lane.ts";
import { profiledOf } from "./profile.ts";
import { keep, kept } from "./remember.ts";
import { bringIntoPanel, select } from "./selection.ts";
import { StepFrame } from "./step_frame.ts";
import { listenToStepKeys } from "./step_keys.ts";
import { Lane, type Marks } from "./step_lane.ts";
import { MemoryLane } from "./step_memory.ts";
import { listenToStepMouse } from "./step_mouse.ts";
import { coarseRows, exposedRow, fineRows, type Rows } from "./step_rows.ts";
import { type Found, type Hit, next, search } from "./step_search.ts";
import { around, between, isWhole, panned, type Sight, showing, zoomed } from "./step_sight.ts";
import { titleOf } from "./step_words.ts";
import { drawTicks } from "./ticks.ts";
import type { Collective, Step, Timeline } from "./types.ts";

// How long a change of what is in sight takes, in milliseconds, where motion is welcome.
const WHILE = 140;
const NOTHING: Found = { hits: [], of: new Map() };

export class StepTimeline {
  board: Board;
  frame: StepFrame;
  /** What is in sight; null for all of the step. */
  sight: Sight | null = null;
  /** Where a move that is under way ends: the next key goes on from there. */
  goal: Sight | null = null;
  range: Sight | null = null;
  /** The loops of which each iteration is drawn. */
  opened = new Set<string>();
  folded: boolean;
  /** Lanes that stand above all others, in the order in which they were pinned. */
  pins: string[];
  full = false;
  rows: Rows | null = null;
  lanes: Lane[] = [];
  memory: MemoryLane | null = null;
  /** What is marked in all lanes; null where that has changed. */
  marks: Marks | null = null;
  /** What the lanes were painted of last. */
  painted: unknown[] = [];
  found = NOTHING;
  /** The hit that was gone to last, by its number. */
  at = -1;
  /** The slice that had the keyboard focus when other rows came. */
  focused: { key: string; id: string } | null = null;
  /** The data that the rows are of. */
  data: Step | Timeline | null = null;
  whole = 0;
  /** Where the pointer is over the tracks, in pixels of the window. */
  pointer: number | null = null;
  waiting = 0;
  moving = 0;

  constructor(board: Board) {
    this.board = board;
    const { folded = false, pins = [] } = JSON.parse(kept("timeline") ?? "{}");
    this.folded = folded === true;
    this.pins = pins;
    this.frame = new StepFrame(this);
    listenToStepKeys(this);
    listenToStepMouse(this);
    const measure = () => {
      this.frame.measure();
      this.paint();
    };
    new ResizeObserver(measure).observe(this.frame.ruler);
  }

  /** Whether there is room for frames, for the lane of what is exposed and for the sum of each lane. */
  get big(): boolean {
    return this.full || this.board.root.querySelector(".mlb-frame") === null;
  }

  get seen(): Sight {
    return this.sight ?? { from: 0, to: this.whole };
  }

  get query(): string {
    return this.frame.input.value;
  }

  /** Whether the rows have every slice. */
  get isFine(): boolean {
    return this.data !== null && "slices" in this.data;
  }

  /** Whether they have what was measured as well. */
  get isMeasured(): boolean {
    return this.data !== null && "slices" in this.data && this.data.measured;
  }

  /** Draws the step anew: after a change of the layout, an answer, or of what is to be shown. */
  draw() {
    const { view, reads, readOnly } = this.board;
    const { frame } = this;
    const { timeline } = view;
    frame.element.hidden = !timeline;
    if (!timeline) return this.forget();
    const measured = profiledOf(view) !== null;
    const wanted = measured || this.big || this.sight !== null || this.range !== null || this.query.trim() !== "";
    const read = wanted ? reads.of("step") : null;
    const step = read?.fresh && read.data?.seconds ? (read.data as Step) : null;
    const coming = view.pending || (read !== null && !read.fresh && read.asked && !readOnly);
    frame.setBusy(coming);
    // Until the new ones have come the old slices stay, dimmed.
    if (!(coming && this.isFine)) this.take(step ?? timeline, timeline);
    this.place();
  }

  forget() {
    this.stop();
    this.rows = this.data = this.sight = this.range = null;
    this.lanes = [];
    this.setFull(false);
  }

  /** Takes other rows; what is in sight stays the same part of the step. */
  take(data: Step | Timeline, { seconds: whole, phases, loops }: Timeline) {
    if (this.data === data) return;
    const isNew = this.whole !== whole;
    if (this.sight && isNew && this.whole) {
      const scale = whole / this.whole;
      this.sight = { from: this.sight.from * scale, to: this.sight.to * scale };
    }
    // A move that is under way counts in the seconds of the step before.
    if (isNew) this.stop();
    if (isNew) this.range = null;
    this.data = data;
    this.whole = whole;
    this.frame.setStep(whole, phases, loops);
    this.layOut();
  }

  layOut() {
    const at = this.focusedAt();
    if (at) this.focused = { key: at.row.key, id: at.row.id(at.i) };
    if (this.data) this.rows = "slices" in this.data ? fineRows(this.data, this.opened) : coarseRows(this.data);
    this.lanes = [];
  }

  /** Puts the lanes in their order: pinned ones, what kernels are in, kernels, mesh axes. */
  place() {
    const { rows, big, board, frame, whole } = this;
    if (!rows) return;
    const { focused } = this;
    if (!this.lanes.length || this.lanes.some((lane) => lane.big !== big)) {
      const kernels = rows.lanes[0];
      const shown = [...(big ? rows.frames : []), ...rows.lanes, ...(big ? [exposedRow(kernels, whole)] : [])];
      const options = (key: string) => ({ few: !this.isFine, whole, big, pin: () => this.pin(key) });
      this.lanes = shown.map((row) => new Lane(board, row, options(row.key)));
      if (this.isMeasured)
        this.lanes.push(...rows.lanes.map((row) => new MeasuredLane(board, row, options(measuredKey(row.key)))));
      this.memory = new MemoryLane(rows.memory, whole, board.view.peak_memory);
      frame.setMemory(this.memory);
      this.find();
    }
    const below = rows.lanes.flatMap(({ key }) => [key, measuredKey(key)]);
    const order = [...this.pins, ...rows.frames.map(({ key }) => key), ...below, "exposed"];
    const rank = ({ row }: Lane) => order.indexOf(row.key);
    this.lanes.sort((one, other) => rank(one) - rank(other));
    frame.setLanes(this.lanes, this.pins);
    this.paint();
    if (focused) this.focusAgain(focused);
  }

  /** Paints with the next frame of the screen. */
  later() {
    if (this.waiting) return;
    this.waiting = requestAnimationFrame(() => {
      this.waiting = 0;
      this.paint();
    });
  }

  /** Paints the lanes, unless they are painted so: of one change several parts of the board ask for it. */
  paint() {
    const { rows, frame, seen, whole, board, found } = this;
    if (!frame.width) frame.measure();
    const { width } = frame;
    if (!rows || this.folded || !width) return;
    const at = this.focusedAt();
    const { view, selection } = board;
    const now = [
      view,
      selection,
      this.lanes,
      seen.from,
      seen.to,
      width,
      whole,
      found,
      this.at,
      this.range,
      at?.row,
      at?.i,
    ];
    if (now.every((each, i) => each === this.painted[i])) return;
    this.painted = now;
    this.marks ??= { moment: this.momentAt(), hits: this.found.of, hit: this.found.hits[this.at] ?? null };
    for (const lane of this.lanes) lane.paint(seen, width, this.marks);
    frame.ruler.replaceChildren(...drawTicks(seen, width));
    this.memory?.paint(seen);
    frame.setSight(seen, whole, this.range);
  }

  // What is in sight

  /**
   * Shows another part of the step, by and by where motion is welcome.
   * @param still at once: something follows the hand
   */
  show(sight: Sight, still: boolean = false) {
    cancelAnimationFrame(this.moving);
    const goal = isWhole(sight, this.whole) ? null : sight;
    const from = this.seen;
    this.goal = sight;
    if (still || matchMedia("(prefers-reduced-motion: reduce)").matches) return this.arrive(goal);
    const begin = performance.now();
    const move = (now: number) => {
      const share = Math.min(1, Math.max(0, (now - begin) / WHILE));
      if (share === 1) return this.arrive(goal);
      this.sight = between(from, sight, share);
      this.paint();
      this.moving = requestAnimationFrame(move);
    };
    this.moving = requestAnimationFrame(move);
  }

  stop() {
    cancelAnimationFrame(this.moving);
    this.goal = null;
  }

  arrive(sight: Sight | null) {
    const before = this.sight;
    this.sight = sight;
    this.goal = null;
    // All of the step needs few slices, a part of it all.
    if ((before === null) !== (sight === null) || (sight && !this.isFine)) this.draw();
    else this.later();
  }

  /** Zooms about a time: that under the pointer, or else the middle of the slice that has the focus or is selected. */
  zoom(by: number, at: number = this.middle()) {
    this.show(zoomed(this.goal ?? this.seen, this.whole, by, at));
  }

  middle(): number {
    const { seen, pointer } = this;
    if (pointer !== null) return this.frame.timeAt(pointer, seen);
    const at = this.focusedAt() ?? this.momentAt();
    const middle = at ? (at.row.begin[at.i] + at.row.end[at.i]) / 2 : -1;
    return middle >= seen.from && middle <= seen.to ? middle : (seen.from + seen.to) / 2;
  }

  pan(by: number) {
    this.show(panned(this.goal ?? this.seen, this.whole, by));
  }

  fold(folded: boolean) {
    this.folded = folded;
    this.remember();
    this.frame.setFolded(folded);
    this.paint();
  }

  setFull(full: boolean) {
    if (this.full === full) return;
    this.full = full;
    if (full && this.folded) this.fold(false);
    this.frame.setFull(full);
    this.draw();
  }

  pin(key: string) {
    this.pins = this.pins.includes(key) ? this.pins.filter((each) => each !== key) : [...this.pins, key];
    this.remember();
    this.place();
  }

  remember() {
    const { folded, pins } = this;
    keep("timeline", folded || pins.length ? JSON.stringify({ folded, pins }) : null);
  }

  /** Draws each iteration of a loop in its own time, or one stretched over the time of all. */
  open(loop: string) {
    this.opened[this.opened.has(loop) ? "delete" : "add"](loop);
    this.layOut();
    this.place();
    this.board.say(this.opened.has(loop) ? "Each iteration has its own time." : "One iteration stands for all.");
  }

  setRange(range: Sight | null) {
    this.range = range && range.to > range.from ? range : null;
    // Bytes and FLOPs are those of slices.
    if (this.range && !this.isFine) this.draw();
    this.paint();
    this.board.marked();
  }

  // The search

  find() {
    const rows = this.lanes.filter((lane) => !(lane instanceof MeasuredLane)).map(({ row }) => row);
    this.found = this.query.trim() ? search(rows, this.query) : NOTHING;
    this.at = -1;
    this.marks = null;
    this.sayFound();
  }

  /** Looks for what is written, in every slice. */
  seek() {
    if (this.query.trim() && !this.isFine) this.draw();
    this.find();
    this.paint();
  }

  openSearch() {
    this.frame.element.toggleAttribute("data-searching", true);
    this.frame.input.focus();
    this.frame.input.select();
  }

  closeSearch() {
    this.frame.input.value = "";
    this.frame.element.toggleAttribute("data-searching", false);
    this.draw();
    this.seek();
    this.frame.body.focus({ preventScroll: true });
  }

  sayFound() {
    const { hits } = this.found;
    const count = `${this.at < 0 ? "" : `${exact(this.at + 1)} of `}${plural(hits.length, "hit")}`;
    this.frame.setFound(this.query.trim() ? (hits.length ? count : "no hits") : "");
  }

  /** Goes to the next hit, or the one before. */
  goOn(step: 1 | -1) {
    this.at = next(this.found.hits, this.at, step, this.seen.from);
    const hit = this.found.hits[this.at];
    if (!hit) return;
    this.sayFound();
    this.choose(hit);
    this.board.say(`${exact(this.at + 1)} of ${plural(this.found.hits.length, "hit")}: ${this.title(hit)}`);
  }

  // Slices

  title({ row, i }: Hit): string {
    return titleOf(row.facts(i), row.lane, row.seconds[i]);
  }

  /** Brings a slice into sight, and its lane. */
  bring({ row, i }: Hit, still: boolean = false) {
    const { seen, whole } = this;
    this.show(showing(seen, row.begin[i], row.end[i], whole), still);
    this.lanes.find((lane) => lane.row === row)?.track.scrollIntoView({ block: "nearest" });
  }

  /** Shows a slice as wide as the screen is. */
  zoomTo({ row, i }: Hit) {
    this.show(around(row.begin[i], row.end[i], this.whole));
  }

  /** Selects a slice with its collective, and shows it. */
  choose(hit: Hit) {
    const { collective } = hit.row.facts(hit.i);
    this.bring(hit);
    select(this.board, { moment: hit.row.id(hit.i), collective });
  }

  /** A click on a slice selects it with its collective, and once more releases both; on a loop it opens or closes it. */
  press(hit: Hit) {
    const { board } = this;
    const { collective, loop } = hit.row.facts(hit.i);
    if (loop) this.open(loop);
    const id = hit.row.id(hit.i);
    const again = board.selection.moment === id && !loop;
    select(board, again ? { moment: null, collective: null } : { moment: id, collective });
    bringIntoPanel(board.root);
    if (!loop)
      board.say(again ? "No moment is selected." : (board.panels.detail.querySelector("b")?.textContent ?? ""));
  }

  /** The slice that has the keyboard focus. */
  focusedAt(): Hit | null {
    for (const lane of this.lanes) {
      const i = lane.focused();
      if (i >= 0) return { row: lane.row, i };
    }
    return null;
  }

  focus(hit: Hit) {
    this.bring(hit, true);
    this.paint();
    this.lanes.find(({ row }) => row === hit.row)?.focus(hit.i);
    this.paint();
  }

  /** Gives the focus back to the slice that had it before other rows came, or else to its lane's, or to all. */
  focusAgain({ key, id }: { key: string; id: string }) {
    this.focused = null;
    const lane = this.lanes.find(({ row }) => row.key === key);
    const i = lane?.row.find(id) ?? -1;
    if (lane && i >= 0) this.focus({ row: lane.row, i });
    else if (!lane?.focusFirst()) this.frame.body.focus({ preventScroll: true });
  }

  momentAt(): Hit | null {
    const { moment } = this.board.selection;
    if (moment === null) return null;
    for (const { row } of this.lanes) {
      const i = row.find(moment);
      if (i >= 0) return { row, i };
    }
    return null;
  }

  /** The collective of a slice; without one that which is selected. */
  sent(moment: Hit | null): Collective | undefined {
    const { selection, view } = this.board;
    const wanted = moment ? moment.row.facts(moment.i).collective : selection.collective;
    return view.collectives.rows.find((each) => each.id === wanted);
  }
}
