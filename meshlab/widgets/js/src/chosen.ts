/** What was chosen on the page alone, for one view of it: how a table is sorted, which moment is looked at. */

import { type LookChosen, noLook } from "./look.ts";

/** How a table is sorted, filtered and cut. */
export type Order = { by: string; down: boolean; filter: string; all: boolean };
/**
 * How the layouts that were tried are sorted and filtered: by number where `by` is "", the latest first; which is edited,
 * with what is typed; and why a file was not opened.
 */
export type CardsChosen = {
  by: string;
  down: boolean;
  filter: string;
  draft: { key: string; label: string; note: string } | null;
  refused: string;
};
/** `instant` is the step whose memory is listed, null the peak; `reason` is what Compare shows of a search, and `met` the layout that is looked at of those that it has met; `hop` is which moment is shown of which collective, the timer of one that is played, and whether somebody is on the way there; `cell` is the one of the matrix that keys have reached; `schedule` is which cell of which stage is looked at, -1 for none, and whether stages run by themselves; `profiled` is what was last said of measuring. */
type Chosen = {
  order: Order;
  instant: number | null;
  reason: "layouts" | "way" | "regrets";
  met: string | null;
  hop: { of: string | null; at: number; timer: number; wanted: boolean };
  cell: number;
  schedule: { stage: number; at: number; free: boolean };
  cards: CardsChosen;
  look: LookChosen;
  profiled: string;
};

export function nothingChosen(): Chosen {
  return {
    order: { by: "total", down: true, filter: "", all: false },
    instant: null,
    reason: "layouts",
    met: null,
    hop: { of: null, at: 0, timer: 0, wanted: false },
    cell: 0,
    schedule: { stage: 0, at: -1, free: false },
    cards: { by: "", down: true, filter: "", draft: null, refused: "" },
    look: noLook(),
    profiled: "",
  };
}
