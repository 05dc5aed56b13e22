/**
 * The data that Python sends, as the `TypedDict`s of meshlab/widgets/views and notebook/protocol.py have it. Written by
 * scripts/page_types.py (`make types`): change them there.
 */

/** What opens a view again, to be copied: code, or the link of a board without Python. */
export type Link = {
  text: string;
};

/** The tab that a page was sent to last, and how often one was. */
export type TabPart = {
  view: string;
  count: number;
};

/** The change that helps most, and what the step costs after it. */
export type Advice = {
  bytes: number;
  seconds: number | null;
  peak: number | null;
  fits: boolean | null;
  work: number;
  op: string;
  args: Record<string, unknown>;
  text: string;
};

/** A dim that some zone takes, and whether the best of these makes the step better. */
export type RankedDim = {
  dim: string;
  helps: boolean;
};

/** How many single changes were priced, and of how many. */
export type Looking = {
  done: number;
  of: number;
};

/** Advice, whether it was worked out, how far that is while it goes on, and why it failed. */
export type AdvicePart = {
  advice: Advice | null;
  advised: boolean;
  looking: Looking | null;
  ranked: RankedDim[] | null;
  advice_error: string;
};

/** A size, and what a step costs there; or why the layout does not fit it. */
export type Point = {
  size: number;
  seconds: number | null;
  peak: number | null;
  bytes: number | null;
  arguments: number | null;
  refused: string;
};

/** The sizes that can be taken, the points that are worked out, and the bytes that a device holds at most. */
export type Curve = {
  kind: string;
  name: string;
  present: number;
  sizes: number[];
  points: Point[];
  phase: string;
  error: string;
  limit: number | null;
};

export type CurvePart = {
  curve: Curve | null;
};

/** The latest look: at which value of the last step of which run, and how far it is. */
export type Look = {
  number: number;
  value: string;
  run: number;
  phase: string;
  error: string;
};

export type LookPart = {
  look: Look | null;
};

/** A value of a step by a name that `plan.watch` takes; `times` says how often its line runs. */
export type NamedValue = {
  name: string;
  dims: string[];
  shape: number[];
  source: string;
  times: number;
};

export type NamedValues = {
  title: string;
  rows: NamedValue[];
};

/** The values of a step, by kind, and how many more there are. */
export type Values = {
  groups: NamedValues[];
  left_out: number;
};

/** A model: how many parameters it has, and the sizes that it is opened with. */
export type ListedModel = {
  name: string;
  group: string;
  parameters: number;
  sizes: Record<string, number>;
};

/** The models listed so far; why there are no more, and whether these are all. */
export type Models = {
  rows: ListedModel[];
  error: string;
  whole: boolean;
};

export type ModelsPart = {
  models: Models | null;
};

/** A measured step: its seconds, None on simulated devices, and shares of it, of devices and of events. */
export type Profiled = {
  devices: string;
  simulated: boolean;
  runs: number;
  seconds: number | null;
  busy: number;
  waiting: number;
  idle: number;
  joined: number;
};

/** The latest measuring: how far it is, its layout, and whether that is on the board. */
export type Profile = {
  number: number;
  phase: string;
  error: string;
  layout: string;
  here: boolean;
  profiled: Profiled | null;
};

export type ProfilePart = {
  profile: Profile | null;
};

/** What is to be done; while it is `locked`, its number is to be predicted before the board shows any figure. */
export type Task = {
  heading: string;
  text: string;
  given: string;
  question: string;
  locked: boolean;
  predicted: number | null;
  number: number | null;
  right: boolean | null;
};

export type TaskPart = {
  task: Task | null;
};

/** What the plan and XLA's program send at one line; `because` says why XLA's is there. */
export type XlaRow = {
  source: string;
  kind: string;
  key: string;
  planned: number;
  inserted: number;
  same: boolean;
  because: string[];
};

/** How far it is; the rows, how many more there are, both totals, peaks, and steps on a machine, and remarks. */
export type Xla = {
  phase: string;
  stage: string;
  seconds: number;
  error: string;
  rows: XlaRow[];
  left_out: number;
  planned: number;
  inserted: number;
  planned_peak: string;
  inserted_peak: string;
  planned_step: string;
  inserted_step: string;
  notes: string[];
};

export type XlaPart = {
  xla: Xla | null;
};

/** The layout beside the one on the board; its card is empty where it was not tried. */
export type OtherLayout = {
  mesh: Mesh;
  chips: Chip[];
  layout: Layout;
  groups: Group[];
  work: number;
  lost: string;
  collectives: Collectives;
  communication: Communication;
  memory: Memory;
  time: Time | NoTime | null;
  peak_memory: PeakMemory | null;
  pending: boolean;
  name: string;
  card: string;
  now: boolean;
};

export type BesidePart = {
  beside: OtherLayout | null;
};

