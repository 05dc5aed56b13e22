/**
 * Charts that people zoom and read off: Python describes them (meshlab/widgets/views/charts), Plotly draws them, in the
 * colours and the font of the board. A chart is kept while its panel is drawn anew around it, so that it stays zoomed
 * until it has other data. Before Plotly is there, its place says so; where it cannot be had, why.
 */

import type { Board } from "./board.ts";
import { h } from "./dom.ts";
import { refusalOf } from "./model.ts";
import { type Plot, type Plotly, plotlyOf, whenIdle } from "./plotly.ts";
import type { Chart } from "./types.ts";

/** What stands in the place of a chart where plotly.js is no part of what is shown. */
export function drawNoChart(name: string): HTMLElement {
  const why = "is a chart of plotly.js, whose 1.5 MB this file leaves out; a live notebook draws it.";
  return h("p", { class: "mlb-none" }, `${name} ${why}`);
}

type Pick = (point: number) => void;
type Shown = {
  key: string;
  element: HTMLElement;
  plot: Plot;
  word: HTMLElement;
  chart: Chart;
  pick: Pick | null;
  painted: string;
  drawn: Chart | null;
  zoomed: boolean;
  turn: number;
};

const CONFIG = { displayModeBar: false, scrollZoom: false, doubleClick: false, showTips: false, responsive: false };
const VARIABLE = /^var\((--[\w-]+)\)$/;
const FETCHING = "The chart is loading: plotly.js is being fetched from Python …";
const SILENT = "plotly.js could not be fetched: Python does not answer. The numbers do not need it.";
// Milliseconds after which a page that is never idle fetches it all the same.
const LATEST = 8000;
// Frames for which a chart waits for what its panel has asked for.
const PATIENCE = 20;
// The views that have such charts, and the whole workbench.
const CHARTED = ["", "memory", "time", "run"];

/**
 * Plain data with colours in place of the board's variables; a copy, as Plotly writes into what it is given.
 * @param colour of a variable
 */
export function coloured<T>(value: T, colour: (name: string) => string): T {
  const any = value as any;
  if (Array.isArray(any)) return any.map((each) => coloured(each, colour)) as any;
  if (typeof any === "string") return any.replace(VARIABLE, (_, name) => colour(name)) as any;
  if (any === null || typeof any !== "object") return value;
  return Object.fromEntries(Object.entries(any).map(([key, each]) => [key, coloured(each, colour)])) as any;
}

/**
 * The ends of an axis after a step of zooming about its middle.
 * @param by how many times as much is seen
 */
export function scaled([low, high]: number[], by: number): number[] {
  const [middle, half] = [(low + high) / 2, (by * (high - low)) / 2];
  return [middle - half, middle + half];
}

export class Charts {
  board: Board;
  plotly: Plotly | null = null;
  error = "";
  asked = false;
  ahead = false;
  shown = new Map<string, Shown>();
  sizes: ResizeObserver;
  theme: MutationObserver;

  constructor(board: Board) {
    this.board = board;
    this.sizes = new ResizeObserver(() => {
      for (const shown of this.shown.values()) this.follow(shown);
    });
    this.theme = new MutationObserver(() => this.paintAll());
    this.theme.observe(board.root, { attributes: true, attributeFilter: ["data-theme"] });
  }

  /**
   * A chart, to be put into a panel.
   * @param key its name on this board
   * @param pick called with the number of the point of the first trace that is clicked
   */
  of(key: string, chart: Chart, pick: Pick | null = null): HTMLElement {
    const shown = this.shown.get(key) ?? this.make(key, chart);
    Object.assign(shown, { chart, pick });
    shown.plot.setAttribute("aria-label", chart.label);
    shown.plot.style.height = `${chart.layout.height}px`;
    this.follow(shown);
    return shown.element;
  }

  /**
   * Draws a chart when what stands beside it has been seen, and what its panel has asked Python for as well: Plotly
   * takes as long as all of that. A chart that is drawn already follows its place at once.
   */
  follow(shown: Shown) {
    if (shown.chart === shown.drawn) return queueMicrotask(() => this.paint(shown));
    shown.element.setAttribute("data-fresh", "false");
    shown.turn += 1;
    const mine = shown.turn;
    let patience = PATIENCE;
    // Behind a frame, so that it is seen, and what has come meanwhile is read first.
    const wait = () => requestAnimationFrame(() => setTimeout(draw));
    const draw = () => {
      if (mine !== shown.turn) return;
      patience -= 1;
      if (patience > 0 && shown.element.closest('[aria-busy="true"]')) wait();
      else this.paint(shown);
    };
    wait();
  }

