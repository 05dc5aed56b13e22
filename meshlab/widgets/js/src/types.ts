/**
 * The data that Python sends, as meshlab/widgets/views and notebook/protocol.py make it. Nothing is computed here: this
 * file
 * holds types only, so that the checker sees a misspelt field.
 */
import type { Chart } from "./charts.ts";

export type Chip = { name: string; size: number; axes: string[]; local: number };
/** In time: its blocks run one after the other. */
export type Axis = { name: string; size: number; inTime?: boolean; meaning?: string };
export type Tracing = { sizes: string; phase: string; text: string };
type Group = { key: string; axes: string[] };
export type Refusal = {
  code: string;
  text: string;
  fix: string;
  source?: string;
  columns?: { at: string; label: string }[];
};
export type Column = {
  at: string;
  label: string;
  kind: string;
  rules: Record<string, string[]>;
  inherited: Record<string, string[]>;
  open?: boolean;
  within: { at: string; rules: Record<string, string[]> }[];
};
export type Price = {
  refused?: Refusal;
  bytes: number;
  seconds: number | null;
  peak: number | null;
  fits: boolean | null;
  work: number;
};
export type Part = { key: string; bytes: number };
/** Wire bytes and payload of one device in a step. */
type Sums = { bytes: number; payload: number };
type Line = Sums & { line: string; code: string; parts: Part[] };
export type Remedy = { text: string; effect: string; op?: string; args?: Record<string, unknown> };
export type Collective = {
  kind: string;
  axes: string[];
  key: string;
  payload: number;
  wire: number;
  times: number;
  total: number;
  dtype: string;
  value: string;
  dims: string[];
  source: string;
  code: string;
  because: string;
  id: string;
  proposed: boolean;
};
type PlaceRow = {
  place: string;
  dims: string[];
  shape: number[];
  dtype: string;
  local: number[];
  splits: string[][];
  partial: string[];
  bytes: number;
  local_bytes: number;
};
export type Shards = {
  place: string;
  dims: string[];
  shape: number[];
  dtype: string;
  splits: string[][];
  partial: string[];
  parts: number[];
  edges: number[][];
  step: number[];
  slices: number;
  copies: number;
  held: (number | number[])[];
  kinds: number[];
  blocks: Blocks;
};
export type HeatBlock = {
  facets: [number, number][];
  down: number[];
  across: number[];
  values: (number | null)[];
  least?: (number | null)[];
  most?: (number | null)[];
};
export type HeatCells = {
  statistic: "value" | "magnitude" | "mean" | "mean magnitude";
  complex: boolean;
  diverging: boolean;
  high: number | null;
  least: number | null;
  most: number | null;
  each: [number, number];
  nan: number;
  infinite: number;
  odd: [number, number, number, number][];
  blocks: HeatBlock[];
};
export type Heat = {
  run: number;
  there: boolean;
  when: string;
  why: string;
  stale: boolean;
  parts: number[];
  cells: HeatCells;
  read: string;
  sampled: string;
};
type Blocks = {
  down: number;
  across: number;
  facets: number[];
  whole: number[];
  width: number;
  height: number;
  each: number;
  x: number[];
  y: number[];
  w: number[];
  h: number[];
  slices: number[];
};
export type Picture = {
  width: number;
  height: number;
  shapes: Shape[];
  each: number;
  shown: number;
  devices: number;
  cells: { x: number[]; y: number[]; w: number; h: number; devices: number[] };
  levels: { name: string; size: number; low: number; high: number; step: number; count: number }[];
};
export type Totals = {
  bytes: number;
  arguments: number;
  work: number;
  collectives: number;
  seconds: number | null;
  peak: number | null;
  fits: boolean | null;
};
export type Card = {
  key: string;
  name: string;
  layout: string;
  mesh: string;
  load: { op: string; args: Record<string, any> };
  now: boolean;
  baseline: boolean;
  machine: boolean;
  totals: Totals | null;
};
/** A layout, and what loads it. */
export type Taken = { layout: string; load: { op: string; args: Record<string, any> } | null };
export type Bracket = {
  value: number;
  bound: number;
  gap: number;
  plans: number;
  texts: Record<"value" | "bound" | "gap" | "seconds", string>;
};
export type Search = Partial<Taken> & {
  objective: string;
  label: string;
  condition: string;
  phase: string;
  error: string;
  pinned: string;
  repinned: boolean;
  outdated: string;
  reasons: boolean;
  refining: boolean;
  told: number;
  bracket: Bracket | null;
  said: string;
  proof?: string;
  searched?: string;
  not_searched?: string;
  ties?: Taken[];
  tied?: number;
  same?: boolean;
  card?: string | null;
};
type Comparison = {
  cards: Card[];
  limit: number | null;
  objectives: { name: string; label: string; condition: string }[];
};
export type Accuracy = { where: string; measured: boolean; text: string };
export type Figure = { name: string; text: string; source: string; recalled: boolean };
export type Shape = {
  is: "rect" | "path" | "text";
  as: string;
  x: number;
  y: number;
  w?: number;
  h?: number;
  title?: string;
  d?: string;
  key?: string;
  text?: string;
  turn?: number;
};
export type PlacedAxis = {
  name: string;
  size: number;
  placement: string;
  choices: { label: string; along: Record<string, unknown>; chosen: boolean }[];
};
type Offer = { name: string; title: string; on: string; slice: string; fits: boolean };
export type Machine = {
  on: string;
  name: string;
  groups: { label: string; machines: Offer[] }[];
  title?: string;
  slice?: string;
  slices?: { on: string; slice: string }[];
  kind?: string;
  axes?: PlacedAxis[];
  figures?: Figure[];
  accuracy?: Accuracy;
};
export type TimePart = {
  key: string;
  label: string;
  sends: boolean;
  seconds: number;
  text: string;
  figures: Figure[];
  recalled: boolean;
};
export type Time = {
  missing?: string;
  lower: number;
  estimate: number;
  upper: number;
  compute: number;
  exposed: number;
  texts: Record<"lower" | "estimate" | "upper" | "exposed", string>;
  parts: TimePart[];
  limit: { by: string; text: string };
  options: { attention: string; prefetch: boolean; attentions: string[]; run: string };
  use: string;
  substituted: string;
  recalled: string[];
  accuracy: Accuracy;
};
export type Advice = {
  text: string;
  op: string;
  args: Record<string, unknown>;
  bytes: number;
  seconds: number | null;
  peak: number | null;
  fits: boolean | null;
  work: number;
};
export type Segment = {
  begin: number;
  end: number;
  seconds: number;
  kind: string;
  times: number;
  name: string;
  dims: string[];
  source: string;
  collective: string | null;
};
export type Timeline = {
  seconds: number;
  lanes: { key: string; segments: Segment[] }[];
  exposed: Segment[];
  phases: { name: string; begin: number; end: number }[];
  loops: { begin: number; end: number; times: number }[];
  memory: [number, number][];
};
export type Alive = {
  name: string;
  role: string;
  bytes: number;
  dims: string[];
  shape: number[];
  dtype: string;
  source: string;
};
export type PeakMemory = {
  bytes: number;
  undonated: number;
  limit: number;
  fits: boolean;
  note: string;
  text: string;
  source: string;
  recalled: boolean;
  parts: { name: string; bytes: number }[];
  alive: Alive[];
  left_out: number;
  gaps: number;
  steps: number;
  at: number;
  accuracy: Accuracy;
};
export type View = {
  mesh: { axes: Axis[]; size: number };
  chips: Chip[];
  columns: Column[];
  scopes: string[];
  layout: { text: string; places: { at: string; dim: string; axes: string[] }[] };
  groups: Group[];
  work: number;
  lost: string;
  collectives: { rows: Collective[]; count: number; left_out: number };
  communication: {
    total: number;
    payload: number;
    by_axis: (Sums & { key: string })[];
    by_kind: (Sums & { kind: string; count: number })[];
    by_line: Line[];
    left_out: number;
  };
  memory: { parts: { name: string; bytes: number; output: boolean }[]; arguments: number; outputs: number };
  places: { rows: PlaceRow[]; left_out: number };
  shards: Shards | null;
  picture: Picture;
  tensor: PlaceRow | null;
  selection: Selection;
  refusals: Record<string, Record<string, Refusal | null>>;
  additions: Record<string, Record<string, Refusal | null>>;
  history: { undo: number; redo: number };
  pad: boolean;
  pins: Record<string, string | null>;
  made_up: Record<string, number>;
  tracing: Tracing | null;
  change: {
    work: number;
    bytes: number;
    arguments: number;
    collectives: number;
    seconds: number | null;
    peak: number | null;
  } | null;
  comparison: Comparison;
  search: Search | null;
  pinned: string;
  beside: (OtherLayout & { name: string; card: string; now: boolean }) | null;
  beside_devices: Pick<View, "places" | "shards"> | null;
  trains: boolean;
  machine: Machine;
  time: Time | null;
  peak_memory: PeakMemory | null;
  timeline: Timeline | null;
  pending: boolean;
  slow: boolean;
  presets: { name: string; label: string; refused: string; here: boolean }[];
  advice: Advice | null;
  advised: boolean;
  ranked: { dim: string; helps: boolean }[] | null;
  document: string;
  opened: string;
};
type OtherLayout = Pick<
  View,
  | "mesh"
  | "chips"
  | "layout"
  | "groups"
  | "work"
  | "lost"
  | "collectives"
  | "communication"
  | "memory"
  | "time"
  | "peak_memory"
  | "pending"
>;
export type Selection = {
  place: string | null;
  dim: string | null;
  device: number | null;
  collective: string | null;
  moment: string | null;
  coordinates: Record<string, number>;
  groups: { key: string; devices: number[]; size: number }[];
  ranges: [number, number][];
};
export type RunRow = {
  number: number;
  revision: number;
  layout: string;
  stale: boolean;
  phase: string;
  taken: number;
  steps: number;
  loss: number | string | null;
  mark: number | null;
  error: string;
  reference: boolean;
  same: boolean | null;
  sameness: string;
  tolerance: number | null;
  measured: string;
  measured_on: string;
  predicted: string;
  predicted_on: string;
};
export type Job = { current: RunRow | null; runs: RunRow[]; note: string; chart: Chart | null };
export type Answer = {
  kind: "ack" | "nack" | "prices" | "read" | "library";
  id: string;
  rev: number;
  now?: number;
  note?: string;
  reason?: string;
  fix?: string;
  trace?: string;
  prices?: Price[];
  data?: any;
  buffers?: ArrayBufferView[];
};
export type Model = {
  get(name: string): any;
  on(event: string, listener: (...args: any[]) => void): void;
  off(event: string, listener: (...args: any[]) => void): void;
  send(content: unknown): void;
};