/** The tensor that is selected, alone, under the layout beside the one on the board. */
export type OtherDevices = {
  places: Places;
  shards: Shards;
};

export type Refusals = Record<string, Record<string, Refusal | null>>;

/** How often one can undo and redo. */
export type History = {
  undo: number;
  redo: number;
};

export type HistoryPart = {
  history: History;
};

/** A preset: what it is and what it needs; why there is none of it, or the mesh axes that it can be over. */
export type Preset = {
  name: string;
  label: string;
  group: "batch" | "model" | "experts" | "sequence" | "time";
  about: string;
  needs: string;
  why: string;
  choices: string[];
};

export type PresetsPart = {
  presets: Preset[];
};

/** A preset that is on the board, over which mesh axes, and what of it is otherwise. */
export type PresetHere = {
  name: string;
  text: string;
  note: string;
};

/** What the layout is called, for short as well, the presets that it is made of, and those that come to the same. */
export type Named = {
  text: string;
  short: string;
  parts: PresetHere[];
  alike?: string[];
};

/** The name of the layout on the board; None where it has none, or is not known yet. */
export type NamedPart = {
  named: Named | null;
};

export type LayoutPart = {
  mesh: Mesh;
  chips: Chip[];
  layout: Layout;
  groups: Group[];
  work: number;
  lost: string;
  collectives: Collectives;
  communication: Communication;
  memory: Memory;
  title: string;
  columns: Column[];
  refusals: Record<string, Record<string, Refusal | null>>;
  additions: Record<string, Record<string, Refusal | null>>;
  pad: boolean;
  pins: Record<string, string | null>;
  made_up: Record<string, number>;
  trains: boolean;
  machine: Machine;
  slow: boolean;
  document: string;
};

export type DevicesPart = {
  tensor: Place | null;
  shards: Shards | null;
  beside_devices: OtherDevices | null;
};

export type PicturePart = {
  picture: Picture;
};

export type PlacesPart = {
  places: Places;
};

/** A board that was saved, as text, and what its layout is called. */
export type SavedBoard = {
  document: string;
  said: string;
};

/** The document that the Explorer was opened with, what can be asked for, and a saved board that is offered. */
export type SessionPart = {
  opened: string;
  can: string[];
  offer?: SavedBoard;
};

/** The latest tracing of the program at other sizes, or of another model. */
export type Tracing = {
  sizes: string;
  model: string;
  phase: string;
  text: string;
};

export type TracingPart = {
  tracing: Tracing | null;
};

/** Kernels of one operation on one line: seconds, FLOP and bytes of all; intensity in FLOP/B, rate in FLOP/s. */
export type Dot = {
  name: string;
  dims: string[];
  source: string;
  dtype: string;
  count: number;
  seconds: number;
  flops: number;
  bytes: number;
  intensity: number | null;
  rate: number;
  bound: "compute" | "memory" | "launch";
};

/** The FLOP/s that large matmuls of a dtype reach. */
export type Roof = {
  dtype: string;
  peak: number;
};

/** A chart as Plotly's data and layout, and what it shows, for screen readers. */
export type Chart = {
  data: Record<string, any>[];
  layout: Record<string, any>;
  label: string;
};

/** A phase of the program, from its first step to the one behind its last. */
export type StepsPhase = {
  name: string;
  begin: number;
  end: number;
};

/** The mesh axes by dim at a glob. */
export type ColumnRules = {
  at: string;
  rules: Record<string, string[]>;
};

/** A column of the board; `inherited` are compute rules that hold there, `within` rules at places inside it. */
export type Column = {
  at: string;
  rules: Record<string, string[]>;
  label: string;
  kind: string;
  open: boolean;
  inherited: Record<string, string[]>;
  follows?: Record<string, string[]>;
  zigzag?: string[];
  within: ColumnRules[];
};

export type Follows = {
  follows?: Record<string, string[]>;
};

export type Zigzag = {
  zigzag?: string[];
};

/** The totals of a layout; step and peak are null without a machine, and while they are computed. */
export type Totals = {
  bytes: number;
  arguments: number;
  work: number;
  collectives: number;
  seconds: number | null;
  peak: number | null;
  fits: boolean | null;
};

/** A layout that was tried, by its number; its model and its mesh are named where they are not those on the board. */
export type Card = {
  key: string;
  name: string;
  label?: string;
  note?: string;
  layout: string;
  mesh: string;
  load: Intent;
  now: boolean;
  baseline: boolean;
  machine: boolean;
  totals: Totals | null;
};

export type Objective = {
  name: string;
  label: string;
  condition: string;
};

/** What was tried and what can be searched for, and the bytes that a device holds at most. */
export type Comparison = {
  cards: Card[];
  limit: number | null;
  objectives: Objective[];
};

export type ComparisonPart = {
  comparison: Comparison;
};

export type Marks = {
  label?: string;
  note?: string;
};

