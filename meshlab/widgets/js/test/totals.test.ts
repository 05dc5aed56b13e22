/** What the totals and the status line say of a layout, and where what is dragged stands beside the numbers. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { freeSpot } from "../src/pointer.ts";
import { totalsText } from "../src/sentences.ts";
import { shortened } from "../src/status.ts";
import type { View } from "../src/types.ts";

const before = { bytes: 100, arguments: 40, work: 1, collectives: 1, seconds: 2, peak: 9e9, fits: true };
const card = (name: string, totals: object, more: object) => ({ name, totals, now: false, baseline: false, ...more });

function view(changes: object, totals: object = {}): View {
  const after = { ...before, bytes: 300, arguments: 20, work: 0.25, seconds: 1.9, peak: 8e9, ...totals };
  const cards = [card("start", before, { baseline: true }), card("1", after, { now: true })];
  return {
    communication: { total: after.bytes },
    memory: { arguments: after.arguments },
    work: after.work,
    peak_memory: null,
    time: null,
    pending: false,
    comparison: { cards },
    ...changes,
  } as unknown as View;
}

const costs = (fits = true) => ({
  time: { texts: { estimate: "1.9 s" } },
  peak_memory: { bytes: 8e9, limit: 9.6e9, fits },
});

test("the status line says the result first, and names the baseline once", () => {
  assert.equal(
    totalsText(view(costs())),
    "1.9 s a step (−100 ms against start), 8.00 GB held (−1.00 GB), 300 B sent (+200 B); ",
  );
  assert.equal(
    totalsText(view({})),
    "25% of the FLOPs on each device (from 100% against start), 20 B of arguments held (−20 B), 300 B sent (+200 B); ",
  );
  assert.equal(
    totalsText(view({ pending: true })),
    "300 B sent (+200 B against start) by each device; the step is being worked out …",
  );
  assert.match(
    totalsText(view(costs(false))),
    /8\.00 GB held \(−1\.00 GB\), which does not fit: Memory says why, 300 B/,
  );
  const alone = view({ ...costs(), comparison: { cards: [card("start", before, { baseline: true, now: true })] } });
  assert.equal(totalsText(alone), "1.9 s a step, 8.00 GB held, 300 B sent; ");
});

test("of a long layout the middle is left out, between rules", () => {
  const text = "batch:data+model · params/*: embed:data heads:model · params/embedding: vocab:data";
  assert.equal(shortened(text, 50), "batch:data+model · … vocab:data");
  assert.equal(shortened("batch:data", 50), "batch:data");
  assert.ok(shortened("x".repeat(200), 50).length <= 50);
});

test("what is dragged covers no number of the zone that it is aimed at", () => {
  const tag = { width: 60, height: 20 };
  const at = { x: 500, y: 300 };
  const covers = (spot: DOMRectInit, boxes: DOMRectInit[]) =>
    boxes.some((box) => {
      const [a, b] = [spot, box] as Required<DOMRectInit>[];
      return a.x < b.x + b.width && b.x < a.x + a.width && a.y < b.y + b.height && b.y < a.y + a.height;
    });
  assert.deepEqual(freeSpot(at, tag, []), { ...tag, x: 432, y: 272 });
  const above = { x: 420, y: 270, width: 70, height: 15 };
  const [beside] = [freeSpot(at, tag, [above])];
  assert.equal(beside.width, 60);
  const around = { x: 440, y: 270, width: 120, height: 60 };
  for (const boxes of [[above], [around], [above, around]]) assert.ok(!covers(freeSpot(at, tag, boxes), boxes));
  assert.equal(freeSpot(at, tag, [around]).width, 12);
});
