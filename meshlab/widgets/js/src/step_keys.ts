/**
 * The step over time by keyboard, as trace viewers have it: W and S zoom, A and D pan, 0 or Home shows all, F what is
 * selected; arrows go from slice to slice, and with Shift they mark a stretch; "/" searches, and Enter goes on; P pins a
 * lane above all others. Escape gives up the stretch, the search, or the whole board.
 */
import { firstReaching } from "./step_rows.ts";
import type { StepTimeline } from "./timeline.ts";

const ZOOM = 1.6;
const PAN = 0.2;
// A stretch grows by this part of what is in sight.
const STRETCH = 0.02;

const ACTS: Record<string, (timeline: StepTimeline) => void> = {
  w: (timeline) => timeline.zoom(ZOOM),
  "+": (timeline) => timeline.zoom(2),
  "=": (timeline) => timeline.zoom(2),
  s: (timeline) => timeline.zoom(1 / ZOOM),
  "-": (timeline) => timeline.zoom(1 / 2),
  a: (timeline) => timeline.pan(-PAN),
  d: (timeline) => timeline.pan(PAN),
  0: (timeline) => timeline.show({ from: 0, to: timeline.whole }),
  Home: (timeline) => timeline.show({ from: 0, to: timeline.whole }),
  "/": (timeline) => timeline.openSearch(),
  f: (timeline) => {
    const at = timeline.focusedAt() ?? timeline.momentAt();
    if (at) timeline.zoomTo(at);
  },
  p: (timeline) => {
    const at = timeline.focusedAt() ?? timeline.momentAt();
    if (at) timeline.pin(at.row.key);
  },
};
const ARROWS = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] } as Record<
  string,
  [number, number]
>;

export function listenToStepKeys(timeline: StepTimeline) {
  const { element, input } = timeline.frame;
  element.addEventListener("keydown", (event) => {
    const done = event.target === input ? onSearch(timeline, event) : onLanes(timeline, event);
    if (!done) return;
    event.preventDefault();
    event.stopPropagation();
  });
}

function onSearch(timeline: StepTimeline, { key, shiftKey }: KeyboardEvent): boolean {
  if (key === "Enter") timeline.goOn(shiftKey ? -1 : 1);
  else if (key === "Escape") timeline.closeSearch();
  else return false;
  return true;
}

function onLanes(timeline: StepTimeline, event: KeyboardEvent): boolean {
  const { key, target } = event;
  if (event.ctrlKey || event.metaKey || event.altKey || timeline.folded) return false;
  if (key === "Escape") return leave(timeline);
  // Of the words below the lanes keys are their own.
  if (!timeline.frame.body.contains(target as Node)) return false;
  const arrow = ARROWS[key];
  if (arrow) return event.shiftKey ? stretch(timeline, arrow[0]) : go(timeline, arrow);
  const act = ACTS[key.length === 1 ? key.toLowerCase() : key];
  act?.(timeline);
  return act !== undefined;
}

function leave(timeline: StepTimeline): boolean {
  if (timeline.range) timeline.setRange(null);
  else if (timeline.query) timeline.closeSearch();
  else if (timeline.full) timeline.setFull(false);
  else return false;
  return true;
}

/** Marks a stretch, from the slice that has the focus or from the left edge, or makes it longer or shorter. */
function stretch(timeline: StepTimeline, way: number): boolean {
  if (!way) return false;
  const { seen, whole, range } = timeline;
  const at = timeline.focusedAt() ?? timeline.momentAt();
  const first = at ? { from: at.row.begin[at.i], to: at.row.end[at.i] } : { from: seen.from, to: seen.from };
  const { from, to } = range ?? first;
  const by = range || !at ? way * STRETCH * (seen.to - seen.from) : 0;
  timeline.setRange({ from, to: Math.min(whole, Math.max(from, to + by)) });
  return true;
}

/** Goes to the slice beside, or to the one of another lane at that time; without one that has the focus it pans. */
function go(timeline: StepTimeline, [across, down]: [number, number]): boolean {
  const at = timeline.focusedAt();
  if (!at) {
    if (across) timeline.pan(across * PAN);
    else timeline.lanes.find((lane) => lane.focusFirst());
    return true;
  }
  const lane = timeline.lanes.findIndex(({ row }) => row === at.row);
  const { begin, end } = at.row;
  for (let next = lane + down; next >= 0 && next < timeline.lanes.length; next += down) {
    const { row } = timeline.lanes[next];
    const middle = Math.max(timeline.seen.from, (begin[at.i] + end[at.i]) / 2);
    const i = down ? Math.min(firstReaching(row, middle), row.begin.length - 1) : at.i + across;
    if (i >= 0 && i < row.begin.length && row.key !== "exposed") {
      timeline.focus({ row, i });
      return true;
    }
    if (!down) return true;
  }
  return true;
}
