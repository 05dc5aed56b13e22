/** The sums of a stretch of a step: seconds by lane, what is sent, FLOPs, and how long no kernel runs. */
import { type Row, within } from "./step_rows.ts";
import type { Sight } from "./step_sight.ts";

/**
 * Of slices that are cut by an edge their part counts; `flops` and `bytes` are 0 where they are not known. `took` and
 * `waited` are shares of the measured step.
 */
export type Sums = {
  seconds: number;
  took: number;
  waited: number;
  lanes: { lane: string; seconds: number; bytes: number }[];
  flops: number;
  bytes: number;
  exposed: number;
  waiting: number;
};

export function sumsOf(lanes: Row[], range: Sight): Sums {
  const none = { took: 0, waited: 0, flops: 0, bytes: 0, exposed: 0, waiting: 0 };
  const sums: Sums = { seconds: range.to - range.from, lanes: [], ...none };
  for (const row of lanes) {
    if (row.lane === null) continue;
    const lane = { lane: row.lane, seconds: 0, bytes: 0 };
    // Gaps between segments that were joined are no gaps of the kernels: what counts is in which time something runs.
    within(row, range, (i, seconds) => {
      const { kind, bytes, flops, took, waited } = row.facts(i);
      if (kind === "waiting") {
        sums.waiting += seconds;
        return;
      }
      lane.seconds += seconds;
      lane.bytes += bytes * seconds;
      sums.flops += flops * seconds;
      sums.took += took * seconds;
      sums.waited += waited * seconds;
    });
    sums.bytes += lane.bytes;
    if (row.lane === "") sums.exposed = Math.max(0, sums.seconds - lane.seconds - sums.waiting);
    if (lane.seconds > 0 || row.lane === "") sums.lanes.push(lane);
  }
  return sums;
}
