/** The parts of the step over time, made once: a ruler and phases, lanes that scroll, memory below them, and words. */
import { h } from "./dom.ts";
import { exact, plural, seconds } from "./format.ts";
import type { Lane } from "./step_lane.ts";
import type { Sight } from "./step_sight.ts";
import type { StepTimeline } from "./timeline.ts";
import type { Timeline } from "./types.ts";

type Button = HTMLElementTagNameMap["button"];

// A lane that is cut by less than this is seen well enough, in pixels.
const CUT = 5;
// From this width on a phase has room for its name, in pixels.
const NAMED = 46;
const KEYS =
  "W and S zoom, A and D pan, 0 shows all, arrows go from slice to slice, Shift with arrows marks a stretch, / searches";

export class StepFrame {
  timeline: StepTimeline;
  element: HTMLElement;
  /** What keys and pointers move. */
  body: HTMLElement;
  ruler = h("div", { class: "mlb-scale", "aria-hidden": "true" });
  phases = h("div", { class: "mlb-phases" });
  end = h("b", { class: "mlb-lane-end" });
  state = h("span", { class: "mlb-updating", role: "status" });
  grid = h("div", { class: "mlb-lanes" });
  scroller = h("div", { class: "mlb-lanes-scroll" }, this.grid);
  more: Button;
  memory = h("div", { class: "mlb-lanes mlb-lanes-memory" });
  marked = h("div", { class: "mlb-range", hidden: true, "aria-hidden": "true" });
  /** Of the tracks, in pixels. */
  width = 0;
  waiting = 0;
  input: HTMLElementTagNameMap["input"];
  found = h("span", { class: "mlb-found" });
  foldButton: Button;
  fullButton: Button;
  fitButton: Button;

  constructor(timeline: StepTimeline) {
    this.timeline = timeline;
    this.element = timeline.board.panels.timeline;
    const button = (text: string, name: string, act: () => void): Button =>
      h("button", { type: "button", class: "mlb-step-button", title: name, "aria-label": name, onclick: act }, text);
    const zoom = (by: number) => () => timeline.zoom(by);
    this.foldButton = button("▾", "fold the step over time", () => timeline.fold(!timeline.folded));
    this.fullButton = button("⤢", "the step over time, over the whole board", () => timeline.setFull(!timeline.full));
    this.fitButton = button("fit", "fit the whole step: 0", () => timeline.show({ from: 0, to: timeline.whole }));
    this.more = button("", "", () => this.scroller.scrollBy({ top: this.scroller.clientHeight }));
    this.more.className = "mlb-more-lanes";
    this.more.removeAttribute("aria-label"); // what it says is its name
    this.input = h("input", {
      type: "search",
      class: "mlb-step-find",
      placeholder: "find: /",
      "aria-label": "find slices by name, line, dim, collective or mesh axis",
      spellcheck: "false",
    });
    this.input.addEventListener("input", () => timeline.seek());
    const tools = [
      this.input,
      this.found,
      button("−", "zoom out: S", zoom(0.5)),
      button("+", "zoom in: W", zoom(2)),
      this.fitButton,
      this.fullButton,
    ];
    const head = h("span", { class: "mlb-lane-name" }, this.foldButton, h("span", {}, "one step ", this.end));
    const top = [h("span", { class: "mlb-lane-name" }, this.state), this.ruler, head, this.phases];
    this.body = h(
      "div",
      { class: "mlb-step-body", role: "group", tabindex: "0", "aria-label": `lanes: ${KEYS}`, title: "" },
      h("div", { class: "mlb-lanes" }, top),
      this.scroller,
      this.more,
      this.memory,
      this.marked,
    );
    const foot = h(
      "div",
      { class: "mlb-step-foot" },
      timeline.board.panels.detail,
      h("div", { class: "mlb-step-tools", role: "group", "aria-label": "zoom and search" }, tools),
    );
    this.element.replaceChildren(this.body, foot);
    this.scroller.addEventListener("scroll", () => this.sayMore());
    new ResizeObserver(() => this.sayMore()).observe(this.scroller);
    this.setFolded(timeline.folded);
  }

  /** Measures the tracks; called where they have been laid out, as reading it lays out all that has changed. */
  measure() {
    this.width = this.ruler.clientWidth;
  }

