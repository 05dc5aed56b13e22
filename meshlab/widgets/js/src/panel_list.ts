/**
 * The panels of the stage, as `PANELS` of meshlab/widgets/views/panels.py has them. Written by scripts/page_types.py
 * (`make types`): change them there.
 */
import { panel as compare } from "./comparison.ts";
import { panel as devices } from "./devices.ts";
import { panel as collective } from "./hops.ts";
import { panel as memory } from "./memory.ts";
import { panel as program } from "./program.ts";
import type { Panel } from "./stage.ts";
import { panel as time } from "./time.ts";
import { panel as traffic } from "./traffic.ts";
import { panel as run } from "./training.ts";

export const PANELS: Panel[] = [
  {
    name: "devices",
    title: "Devices",
    reads: [
      "board",
      "picture",
      "devices",
      "selection",
      "beside",
      "job",
      "look",
      "zoomed",
      "sends",
      "numbers",
      "heat",
      "values",
      "looked",
    ],
    ...devices,
  },
  {
    name: "program",
    title: "Program",
    reads: ["board", "xla", "program", "inserted"],
    ...program,
  },
  {
    name: "traffic",
    title: "Traffic",
    reads: ["board", "beside", "xla", "matrix", "remedies", "hops"],
    ...traffic,
  },
  {
    name: "memory",
    title: "Memory",
    reads: ["board", "costs", "beside", "alive", "moments"],
    ...memory,
  },
  {
    name: "time",
    title: "Time",
    reads: ["board", "costs", "beside", "profile", "roofline", "stages"],
    ...time,
  },
  {
    name: "compare",
    title: "Compare",
    reads: ["board", "comparison", "search", "beside", "met", "way", "regrets"],
    ...compare,
  },
  {
    name: "run",
    title: "Run",
    reads: [],
    ...run,
  },
  {
    name: "collective",
    title: "One collective",
    reads: ["board", "selection", "hops"],
    ...collective,
  },
];
