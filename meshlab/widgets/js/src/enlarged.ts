/** The step over time, enlarged: the workbench's own lanes with what is exposed, to be zoomed by buttons, keys and wheel. */

import type { Board } from "./board.ts";
import { h } from "./dom.ts";
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
  const lanes = h("div", { class: "mlb-lanes mlb-lanes-big" }, drawTimeline(board, true));
  const label = "the step over time, enlarged: + and − zoom";
  const box = h("div", { class: "mlb-lanes-box", role: "group", tabindex: "0", "aria-label": label }, lanes);
  const { seconds } = board.view.timeline;
  const show = () => {
    lanes.style.setProperty("--zoom", `${board.chosen.zoom}`);
    lanes.querySelector(".mlb-scale")?.replaceChildren(...drawTicks(seconds, board.chosen.zoom));
  };
  const zoom = (by: number, at: number) => {
    const before = board.chosen.zoom;
    board.chosen.zoom = zoomed(before, by);
    const middle = box.scrollLeft + at;
    show();
    box.scrollLeft = (middle * board.chosen.zoom) / before - at;
  };
  const half = () => box.clientWidth / 2;
  box.addEventListener(
    "wheel",
    (event) => {
      if (!event.ctrlKey) return;
      event.preventDefault();
      zoom(event.deltaY < 0 ? 2 : 0.5, event.clientX - box.getBoundingClientRect().left);
    },
    { passive: false },
  );
  box.addEventListener("keydown", (event) => {
    if (!(event.key in KEYS) || event.ctrlKey || event.metaKey) return;
    zoom(KEYS[event.key], half());
    event.preventDefault();
  });
  const button = (text: string, name: string, by: number) =>
    h(
      "button",
      {
        type: "button",
        class: "mlb-button",
        "data-key": `zoom:${name}`,
        "aria-label": name,
        onclick: () => zoom(by, half()),
      },
      text,
    );
  show();
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
    box,
    alone && board.panels.detail,
  ];
}
