/** What is said of a measured step, and how far the slices of its lanes are filled. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { filled, fills, measuredRow, outline, sumsOfRow } from "../src/measured_lane.ts";
import { measuredText, outcomeText } from "../src/profile.ts";
import { coarseRows, type Row } from "../src/step_rows.ts";
import type { Profiled, Time, View } from "../src/types.ts";

const profiled = (parts: Partial<Profiled>): Profiled => ({
  devices: "8 simulated CPU devices",
  simulated: true,
  runs: 5,
  seconds: null,
  busy: 0.5,
  waiting: 0.2,
  idle: 0.3,
  joined: 1,
  ...parts,
});
const view = (parts: Partial<Profiled>, here: boolean = true): Pick<View, "profile" | "time"> => ({
  profile: { number: 1, phase: "done", error: "", layout: "", here, profiled: profiled(parts) },
  time: { estimate: 0.5 } as Time,
});

/** Slices from 0 to 4 s and from 6 to 8 s, the second one with waiting. */
function row(): Row {
  const common = { kind: "compute", times: 1, collective: null, name: "dot", dims: [], source: "" };
  const segments = [
    { ...common, begin: 0, end: 4, seconds: 4 },
    { ...common, begin: 6, end: 8, seconds: 2 },
  ];
  const lanes = [{ key: "", segments }];
  const made = coarseRows({ seconds: 8, lanes, exposed: [], phases: [], loops: [], memory: [] }).lanes[0];
  const known = [
    { ...made.facts(0), took: 1 / 8 },
    { ...made.facts(1), took: 1 / 8, waited: 2 / 8 },
  ];
  return { ...made, known, facts: (i) => known[i] };
}

test("shares of the step are said of simulated devices, and never seconds", () => {
  const said = measuredText(view({}), { took: 2, waited: 0.5 }, 0.1);
  assert.equal(said, "predicted 20% of the step, measured 20%, and waited 5%");
  assert.match(
    outcomeText(profiled({})),
    /busy for 50% of the step, .* below its prediction, as a share of the step\.$/,
  );
  for (const text of [said, outcomeText(profiled({}))]) assert.doesNotMatch(text, /\d (s|ms|µs|ns)\b/);
});

test("seconds are said of attached devices", () => {
  const here = view({ simulated: false, seconds: 2 });
  assert.equal(
    measuredText(here, { took: 2, waited: 0.5 }, 0.1),
    "predicted 100 ms, measured 400 ms, and waited 100 ms",
  );
  assert.equal(measuredText(here, { took: 2, waited: 0 }, 0.1), "predicted 100 ms, measured 400 ms");
  const said = outcomeText(profiled({ simulated: false, seconds: 2, devices: "8 GPUs", runs: 1 }));
  assert.equal(
    said,
    "Measured on 8 GPUs, the median of 1 run: a device is busy for 50% of the 2 s of the step, " +
      "waits for others for 20%, and is idle for 30%. The step over time shows each part below its prediction.",
  );
});

test("nothing is said of what was measured under another layout", () => {
  assert.equal(measuredText(view({}, false), { took: 2, waited: 0 }, 0.1), "");
  assert.equal(measuredText({ ...view({}), profile: null }, { took: 2, waited: 0 }, 0.1), "");
});

test("a slice is filled to the middle where it is as predicted, and is never cut off", () => {
  assert.deepEqual([0, 0.5, 1, 2].map(filled), [0, 1 / 3, 1 / 2, 2 / 3]);
  assert.ok(filled(1e9) < 1);
  const { took, all } = fills(row(), { from: 0, to: 8 }, 8, 8);
  assert.deepEqual(took, [0.5, 0.5, 0.5, 0.5, 0, 0, 0.25, 0.25]);
  assert.deepEqual(all, [0.5, 0.5, 0.5, 0.5, 0, 0, 0.75, 0.75]);
  // Zoomed to the second slice: it fills all that is in sight.
  assert.deepEqual(fills(row(), { from: 6, to: 8 }, 2, 8).all, [0.75, 0.75]);
});

test("the sums of a lane are those of its slices, and its slices are selected in the lane above", () => {
  assert.deepEqual(sumsOfRow(row()), { took: 0.75, waited: 0.5 });
  const measured = measuredRow(row());
  assert.equal(measured.id(1), row().id(1));
  assert.equal(measured.find(measured.id(1)), -1);
});

test("levels are clipped by their outline", () => {
  const points = "polygon(0px 100%, 0px 100.0%, 0px 50.0%, 2px 50.0%, 2px 100.0%, 3px 100.0%, 3px 100%)";
  assert.equal(outline([0.5, 0.5, 0]), points);
});