  /** Says how many lanes are below the edge, with the next frame of the screen: until then more may change. */
  later() {
    this.waiting ||= requestAnimationFrame(() => {
      this.waiting = 0;
      this.sayMore();
    });
  }

  /** @returns the time under a pointer */
  timeAt(clientX: number, { from, to }: Sight): number {
    const { left, width } = this.ruler.getBoundingClientRect();
    return from + ((clientX - left) / (width || 1)) * (to - from);
  }

  setStep(whole: number, phases: Timeline["phases"], loops: Timeline["loops"]) {
    this.end.textContent = seconds(whole);
    const said = phases.map((phase) => {
      const loop = loops.find((each) => each.begin < phase.end && each.end > phase.begin);
      const name = `${phase.name}${loop ? ` × ${exact(loop.times)}` : ""}`;
      const stretched = loop ? "; a loop is drawn as one iteration, stretched over the time of all" : "";
      const title = `${name}: ${seconds(phase.end - phase.begin)}${stretched}`;
      const { begin, end } = phase;
      return h("span", { class: "mlb-phase", title, "data-begin": begin, "data-end": end }, h("span", {}, name));
    });
    this.phases.replaceChildren(...said);
  }

  setBusy(busy: boolean) {
    this.element.setAttribute("aria-busy", String(busy));
    const text = busy ? "updating…" : "";
    if (this.state.textContent !== text) this.state.textContent = text;
  }

  /** Puts lanes into the page, the focus stays where it was. */
  setLanes(lanes: Lane[], pins: string[]) {
    const pairs = lanes.flatMap((lane) => [lane.name, lane.track]);
    const same = pairs.length === this.grid.children.length && pairs.every((each, i) => this.grid.children[i] === each);
    if (!same) this.grid.replaceChildren(...pairs);
    for (const lane of lanes) lane.setPinned(pins.includes(lane.row.key));
    this.later();
  }

  setMemory({ name, track }: { name: HTMLElement; track: HTMLElement }) {
    this.memory.replaceChildren(name, track);
  }

  setSight({ from, to }: Sight, whole: number, range: Sight | null) {
    const width = this.width;
    const x = (time: number) => ((time - from) / (to - from)) * width;
    for (const phase of this.phases.children as Iterable<HTMLElement>) {
      const { begin, end } = phase.dataset;
      const left = Math.max(0, x(Number(begin)));
      phase.style.left = `${left}px`;
      const long = Math.max(0, Math.min(width, x(Number(end))) - left);
      phase.style.width = `${long}px`;
      phase.toggleAttribute("data-narrow", long < NAMED); // it has its name in its title
      phase.hidden = Number(end) <= from || Number(begin) >= to;
    }
    const isWhole = to - from >= whole * (1 - 1e-9);
    this.element.toggleAttribute("data-zoomed", !isWhole);
    this.fitButton.disabled = isWhole;
    this.marked.hidden = range === null;
    if (range) {
      const left = Math.max(0, x(range.from));
      this.marked.style.left = `${this.ruler.offsetLeft + left}px`;
      this.marked.style.width = `${Math.max(0, Math.min(width, x(range.to)) - left)}px`;
    }
  }

  setFolded(folded: boolean) {
    this.element.toggleAttribute("data-folded", folded);
    this.foldButton.textContent = folded ? "▸" : "▾";
    this.foldButton.setAttribute("aria-expanded", String(!folded));
  }

  setFull(full: boolean) {
    this.timeline.board.root.toggleAttribute("data-full-step", full);
    this.fullButton.setAttribute("aria-pressed", String(full));
    const words = full ? "show the board again: Escape" : "the step over time, over the whole board";
    this.fullButton.title = words;
    this.fullButton.setAttribute("aria-label", words);
  }

  setFound(text: string) {
    this.found.textContent = text;
  }

  /** Says how many lanes are below the edge. */
  sayMore() {
    const edge = this.scroller.scrollTop + this.scroller.clientHeight + CUT;
    const tracks = [...this.grid.querySelectorAll(".mlb-lane")] as HTMLElement[];
    const below = tracks.filter((each) => each.offsetTop + each.offsetHeight > edge).length;
    this.more.hidden = below === 0;
    this.more.textContent = `↓ +${plural(below, "lane")}`;
  }
}