/** The cells of one block: their edges, as indices, and their numbers row by row, null without any finite one. */
export type HeatBlock = {
  down: number[];
  across: number[];
  facets: [number, number][];
  values: (number | null)[];
  least?: (number | null)[];
  most?: (number | null)[];
};

/** What the cells show; in `each` the least and the most numbers of one, in `odd` (block, cell, NaN, infinite). */
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

/** Whether a run has numbers of a tensor, whose they are, and why there are none; "" where that needs no words. */
export type Numbers = {
  run: number;
  there: boolean;
  when: string;
  why: string;
  stale: boolean;
};

export type NoHeat = {
  run: number;
  there: boolean;
  when: string;
  why: string;
  stale: boolean;
  cells: null;
};

/** The numbers of a tensor after a run; of replicas that differ (device, other device, by how much). */
export type Heat = {
  run: number;
  there: boolean;
  when: string;
  why: string;
  stale: boolean;
  parts: number[];
  dtype: string;
  cells: HeatCells;
  devices: number;
  as_planned: boolean;
  differences: [number, number, number | null][];
  read: string;
  sampled: string;
  unframed: string;
};

/** The slice of each cell; where cells are several devices up to four of them, and in `kinds` how many there are. */
export type Held = {
  held: number[] | number[][];
  kinds: number[];
};

/** A tensor in slices: each is one part along each axis, and has a number, row-major over the parts. */
export type Slices = {
  shape: number[];
  parts: number[];
  step: number[];
  edges: number[][];
  place: string;
  dims: string[];
  dtype: string;
  splits: string[][];
  partial: string[];
  slices: number;
};

export type Holdings = {
  shape: number[];
  parts: number[];
  step: number[];
  edges: number[][];
  place: string;
  dims: string[];
  dtype: string;
  splits: string[][];
  partial: string[];
  slices: number;
  held: number[] | number[][];
  kinds: number[];
  copies: number;
};

export type Shards = {
  shape: number[];
  parts: number[];
  step: number[];
  edges: number[][];
  place: string;
  dims: string[];
  dtype: string;
  splits: string[][];
  partial: string[];
  slices: number;
  held: number[] | number[][];
  kinds: number[];
  copies: number;
  blocks: Blocks;
};

export type Zoomed = {
  picture: Picture;
  shards: Holdings | null;
};

export type Transfer = [number, number, number, number];

export type Piece = [number, number, number];

/** What is sent at one time: all that goes to or from the devices that are drawn, and the bytes of each piece. */
export type Hop = {
  text: string;
  bytes: number;
  adds: boolean;
  keeps: boolean;
  transfers: [number, number, number, number][];
};

/** A group by its first device, and where that stands on the other mesh axes. */
export type GroupName = {
  device: number;
  name: string;
};

/** What is played: the pieces, in cells line by line, those that each device has at first, and the hops. */
export type Play = {
  slices: Slices | null;
  parts: "slices" | "numbers" | "devices";
  lines: string[];
  columns: number;
  pieces: [number, number, number][];
  start: number[][];
  hops: Hop[];
};

/** How the tensor is cut before a collective, and afterwards. */
export type Ends = {
  before: string;
  after: string;
};

/** A collective hop by hop in one `group`, named by its first device; of its `size` devices `more` are not drawn. */
export type Hops = {
  slices: Slices | null;
  parts: "slices" | "numbers" | "devices";
  lines: string[];
  columns: number;
  pieces: [number, number, number][];
  start: number[][];
  hops: Hop[];
  before: string;
  after: string;
  id: string;
  kind: string;
  key: string;
  value: string;
  size: number;
  group: number;
  groups: GroupName[];
  group_count: number;
  devices: number[];
  more: number;
  sums: boolean;
  formula: string;
  wire: number;
  times: number;
  seconds: number | null;
  note: string;
};

/** The plan has no such collective. */
export type NoHops = {
  id: null;
};

export type NotThere = {
  there: false;
  why: string;
};

/** What a device held: its slice, mean and extremes of its finite numbers, and all numbers where they are few. */
export type DeviceNumbers = {
  device: number;
  where: string;
  slice: number;
  least: number | null;
  mean: number | null;
  most: number | null;
  nan: number;
  infinite: number;
  numbers: (number | string)[];
};

/** A loop around a value: how often it runs, and the iteration that is shown. */
export type LoopShown = {
  times: number;
  shown: number;
};

/** A value as the devices held it; of `values`, `forms` and `addends` one is shown, or the sum of all addends. */
export type Looked = {
  there: true;
  label: string;
  source: string;
  values: string[];
  value: number;
  forms: string[];
  form: number;
  loops: LoopShown[];
  addends: string[];
  addend: number | null;
  sums: boolean;
  picture: Picture;
  shards: Shards;
  cells: HeatCells;
  rows: DeviceNumbers[];
  rows_left_out: number;
  when: string;
  read: string;
  sampled: string;
  unframed: string;
  notes: string[];
};

