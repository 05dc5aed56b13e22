/**
 * The step over time by pointer: a drag pans, with Shift it marks a stretch, the wheel zooms with Ctrl and pans sideways;
 * a click selects the slice that is there, however narrow, and a double click shows it as wide as the screen.
 */
import { sliceAt } from "./step_blocks.ts";
import type { Hit } from "./step_search.ts";
import { panned, zoomed } from "./step_sight.ts";
import type { StepTimeline } from "./timeline.ts";

// A press that moves less is a click, and a click that misses a slice by less is one on it, in pixels.
const [THRESHOLD, MISS] = [4, 3];
// So many pixels of the wheel zoom twice.
const TWICE = 240;

export function listenToStepMouse(timeline: StepTimeline) {
  const { body } = timeline.frame;
  let press: { x: number; id: number; stretch: boolean; seen: typeof timeline.seen; moved: boolean } | null = null;
  let dragged = false;

  body.addEventListener("pointerdown", (event) => {
    dragged = false;
    const onTrack = (event.target as Element).closest(".mlb-lane, .mlb-scale, .mlb-phases");
    if (!onTrack || event.button !== 0 || !event.isPrimary) return;
    press = { x: event.clientX, id: event.pointerId, stretch: event.shiftKey, seen: timeline.seen, moved: false };
    if (event.shiftKey) event.preventDefault(); // no text is selected
  });
  body.addEventListener("pointerleave", () => {
    timeline.pointer = null;
  });
  body.addEventListener("pointermove", (event) => {
    const { left } = timeline.frame.ruler.getBoundingClientRect();
    timeline.pointer = event.pointerType === "mouse" && event.clientX >= left ? event.clientX : null;
    if (!press || event.pointerId !== press.id) return;
    if (!press.moved && Math.abs(event.clientX - press.x) < THRESHOLD) return;
    if (!press.moved) body.setPointerCapture(press.id);
    press.moved = dragged = true;
    const [one, other] = [press.x, event.clientX].map((x) => timeline.frame.timeAt(x, press?.seen ?? timeline.seen));
    if (press.stretch) timeline.setRange(clipped(Math.min(one, other), Math.max(one, other), timeline.whole));
    else if (timeline.sight) {
      const { from, to } = press.seen;
      timeline.show(panned(press.seen, timeline.whole, (one - other) / (to - from)), true);
    }
  });
  const end = () => {
    press = null;
  };
  body.addEventListener("pointerup", end);
  body.addEventListener("pointercancel", end);
  body.addEventListener("lostpointercapture", end);

  body.addEventListener("click", (event) => {
    const hit = dragged ? null : hitAt(timeline, event);
    if (hit) timeline.press(hit);
  });
  body.addEventListener("dblclick", (event) => {
    const hit = hitAt(timeline, event);
    if (hit) timeline.zoomTo(hit);
    else if ((event.target as Element).closest(".mlb-lane, .mlb-scale"))
      timeline.zoom(2, timeline.frame.timeAt(event.clientX, timeline.seen));
  });
  body.addEventListener("wheel", (event) => onWheel(timeline, event), { passive: false });
}

function clipped(from: number, to: number, whole: number) {
  return { from: Math.max(0, from), to: Math.min(whole, to) };
}

/** @returns the slice under a pointer, or the nearest */
function hitAt(timeline: StepTimeline, event: MouseEvent): Hit | null {
  const track = (event.target as Element).closest(".mlb-lane");
  const lane = timeline.lanes.find((each) => each.track === track);
  if (!lane || lane.row.key === "exposed") return null;
  const { row } = lane;
  const button = (event.target as Element).closest("[data-slice]");
  if (button) return { row, i: Number(button.getAttribute("data-slice")) };
  const { seen, frame } = timeline;
  const slack = (MISS * (seen.to - seen.from)) / (frame.width || 1);
  const i = sliceAt(row, frame.timeAt(event.clientX, seen), slack);
  return i < 0 ? null : { row, i };
}

function onWheel(timeline: StepTimeline, event: WheelEvent) {
  const { seen, whole, frame } = timeline;
  if (event.ctrlKey) {
    const by = 2 ** (-event.deltaY / TWICE);
    timeline.show(zoomed(seen, whole, by, frame.timeAt(event.clientX, seen)), true);
  } else {
    const across = event.shiftKey ? event.deltaY : event.deltaX;
    if (!timeline.sight || !across) return;
    timeline.show(panned(seen, whole, across / (frame.width || 1)), true);
  }
  event.preventDefault();
}
