/**
 * What each device has of a collective's pieces, before the first hop and after each: Python says who has what at first,
 * and what is sent (`views/devices/hops.py`); the rest follows. Positions go from 0, before, over the hops to one more
 * than there are hops, afterwards.
 */
import type { Hop, Hops } from "./types.ts";

/** Of a piece how many devices' addends it has, and whether it has come here from another device. */
type Piece = { addends: number; came: boolean };
/** By device and piece. */
export type State = Map<number, Map<number, Piece>>;

type Played = Pick<Hops, "devices" | "start" | "hops">;

/** @returns the hop whose transfers are shown at a position; none before, and none afterwards */
export function hopAt({ hops }: Pick<Hops, "hops">, position: number): Hop | undefined {
  return hops[position - 1];
}

/** The last position: of no hops there is one. */
export function lastOf({ hops }: Pick<Hops, "hops">): number {
  return hops.length ? hops.length + 1 : 0;
}

/** What the devices that are drawn have at a position. */
export function stateAt({ devices, start, hops }: Played, position: number): State {
  const state: State = new Map(
    devices.map((device, i) => [device, new Map(start[i].map((piece) => [piece, { addends: 1, came: false }]))]),
  );
  for (const { keeps, transfers } of hops.slice(0, position)) {
    if (!keeps) for (const [from, , piece] of transfers) state.get(from)?.delete(piece);
    for (const [from, to, piece, addends] of transfers) state.get(to)?.set(piece, { addends, came: from !== to });
  }
  return state;
}

/** What is shown at a position, in words. */
export function positionText(hops: Pick<Hops, "before" | "hops" | "after">, position: number): string {
  const hop = hopAt(hops, position);
  if (hop) return `${nameOf(hops, position)}: ${hop.text}.`;
  return `${nameOf(hops, position)}: ${position ? hops.after : hops.before}`;
}

/** A position by its name. */
export function nameOf({ hops }: Pick<Hops, "hops">, position: number): string {
  if (hopAt({ hops }, position)) return `Hop ${position} of ${hops.length}`;
  return position ? "After" : "Before";
}
