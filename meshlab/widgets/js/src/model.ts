/** What carries the data between the page and Python: anywidget's model, answers with what came beside them, and what of it is known. */
import type { Answer, Time, View } from "./types.ts";

export type Model = {
  get(name: string): any;
  on(event: string, listener: (...args: any[]) => void): void;
  off(event: string, listener: (...args: any[]) => void): void;
  send(content: unknown): void;
  set?(name: string, value: unknown): void;
  save_changes?(): void;
  /** Told which tab is shown, where somebody asks for that. */
  shows?(view: string): void;
};

/** How a layout is called that shards nothing. */
export const EMPTY = "nothing sharded";

/** An answer of Python, with the bytes that came beside it. */
export type Heard = Answer & { buffers?: ArrayBufferView[] };

/** @returns why Python refuses, and what fits; "" where it does not, or says nothing */
export function refusalOf(answer: Heard | null): string {
  return answer?.kind === "nack" ? [answer.reason, answer.fix].filter(Boolean).join(" ") : "";
}

/** @returns the time of a step; null where none is predicted, or a figure of the machine is missing */
export function predicted(time: View["time"]): Time | null {
  return time && !("missing" in time) ? time : null;
}

/** @returns whether costs are being worked out, of the layout on the board or of the one beside it */
export function isPending({ view }: { view: View }): boolean {
  return view.pending || view.beside?.pending === true;
}