export type MatrixCell = [number, number, number, string[]];

/** The groups over one set of mesh axes, and the bytes that each of their devices sends: in all, and by the way. */
export type MatrixBlock = {
  key: string;
  size: number;
  groups: number;
  ways: Record<string, number>;
  bytes: number;
};

/** Who sends to whom in a step, in bytes; `kept` is what stays on its device. */
export type Matrix = {
  devices: number;
  most: number;
  total: number;
  cells: [number, number, number, string[]][];
  kept: number;
  blocks: MatrixBlock[];
  convention: string;
};

/** Corners and sizes in pixels, and the device of each cell; no devices where a cell is several. */
export type PictureCells = {
  x: number[];
  y: number[];
  w: number;
  h: number;
  devices: number[];
};

/** A level of positions in the window: `count` cells along it, of which each covers `step` positions. */
export type PictureLevel = {
  name: string;
  size: number;
  low: number;
  high: number;
  step: number;
  count: number;
};

/** The devices of a mesh, of which a cell is `each` and the window has `shown`. */
export type Picture = {
  width: number;
  height: number;
  shapes: (RectShape | PathShape | TextShape)[];
  left_out: string;
  cells: PictureCells;
  levels: PictureLevel[];
  each: number;
  shown: number;
  devices: number;
};

export type Edge = [number, number, number];

/** Who sends to whom; `place` is that of the tensor that is sent, "" where that has none. */
export type Sends = {
  key: string;
  edges: [number, number, number][];
  text: string;
  place: string;
};

export type RectShape = {
  is: "rect";
  as: string;
  x: number;
  y: number;
  w: number;
  h: number;
  title?: string;
};

export type PathShape = {
  is: "path";
  as: string;
  key: string;
  d: string;
};

export type TextShape = {
  is: "text";
  as: string;
  x: number;
  y: number;
  text: string;
  turn?: number;
};

export type Shape = RectShape | PathShape | TextShape;

/** A drawing, in pixels. */
export type Sheet = {
  width: number;
  height: number;
  shapes: (RectShape | PathShape | TextShape)[];
  left_out: string;
};

/** How a tensor is cut: along each of its axes how many parts there are, and how many indices the longest has. */
export type Cut = {
  shape: number[];
  parts: number[];
  step: number[];
  edges: number[][];
};

/** The blocks of a tensor in pixels, each with its slice, or the first of `each`; an axis is -1 for none. */
export type Blocks = {
  down: number;
  across: number;
  facets: number[];
  whole: number[];
  each: number;
  width: number;
  height: number;
  x: number[];
  y: number[];
  w: number[];
  h: number[];
  slices: number[];
};

/** A form of the layout: what it is for, its text, and what it cannot say. */
export type Form = {
  name: string;
  about: string;
  text: string;
  lost: string[];
};

export type Forms = {
  forms: Form[];
};

/** One condition; `price` is the price of a drop that may be `most` at the most, where that tells. */
export type Condition = {
  text: string;
  state: "met" | "missed" | "pending";
  value: string;
  because: string;
  price: "bytes" | "seconds" | "peak" | "work" | null;
  most: number;
};

/** A goal, and how far the layout on the board meets it; a quiet one hides what would give the answer away. */
export type Goal = {
  conditions: Condition[];
  met: boolean;
  pending: boolean;
  heading: string;
  quiet: boolean;
};

export type GoalPart = {
  goal: Goal | null;
};

/** A machine to choose, with the slice that is taken where it is chosen. */
export type Offer = {
  name: string;
  title: string;
  on: string;
  slice: string;
  fits: boolean;
};

export type Offers = {
  label: string;
  machines: Offer[];
};

export type MachineSlice = {
  on: string;
  slice: string;
};

/** A placement of a mesh axis, and the change to ask for; an axis that has nothing there is to be derived. */
export type PlacementChoice = {
  label: string;
  along: Record<string, number | number[] | string | null>;
  chosen: boolean;
};

export type PlacedAxis = {
  name: string;
  size: number;
  placement: string;
  choices: PlacementChoice[];
};

/** What is known where a machine is chosen; nothing of it is there where none is. */
export type ChosenMachine = {
  title?: string;
  slice?: string;
  slices?: MachineSlice[];
  kind?: string;
  axes?: PlacedAxis[];
  figures?: Figure[];
  accuracy?: Accuracy;
};

/** The machine and those to choose from; `on` and `name` are empty where none is chosen. */
export type Machine = {
  title?: string;
  slice?: string;
  slices?: MachineSlice[];
  kind?: string;
  axes?: PlacedAxis[];
  figures?: Figure[];
  accuracy?: Accuracy;
  on: string;
  name: string;
  groups: Offers[];
};

