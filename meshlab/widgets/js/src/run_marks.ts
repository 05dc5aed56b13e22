/** The mark of a run, in the table of the runs and at the line of its losses (meshlab/widgets/views/charts/losses.py). */
import { s } from "./dom.ts";

const SHAPES = [
  "M-4 0a4 4 0 1 0 8 0a4 4 0 1 0 -8 0z",
  "M-4 -4h8v8h-8z",
  "M0 -5l5 9h-10z",
  "M0 -5l5 5l-5 5l-5 -5z",
  "M-4 -4l8 8m0 -8l-8 8",
];

/** @param latest whether its line stands out */
export function drawMark(mark: number, latest: boolean): SVGElement {
  const shape = s("path", { class: latest ? "mlb-run-mark mlb-run-latest" : "mlb-run-mark", d: SHAPES[mark] });
  return s("svg", { class: "mlb-run-key", "aria-hidden": "true", viewBox: "-7 -7 14 14" }, shape);
}