  make(key: string, chart: Chart): Shown {
    const plot = h("div", { class: "mlb-plot", role: "img" }) as HTMLElement as Plot;
    const word = h("p", { class: "mlb-plot-word mlb-none" });
    const tools = h("div", { class: "mlb-plot-tools" });
    const element = h(
      "div",
      { lasting: true, class: "mlb-chart", "data-chart-of": key, "data-fresh": "false" },
      word,
      plot,
      tools,
    );
    const start = { pick: null, painted: "", drawn: null, zoomed: false, turn: 0 };
    const shown = { key, element, plot, word, chart, ...start } as Shown;
    const button = (text: string, name: string, onclick: () => void) =>
      h("button", { type: "button", class: "mlb-button", "aria-label": name, title: name, onclick }, text);
    tools.append(
      button("−", "shrink the chart", () => this.zoom(shown, 2)),
      button("+", "enlarge the chart", () => this.zoom(shown, 0.5)),
      button("Fit", "fit the whole chart", () => this.whole(shown)),
    );
    this.shown.set(key, shown);
    this.sizes.observe(element);
    return shown;
  }

  /** Fetches Plotly while the page is idle, once the board has been drawn. */
  fetchAhead() {
    const { view, model, readOnly } = this.board;
    if (!this.board.can("library")) return;
    if (this.ahead || view.pending || readOnly || !CHARTED.includes(String(model.get("panel") ?? ""))) return;
    this.ahead = true;
    whenIdle(() => this.load(), LATEST);
  }

  /** Fetches Plotly where it is not on the page, and draws what waits for it. */
  async load() {
    if (this.plotly || this.asked) return;
    this.asked = true;
    this.error = "";
    try {
      this.plotly = await plotlyOf(() => this.fetch());
    } catch (error) {
      this.error = error instanceof Error ? error.message : String(error);
    }
    this.paintAll();
  }

  /** Fetches Plotly's source: as bytes, or as text in a notebook in which no bytes arrive. */
  async fetch(): Promise<ArrayBufferView> {
    const { channel, readOnly } = this.board;
    const carried = readOnly ? null : await channel.send("bytes", {});
    const answer = carried && (await channel.send("library", { text: !carried.buffers?.length }));
    if (answer?.buffers?.length) return answer.buffers[0];
    if (answer?.kind === "library" && answer.text)
      return Uint8Array.from(atob(answer.text), (letter) => letter.charCodeAt(0));
    throw new Error(answer ? refusalOf(answer) : SILENT);
  }

  /** Tries again what failed: Python answers. */
  heard() {
    if (!this.error) return;
    this.asked = false;
    this.paintAll();
  }

  paintAll() {
    for (const shown of this.shown.values()) this.paint(shown);
  }

  paint(shown: Shown) {
    const { element, plot, word, chart } = shown;
    const width = element.isConnected ? element.clientWidth : 0;
    if (width) this.load();
    const there = this.plotly !== null;
    word.hidden = there;
    plot.hidden = this.error !== "";
    word.textContent = this.error ? `✕ ${this.error}` : FETCHING;
    word.classList.toggle("mlb-error", this.error !== "");
    element.setAttribute("data-fresh", String(there || this.error !== ""));
    element.toggleAttribute("data-there", there);
    const painted = `${width} ${this.board.root.getAttribute("data-theme")}`;
    if (!this.plotly || !width || (painted === shown.painted && chart === shown.drawn)) return;
    const style = getComputedStyle(this.board.root);
    const { data, layout } = coloured(chart, (name) => style.getPropertyValue(name).trim());
    layout.width = width;
    layout.font.family = style.fontFamily;
    const first = !shown.drawn;
    shown.zoomed &&= chart.layout.uirevision === shown.drawn?.layout.uirevision;
    for (const axis of shown.zoomed ? ["xaxis", "yaxis"] : [])
      Object.assign(layout[axis], { range: [...plot.layout[axis].range], autorange: false });
    Object.assign(shown, { painted, drawn: chart });
    this.plotly.react(plot, data, layout, CONFIG);
    if (first) this.listen(shown);
  }

  listen(shown: Shown) {
    const { plot } = shown;
    plot.on("plotly_relayout", (changes) => {
      if (Object.keys(changes).some((name) => /^[xy]axis\.range/.test(name))) shown.zoomed = true;
    });
    plot.on("plotly_doubleclick", () => this.whole(shown));
    plot.on("plotly_click", ({ points }) => {
      const point = points.find((each: { curveNumber: number }) => each.curveNumber === 0);
      if (point) shown.pick?.(point.pointIndex);
    });
  }

  /** @param by how many times as much is seen across */
  zoom({ plot }: Shown, by: number) {
    const range = plot.layout?.xaxis?.range;
    if (range) this.plotly?.relayout(plot, { "xaxis.range": scaled(range.map(Number), by) });
  }

  async whole(shown: Shown) {
    const { plot, chart } = shown;
    const ends = ["xaxis", "yaxis"].map((axis) => {
      const { range } = chart.layout[axis];
      return range ? [`${axis}.range`, [...range]] : [`${axis}.autorange`, true];
    });
    await this.plotly?.relayout(plot, Object.fromEntries(ends));
    shown.zoomed = false;
  }

  close() {
    this.sizes.disconnect();
    this.theme.disconnect();
    for (const { plot, drawn } of this.shown.values()) if (drawn) this.plotly?.purge(plot);
    this.shown.clear();
  }
}
