/** A view as Python sends it, as far as tests of data look at it, and hands and prices to go with it. */
import type { Hand } from "../src/hand.ts";
import type { Priced } from "../src/prices.ts";
import type { Price, RefusedPrice, View } from "../src/types.ts";

export const refusal = { code: "size", text: "10 is not divided by 4.", fix: "use `data`", source: "" };
export const classes = { ...refusal, columns: [{ at: "params/*", label: "params" }] };

const column = (at: string, label: string, rules: Record<string, string[]>): object => ({
  at,
  label,
  kind: "glob",
  rules,
  inherited: {},
});

export const view = {
  mesh: {
    axes: [
      { name: "data", size: 2 },
      { name: "model", size: 4 },
    ],
    size: 8,
  },
  columns: [
    column("", "compute", { hidden: ["data"], rows: ["data", "model"] }),
    column("params/*", "params", { cols: ["data"] }),
  ],
  chips: [
    { name: "hidden", size: 16, axes: ["data"], local: 8 },
    { name: "rows", size: 32, axes: ["data", "model"], local: 4 },
    { name: "cols", size: 8, axes: [], local: 8 },
    { name: "classes", size: 10, axes: [], local: 10 },
  ],
  refusals: { hidden: { data: null, model: null }, classes: { data: null, model: refusal } },
  additions: { hidden: { model: null } },
  collectives: { rows: [] },
} as unknown as View;

export const hand: (dim: string, from: string, add?: boolean) => Hand = (dim, from, add = false) => ({
  dim,
  from,
  by: "pointer",
  target: null,
  add,
});

export const price = (figures: Partial<Price>): Price => ({
  bytes: 0,
  seconds: null,
  peak: null,
  fits: null,
  work: 1,
  ...figures,
});

/** Figures, or a refusal, as Python answers. */
export type Figures = Partial<Price> | RefusedPrice;
export const answered = (figures: Figures): Priced => (figures.refused ? figures : price(figures));
