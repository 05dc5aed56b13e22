/** The step over time, enlarged: the workbench's own lanes with what is exposed, to be zoomed by buttons, keys and wheel. */

import type { Board } from "./board.ts";
import { h, redraw } from "./dom.ts";
import { drawTicks } from "./ticks.ts";
import { drawTimeline } from "./timeline.ts";

const MOST = 64;
const KEYS = { "+": 2, "=": 2, "-": 0.5, 0: 0 } as Record<string, number>;

/** How much is enlarged after a step: twice, half, or not at all. */
export function zoomed(zoom: number, by: number): number {
  return by === 0 ? 1 : Math.max(1, Math.min(MOST, zoom * by));
}

export function drawEnlarged(board: Board): (Node | null | false)[] {
  if (!board.view.timeline || "isOther" in board) return [];
  const { chosen, root } = board;
  const { seconds } = board.view.timeline;
  const zoom = (by: number, at: (box: Element) => number) => {
    const box = root.querySelector(".mlb-lanes-box") as HTMLElement;
    const lanes = box.firstElementChild as HTMLElement;
    const before = chosen.zoom;
    chosen.zoom = zoomed(before, by);
    const middle = box.scrollLeft + at(box);
    lanes.style.setProperty("--zoom", `${chosen.zoom}`);
    redraw(lanes.querySelector(".mlb-scale") as Element, drawTicks(seconds, chosen.zoom));
    box.scrollLeft = (middle * chosen.zoom) / before - at(box);
  };
  const half = (box: Element) => box.clientWidth / 2;
  const onwheel = (event: WheelEvent) => {
    if (!event.ctrlKey) return;
    event.preventDefault();
    zoom(event.deltaY < 0 ? 2 : 0.5, (box) => event.clientX - box.getBoundingClientRect().left);
  };
  const onkeydown = (event: KeyboardEvent) => {
    if (!(event.key in KEYS) || event.ctrlKey || event.metaKey) return;
    zoom(KEYS[event.key], half);
    event.preventDefault();
  };
  const label = "the step over time, enlarged: + and − zoom";
  const lanes = { class: "mlb-lanes mlb-lanes-big", style: `--zoom: ${chosen.zoom}` };
  const keys = { role: "group", tabindex: "0", "aria-label": label, onwheel, onkeydown };
  const button = (text: string, name: string, by: number) =>
    h(
      "button",
      {
        type: "button",
        class: "mlb-button",
        "aria-label": name,
        onclick: () => zoom(by, half),
      },
      text,
    );
  // Alone, a view has nothing around it that says what is selected.
  const alone = board.root.querySelector(".mlb-frame") === null;
  return [
    h(
      "div",
      { class: "mlb-zoom" },
      h("h4", {}, "the step over time"),
      button("−", "zoom out", 0.5),
      button("+", "zoom in", 2),
      button("whole", "the whole step", 0),
    ),
    h("div", { class: "mlb-lanes-box", ...keys }, h("div", lanes, drawTimeline(board, chosen.zoom))),
    alone && board.panels.detail,
  ];
}
