/**
 * The memory of a device over the steps of the program, as Python draws it (meshlab/widgets/views/charts/moments.py). It
 * is a slider: a click, or arrow keys, choose a moment, and the panel lists what is alive then.
 */

import type { Board } from "./board.ts";
import { h, prose } from "./dom.ts";
import { bytes, exact } from "./format.ts";
import { SLIDER_KEYS } from "./slider.ts";
import type { Chart, PeakMemory } from "./types.ts";

// A chart with one moment marked; the same where it is asked for again, so that nothing is drawn anew.
const MARKED: WeakMap<Chart, { position: number; chart: Chart }> = new WeakMap();

/** Whether what is alive can be asked for: of the layout on the board, while Python is there. */
export function canAsk(board: Board): boolean {
  return !board.readOnly && !("isOther" in board);
}

/** The step that is looked at; of none that there is, the peak's. */
export function momentOf(
  { chosen: { instant } }: Pick<Board, "chosen">,
  { at, steps }: Pick<PeakMemory, "at" | "steps">,
): number {
  return instant !== null && instant < steps ? instant : at;
}

/**
 * The number of the drawn point that shows a step: of many steps the highest of a stretch is drawn.
 * @param steps of the points
 */
export function positionOf(steps: number[], step: number): number {
  return steps.reduce((best, each, i) => (Math.abs(each - step) < Math.abs(steps[best] - step) ? i : best), 0);
}

/** The chart with one of its points as the moment that is looked at. */
export function withMoment(chart: Chart, position: number): Chart {
  const known = MARKED.get(chart);
  if (known?.position === position) return known.chart;
  const [curve, moment, ...rest] = chart.data;
  const [x, y] = [curve.x[position], curve.y[position]];
  const marked = { ...moment, x: [x, x], y: [0, y], text: ["", curve.customdata[position][1]] };
  const made = { ...chart, data: [curve, marked, ...rest] };
  MARKED.set(chart, { position, chart: made });
  return made;
}

export function drawMoments(board: Board, peak: PeakMemory): HTMLElement | null {
  const other = "isOther" in board;
  const { data, error, fresh } = board.reads.of("moments", other ? { beside: true } : {});
  if (error) return h("p", { class: "mlb-error" }, `✕ ${error}`);
  if (!data) return board.readOnly ? null : h("p", { class: "mlb-none" }, "The curve is being worked out …");
  if (!data.chart) return null;
  const { steps, limit, gaps } = peak;
  const chart = data.chart as Chart;
  const position = positionOf(chart.data[0].x, momentOf(board, peak));
  const marked = withMoment(chart, position);
  const choose = (at: number) => {
    const points = chart.data[0].x;
    const step = points[Math.max(0, Math.min(points.length - 1, at))];
    if (board.chosen.instant === step) return;
    board.chosen.instant = step;
    board.stage.again("memory");
  };
  const drawing = board.charts.of(other ? "moments-beside" : "moments", marked, canAsk(board) ? choose : null);
  const far = limit > chart.layout.yaxis.range[1] ? ` Device memory, ${bytes(limit)}, is far above.` : "";
  const note = gaps ? ` Heap fragmentation, ${bytes(gaps)}, is part of the peak above and is not drawn.` : "";
  const hint = canAsk(board) ? " Click, or use arrow keys: what is live then." : "";
  const text = `Memory of a device while each of ${exact(steps)} operations runs.${far}${note}${hint} Drag to zoom.`;
  return h(
    "figure",
    { class: "mlb-moments", "data-fresh": String(fresh) },
    canAsk(board) ? drawSlider(drawing, marked, position, steps, choose) : drawing,
    h("figcaption", { class: "mlb-foot" }, prose(text)),
  );
}

/** The chart as a slider over the steps. */
function drawSlider(
  drawing: HTMLElement,
  { data: [curve] }: Chart,
  position: number,
  steps: number,
  choose: (position: number) => void,
): HTMLElement {
  const [name, held, phase] = curve.customdata[position];
  const turn = (event: KeyboardEvent) => {
    if (!(event.key in SLIDER_KEYS)) return;
    choose(position + SLIDER_KEYS[event.key]);
    event.preventDefault();
    event.stopPropagation();
  };
  const slider = h("div", {
    class: "mlb-moment-slider",
    role: "slider",
    tabindex: "0",
    "aria-label": "moment of the step",
    "aria-valuemin": 0,
    "aria-valuemax": steps - 1,
    "aria-valuenow": curve.x[position],
    "aria-valuetext": `step ${exact(curve.x[position])}, ${name}: ${held}${phase ? `, ${phase}` : ""}`,
    onkeydown: turn,
  });
  return h("div", { class: "mlb-moment-chart" }, slider, drawing);
}