/** A figure of a machine; recalled: it was not looked up in its source. */
export type Figure = {
  name: string;
  text: string;
  source: string;
  recalled: boolean;
};

/** The measured error of a kind of prediction, and where the documentation has it. */
export type Accuracy = {
  measured: boolean;
  where: string;
  text: string;
};

export type RoleBytes = {
  name: string;
  bytes: number;
};

/** A value that is in memory, with its shape and bytes on one device. */
export type Alive = {
  name: string;
  role: string;
  bytes: number;
  dims: string[];
  shape: number[];
  dtype: string;
  source: string;
};

/** What one stage of a pipeline needs while its cells run: `parts` by name add up to `bytes`. */
export type StageBytes = {
  stage: number;
  bytes: number;
  in_flight: number;
  kept: number;
  parts: RoleBytes[];
};

/** The peak of one device in bytes, and the step `at` which it is; `undonated` where nothing is overwritten. */
export type PeakMemory = {
  bytes: number;
  undonated: number;
  limit: number;
  fits: boolean;
  note: string;
  text: string;
  because: string;
  parts: RoleBytes[];
  alive: Alive[];
  left_out: number;
  stages: StageBytes[];
  gaps: number;
  steps: number;
  at: number;
  source: string;
  recalled: boolean;
  accuracy: Accuracy;
};

export type Moments = {
  chart: Chart | null;
};

/** What is in memory while a step runs; values, what is left out and padding add up to `bytes`. */
export type AliveAt = {
  step: number;
  name: string;
  source: string;
  bytes: number;
  values: Alive[];
  left_out: number;
  left_bytes: number;
  padding: number;
};

/** No machine is chosen. */
export type NoneAlive = {
  step: number;
  bytes: null;
};

/** It is being worked out: the page keeps what it has, and asks again. */
export type Pending = {
  pending: true;
};

/** A mesh axis; one in time runs its blocks one after the other. */
export type Axis = {
  name: string;
  size: number;
  inTime?: boolean;
  unit?: string;
  meaning?: string;
};

export type Mesh = {
  axes: Axis[];
  size: number;
};

/** A dim, the mesh axes that shard it, and its size on one device. */
export type Chip = {
  name: string;
  size: number;
  axes: string[];
  local: number;
};

export type PlaceRule = {
  at: string;
  dim: string;
  axes: string[];
};

export type Layout = {
  text: string;
  places: PlaceRule[];
};

/** A mesh axis, or a set of several that something is sent over, and the number of its mark. */
export type Group = {
  key: string;
  axes: string[];
  mark: number;
};

export type Refusal = {
  code: string;
  text: string;
  fix: string;
  source?: string;
};

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

export type Collectives = {
  rows: Collective[];
  count: number;
  left_out: number;
};

/** Wire bytes over one set of mesh axes. */
export type AxisBytes = {
  key: string;
  bytes: number;
};

/** Wire bytes and payload of one device in a step, over one set of mesh axes. */
export type AxisSums = {
  key: string;
  bytes: number;
  payload: number;
};

export type KindSums = {
  kind: string;
  bytes: number;
  payload: number;
  count: number;
};

export type LineSums = {
  line: string;
  code: string;
  bytes: number;
  payload: number;
  parts: AxisBytes[];
};

export type Communication = {
  total: number;
  payload: number;
  by_axis: AxisSums[];
  by_kind: KindSums[];
  by_line: LineSums[];
  left_out: number;
};

export type StoredPart = {
  name: string;
  bytes: number;
  output: boolean;
};

/** Exact bytes on one device. */
export type Memory = {
  parts: StoredPart[];
  arguments: number;
  outputs: number;
};

export type Plan = {
  mesh: Mesh;
  chips: Chip[];
  layout: Layout;
  groups: Group[];
  work: number;
  lost: string;
  collectives: Collectives;
  communication: Communication;
  memory: Memory;
};

