/** What is said of a step over time: of a slice, of a stretch and its sums, and of the whole. */
import type { Board } from "./board.ts";
import { h, prose } from "./dom.ts";
import { bytes, exact, flops as rate, seconds } from "./format.ts";
import { drawStepThrough } from "./hops.ts";
import { axisLabel, markClass } from "./marks.ts";
import { predicted } from "./model.ts";
import { measuredEnd, measuredText, profiledOf } from "./profile.ts";
import { drawRemedies } from "./remedies.ts";
import type { Facts, Row } from "./step_rows.ts";
import type { Sight } from "./step_sight.ts";
import { type Sums, sumsOf } from "./step_sums.ts";
import type { Collective } from "./types.ts";

/** 1.97e14 → "197 TFLOP". */
const operations = (count: number): string => rate(count).replace("/s", "");
type Words = (Node | string | null | false)[];

/** @returns what a slice is, in a line */
export function titleOf({ kind, name, dims, times }: Facts, lane: string | null, long: number): string {
  const often = times > 1 ? ` × ${exact(times)}` : "";
  const what = { loop: `${name}${often}`, repetition: `repetition ${name}`, exposed: "no kernel runs" }[kind] ?? name;
  const sends = lane ? `${kind} over ${lane}${often}: ${name}` : what;
  return `${sends}${dims ? ` [${dims}]` : ""}, ${seconds(long)}`;
}

/** @returns what stands in a slice that is wide enough */
export function nameOf({ kind, name, times, loop }: Facts): string {
  if (kind === "loop") return `${name} × ${exact(times)}`;
  if (kind === "repetition") return `repetition ${name}`;
  return loop && times > 1 ? `${name} ▸` : name;
}

/** What a slice is, and where it is written; of a collective why it is there as well. */
function sliceWords(board: Board, { row, i }: { row: Row; i: number }, sent: Collective | undefined): Words {
  const facts = row.facts(i);
  const title = h("b", {}, `${titleOf(facts, row.lane, row.seconds[i])}${measuredEnd(board, row, i)}`);
  if (sent) return collectiveWords(board, sent, title, facts.source);
  const { source, code, loop, flops, times } = facts;
  const count = flops * row.seconds[i];
  const where = source ? [h("code", {}, source)] : [];
  const line = code && code !== facts.name ? [" ", h("code", {}, code)] : [];
  const does = count ? `, ${operations(count)} at ${rate(flops)}. ` : " ";
  const stretched = times > 1 && facts.kind === "iteration" ? " Enter, or a click, draws each in its own time." : "";
  return [title, loop ? `.${stretched}` : does, ...where, ...line];
}

/** What a collective is, what it sends, why it is there and what would remove it. */
function collectiveWords(board: Board, row: Collective, title: Node, source: string): Words {
  const often = row.times > 1 ? ` × ${exact(row.times)}` : "";
  return [
    title,
    `, sends ${bytes(row.wire)}${often}. `,
    ...prose(`${row.because} `),
    row.source || source ? h("code", {}, row.source || source) : null,
    " ",
    drawStepThrough(board, row.id),
    drawRemedies(board, row),
  ];
}

/** The sums of a stretch; bytes and FLOPs where they are known. */
function sumWords({ view, reads }: Board, { from, to }: Sight, sums: Sums, isFine: boolean): Words {
  const long = sums.seconds;
  const measured = measuredText(view, { took: sums.took / long, waited: sums.waited / long }, long);
  const part = (key: string, name: Node | string, ...texts: string[]) =>
    h("span", { class: "mlb-sum", "data-sum": key }, name, ` ${texts.filter(Boolean).join(", ")}`);
  const lanes = sums.lanes.map(({ lane, seconds: long, bytes: sent }) =>
    lane === ""
      ? part("compute", "compute", seconds(long), isFine ? operations(sums.flops) : "")
      : part(lane, axisLabel(view, lane), seconds(long), isFine ? `sends ${bytes(sent)}` : ""),
  );
  const swatch = h("span", { class: "mlb-swatch mlb-gap", "aria-hidden": "true" });
  return [
    h("b", {}, `${seconds(sums.seconds)}`),
    ` from ${seconds(from)} to ${seconds(to)}: `,
    ...lanes.flatMap((each) => [each, " "]),
    part("exposed", h("span", {}, swatch, " exposed"), seconds(sums.exposed)),
    sums.waiting > 0 && part("waiting", " waiting for other stages", seconds(sums.waiting)),
    measured && part("measured", `${measured},`, "all lanes together"),
    !isFine && reads.of("step").asked && " Bytes and FLOPs are being read …",
  ];
}

/** What communication is exposed, with the signs that stand in the lanes. */
function wholeWords({ view, selection }: Board): Words {
  const known = predicted(view.time);
  if (!known) return [];
  const swatch = (kind: string) => h("span", { class: `mlb-swatch ${kind}`, "aria-hidden": "true" });
  const exposed = known.exposed
    ? [swatch("mlb-gap"), ` ${known.texts.exposed} of communication are exposed: no kernel runs meanwhile. `]
    : ["No communication is exposed. "];
  const { dim } = selection;
  const about =
    dim === null ? ["Click a segment: what it is, and why it is there."] : [swatch("mlb-related"), ` about ${dim}.`];
  return [...exposed, ...about, ...measuredWords({ view })];
}

/** How the measured lanes are read. */
function measuredWords({ view }: Pick<Board, "view">): Words {
  const profiled = profiledOf(view);
  if (!profiled) return [];
  const of = profiled.simulated ? "its share of the step is" : "it took";
  const swatch = h("span", { class: "mlb-swatch mlb-measured-waits", "aria-hidden": "true" });
  const shares = profiled.simulated ? "; simulated devices show no speed" : "";
  return [` Measured: a slice is filled to the line where ${of} as predicted; `, swatch, ` it waited${shares}.`];
}

/** What is selected of the step, in words: a stretch, a slice, or a collective; of none, what is exposed. Its lanes follow. */
export function drawDetail(board: Board): Words {
  const { timeline, panels, view } = board;
  timeline.marks = null;
  timeline.paint();
  const { range, rows } = timeline;
  const moment = timeline.momentAt();
  const sent = range ? undefined : timeline.sent(moment);
  panels.detail.className = `mlb-detail ${sent ? markClass(view, sent.key) : ""}`;
  if (!view.timeline) return [];
  if (range && rows) return sumWords(board, range, sumsOf(rows.lanes, range), timeline.isFine);
  if (moment) return sliceWords(board, moment, sent);
  const title = sent && h("b", {}, `${sent.kind} over ${sent.key}: ${sent.value}`);
  return sent && title ? collectiveWords(board, sent, title, "") : wholeWords(board);
}