export type Place = {
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

export type Places = {
  rows: Place[];
  left_out: number;
};

/** The operation and the arguments by which a page sends an intent. */
export type Intent = {
  op: string;
  args: Record<string, unknown>;
};

/** What would be carried out instead, and what is on its button. */
export type Instead = {
  op: string;
  args: Record<string, unknown>;
  label: string;
};

/** What a step costs under a layout; step and peak are null where they are unknown, or were not asked for. */
export type StepCost = {
  bytes: number;
  seconds: number | null;
  peak: number | null;
  fits: boolean | null;
  work: number;
};

/** What a step costs after an intent; it is not refused. */
export type Price = {
  bytes: number;
  seconds: number | null;
  peak: number | null;
  fits: boolean | null;
  work: number;
  refused?: null;
};

export type RefusedColumn = {
  at: string;
  label: string;
};

/** Why a drop is refused; the columns that would take it, whether it could be padded, and what else there is. */
export type RefusedDrop = {
  code: string;
  text: string;
  fix: string;
  source?: string;
  columns?: RefusedColumn[];
  pads?: boolean;
  instead?: Instead[];
};

/** Why an intent is refused, and so has no price. */
export type RefusedPrice = {
  refused: RefusedDrop;
};

export type SizedDim = [number, number, number, number];

export type ValueType = [number, [number, number, number, number][], number];

/** A collective of one step: the payload, and the wire bytes, of one device each time. */
export type Sent = {
  id: string;
  kind: string;
  key: string;
  payload: number;
  wire: number;
  times: number;
  value: string;
  dims: string[];
  source: string;
  code: string;
  because: string;
};

/** Nodes as columns; texts, types, collectives and other nodes by their position, -1 for none. */
export type ProgramNodes = {
  parent: number[];
  kind: number[];
  label: number[];
  name: number[];
  source: number[];
  value: number[];
  uses: number[];
  makes: number[];
  reads: number[][];
  collective: number[];
  times: number[];
};

export type ProgramData = {
  kinds: string[];
  strings: string[];
  types: [number, [number, number, number, number][], number][];
  collectives: Sent[];
  nodes: ProgramNodes;
};

/** A layout that the search has met. */
export type Met = {
  layout: string;
  load: Intent;
  seconds: number;
  peak: number;
  fits: boolean;
};

/** Some of the layouts that the search has met, the fastest first, and how many there are in all. */
export type MetLayouts = {
  layouts: Met[];
  count: number;
};

/** One change on the way; the step takes so many seconds after it, by so many more than before. */
export type WayStep = {
  layout: string;
  load: Intent;
  change: string;
  seconds: number;
  by: number;
  bytes: number;
  peak: number;
  fits: boolean;
};

export type Way = {
  steps: WayStep[];
  order: string;
  rank: string;
  refused: string;
};

/** By what share the step gets longer where one decision is otherwise, at least and as far as was met. */
export type Regret = {
  change: string;
  share: number | null;
  least: number | null;
  seconds: number | null;
  exact: boolean;
  layout: string;
  load: Intent | null;
};

export type Regrets = {
  rows: Regret[];
  binds: string[];
  phase: string;
  searched: number;
  error: string;
};

/** A remedy in words, and the intent that makes it, where that changes the layout. */
export type Remedy = {
  text: string;
  effect: string;
  op?: string;
  args?: Record<string, unknown>;
};

export type Remedies = {
  rows: Remedy[];
};

/** The kernels of a step in seconds, FLOP/s and bytes per second; `left_out` groups have no dot. */
export type Roofline = {
  because: string;
  dots: Dot[];
  chart: Chart | null;
  left_out: number;
  left_seconds: number;
  undrawn: number;
  said: string;
  roofs: Roof[];
  bandwidth: number;
  compute: number;
};

/** No time is known. */
export type NoRoofline = {
  dots: null;
};

/** How a run compares with the reference: a tolerance is a share of the root mean square of its losses. */
export type Sameness = {
  reference: boolean;
  same: boolean | null;
  sameness: string;
  tolerance: number | null;
};

/** The seconds of a step as text, and what they were measured on and predicted for; empty where there are none. */
export type StepSeconds = {
  measured: string;
  measured_on: string;
  predicted: string;
  predicted_on: string;
};

/** A run; its loss is text where it is not finite. */
export type Run = {
  reference: boolean;
  same: boolean | null;
  sameness: string;
  tolerance: number | null;
  measured: string;
  measured_on: string;
  predicted: string;
  predicted_on: string;
  number: number;
  revision: number;
  layout: string;
  stale: boolean;
  phase: string;
  taken: number;
  steps: number;
  loss: number | string | null;
  error: string;
};

/** A run with the number of its mark in the chart. */
export type RunRow = {
  reference: boolean;
  same: boolean | null;
  sameness: string;
  tolerance: number | null;
  measured: string;
  measured_on: string;
  predicted: string;
  predicted_on: string;
  number: number;
  revision: number;
  layout: string;
  stale: boolean;
  phase: string;
  taken: number;
  steps: number;
  loss: number | string | null;
  error: string;
  mark: number | null;
};

export type Job = {
  current: Run | null;
  runs: RunRow[];
  note: string;
  chart: Chart | null;
};

/** A layout, and what loads it. */
export type Taken = {
  layout: string;
  load: Intent;
};

export type BracketTexts = {
  value: string;
  bound: string;
  seconds: string;
  gap: string;
};

/** What a layout costs, in seconds or bytes, and what every other costs at least; the gap is a share. */
export type Bracket = {
  value: number;
  bound: number;
  gap: number;
  plans: number;
  texts: BracketTexts;
};

/** What a search has met so far, if anything; with the proof once it has ended. */
export type Found = {
  said: string;
  bracket: Bracket | null;
  layout?: string;
  load: Intent | null;
  proof?: string;
  searched?: string;
  not_searched?: string;
  ties?: Taken[];
  tied?: number;
  same?: boolean;
  before?: string;
  card?: string | null;
};

/** What searches keep to, in words, and what takes that away. */
export type KeptRule = {
  text: string;
  undo: Intent;
};

/** What the next search keeps to: its marks, its limits as they are written in fields, its rules, and its space. */
export type Kept = {
  forbidden: Record<string, string[]>;
  silent: string[];
  memory: string;
  seconds: string;
  rules: KeptRule[];
  space: string;
};

/** The latest search; `outdated` says why it no longer holds, `told` counts the reasons that are known. */
export type Search = {
  said: string;
  bracket: Bracket | null;
  layout?: string;
  load: Intent | null;
  proof?: string;
  searched?: string;
  not_searched?: string;
  ties?: Taken[];
  tied?: number;
  same?: boolean;
  before?: string;
  card?: string | null;
  objective: string;
  label: string;
  condition: string;
  phase: string;
  error: string;
  kept: string;
  changed: boolean;
  outdated: string;
  reasons: boolean;
  refining: boolean;
  told: number;
};

export type SearchPart = {
  kept: Kept;
  search: Search | null;
};

export type Before = {
  before?: string;
};

/** The devices that one takes part with in collectives over some mesh axes; of a large group the first ones. */
export type DeviceGroup = {
  key: string;
  devices: number[];
  size: number;
};

/** What is selected; of a device its coordinates, its groups, and where its slice of the tensor begins and ends. */
export type Selection = {
  place: string | null;
  dim: string | null;
  device: number | null;
  collective: string | null;
  moment: string | null;
  coordinates: Record<string, number>;
  groups: DeviceGroup[];
  ranges: number[][];
};

export type SelectionPart = {
  selection: Selection;
};

/** The cells of a stage as columns, in the order of time. */
export type Cells = {
  begin: number[];
  end: number[];
  backward: boolean[];
  micro: number[];
  chunk: number[];
};

/** A stage: how long it runs no cell and sends nothing, in seconds and as text, and its cells. */
export type StageLane = {
  waits: number;
  text: string;
  cells: Cells;
};

/** A schedule as it runs; `sends` are the beginnings of exchanges, each of which takes `hop` seconds. */
export type Stages = {
  schedule: string;
  said: string;
  axis: string;
  seconds: number;
  chunks: number;
  hop: number;
  sends: number[];
  lanes: StageLane[];
};

/** The layout is no pipeline, or no time is predicted. */
export type NoStages = {
  lanes: null;
};

/** What slices have in common, as columns; texts by their position in `strings`. */
export type StepWhat = {
  kind: number[];
  name: number[];
  dims: number[];
  source: number[];
  code: number[];
  collective: number[];
  times: number[];
  bytes: number[];
  flops: number[];
  took: number[];
  waited: number[];
};

/** Slices as columns, in the order of time; `loop` is the one around by its position in `loops`, -1 for none. */
export type StepSlices = {
  row: number[];
  begin: number[];
  seconds: number[];
  what: number[];
  loop: number[];
};

/** A step: rows are `depth` frames, and then the lanes; `loops` are slices. */
export type StepLanes = {
  seconds: number;
  depth: number;
  lanes: string[];
  strings: string[];
  what: StepWhat;
  slices: StepSlices;
  loops: number[];
};

/** With points of memory, in seconds and bytes; whether it was measured. */
export type Step = {
  seconds: number;
  depth: number;
  lanes: string[];
  strings: string[];
  what: StepWhat;
  slices: StepSlices;
  loops: number[];
  memory: number[][];
  measured: boolean;
};

/** No time is predicted. */
export type NoStep = {
  seconds: null;
};

/** A part of a predicted time; `sends` where it is communication, whose key is its mesh axes. */
export type TimePart = {
  key: string;
  label: string;
  sends: boolean;
  seconds: number;
  text: string;
  figures: Figure[];
  recalled: boolean;
};

export type TimeTexts = {
  lower: string;
  estimate: string;
  upper: string;
  exposed: string;
};

export type TimeLimit = {
  by: string;
  text: string;
};

/** The step as published steps took: its time, between which times where several are published, and their factor. */
export type Expected = {
  text: string;
  between: string;
  said: string;
};

/** What is assumed of the run; `run` is the attention that it comes to. */
export type TimeOptions = {
  attention: string;
  prefetch: boolean;
  attentions: string[];
  run: string;
};

/** How many tokens, or else examples, a device gets through in a second, and how many a step has. */
export type Rate = {
  text: string;
  unit: string;
  step: string;
};

/** The predicted time of a step, in seconds; `schedule` is a pipeline's, empty without one. */
export type Time = {
  lower: number;
  estimate: number;
  upper: number;
  compute: number;
  exposed: number;
  texts: TimeTexts;
  parts: TimePart[];
  limit: TimeLimit;
  use: string;
  rate: Rate | null;
  expected: Expected | null;
  substituted: string;
  options: TimeOptions;
  recalled: string[];
  accuracy: Accuracy;
  schedule: string;
};

/** No time is predicted: a figure of the machine is missing, or predicting it failed. */
export type NoTime = {
  missing: string;
  options: TimeOptions;
};

/** The costs of a plan on its machine; there are none without one, and while they are worked out. */
export type Prediction = {
  time: Time | NoTime | null;
  peak_memory: PeakMemory | null;
  pending: boolean;
};

export type Costs = {
  time: Time | NoTime | null;
  peak_memory: PeakMemory | null;
  pending: boolean;
  timeline: Timeline | null;
};

/** A stretch of a lane from `begin` to `end` of the step, and the seconds in which something runs in it. */
export type Segment = {
  begin: number;
  end: number;
  seconds: number;
  kind: string;
  times: number;
  collective: string | null;
  name: string;
  dims: string[];
  source: string;
};

/** The kernels of a step, whose key is empty, or what is sent over mesh axes. */
export type Lane = {
  key: string;
  segments: Segment[];
};

/** A pass of the step, in seconds from its beginning. */
export type Phase = {
  name: string;
  begin: number;
  end: number;
};

/** A loop of the step, in seconds from its beginning. */
export type Loop = {
  begin: number;
  end: number;
  times: number;
};

/** A step over time; `memory` are points of seconds and bytes. */
export type Timeline = {
  seconds: number;
  lanes: Lane[];
  exposed: Segment[];
  phases: Phase[];
  loops: Loop[];
  memory: number[][];
};

/** What can be saved: as a figure, as a table, or both, or as code; or why there is nothing in it yet. */
export type FileOffer = {
  name: string;
  title: string;
  figure: boolean;
  table: boolean;
  code: boolean;
  why: string;
};

export type Files = {
  files: FileOffer[];
};

/** A file: its name, its content, as base64 where it is no text, and what it is, in words. */
export type SavedFile = {
  file: string;
  type: string;
  text: string;
  base64: boolean;
  said: string;
};

/** Done; a note says what else was done. */
export type Ack = {
  id: string;
  now: number;
  kind: "ack";
  rev: number;
  note?: string;
};

/** Refused; without the revision where it is the library that is not there. */
export type Nack = {
  id: string;
  now: number;
  kind: "nack";
  rev?: number;
  reason: string;
  fix: string;
  code: string;
  instead?: Instead[];
  trace?: string;
};

/** The first of the prices that were asked for: those that were ready soon. */
export type PricesAnswer = {
  id: string;
  now: number;
  kind: "prices";
  rev: number;
  prices: (Price | RefusedPrice)[];
};

export type ReadAnswer = {
  id: string;
  now: number;
  kind: "read";
  rev: number;
  data: Record<string, unknown>;
};

/** Its bytes come beside it, or as base64 where no bytes arrive. */
export type LibraryAnswer = {
  id: string;
  now: number;
  kind: "library";
  text?: string;
};

export type Answer = Ack | Nack | PricesAnswer | ReadAnswer | LibraryAnswer;

/** The parts of the board. */
export const PARTS = [
  "board",
  "presets",
  "named",
  "places",
  "picture",
  "devices",
  "selection",
  "costs",
  "history",
  "tracing",
  "advice",
  "curve",
  "look",
  "profile",
  "xla",
  "models",
  "beside",
  "comparison",
  "goal",
  "task",
  "search",
] as const;

/** The whole board: its parts together. */
export type View = LayoutPart &
  PresetsPart &
  NamedPart &
  PlacesPart &
  PicturePart &
  DevicesPart &
  SelectionPart &
  Costs &
  HistoryPart &
  TracingPart &
  AdvicePart &
  CurvePart &
  LookPart &
  ProfilePart &
  XlaPart &
  ModelsPart &
  BesidePart &
  ComparisonPart &
  GoalPart &
  TaskPart &
  SearchPart;

/** What a panel asks for, by its name. */
export type ReadData = {
  zoomed: Zoomed;
  sends: Sends;
  numbers: Numbers;
  heat: Heat | NoHeat;
  values: Values;
  looked: Looked | NotThere;
  program: ProgramData;
  inserted: ProgramData;
  matrix: Matrix;
  remedies: Remedies;
  hops: Hops | NoHops;
  alive: AliveAt | NoneAlive | Pending;
  moments: Moments | Pending;
  roofline: Roofline | NoRoofline | Pending;
  stages: Stages | NoStages | Pending;
  met: MetLayouts | Pending;
  way: Way | Pending;
  regrets: Regrets | Pending;
  forms: Forms;
  link: Link;
  step: Step | NoStep | Pending;
  files: Files;
  file: SavedFile | Pending;
  saved: SavedFile;
};
