/**
 * Addresses of views on a board without Python: what stands behind the `#` of its link, which follows what is shown, and
 * opens it again. They are written and read as in Python (meshlab/widgets/documents/address.py, views/address.py).
 */
import type { Replay } from "./replay.ts";
import type { Collective } from "./types.ts";

const KEYS = ["layout", "baseline", "tensor", "dim", "device", "collective"];
const BETWEEN = " · ";

type Said = Record<string, string>;

/** The address of a tab as it is. */
export function addressOf(replay: Replay, view: string): string {
  const { selection, tried, root, now } = replay;
  const said: Said = { layout: replay.layoutText(now) };
  if (tried.baseline !== root.start) said.baseline = replay.layoutText(tried.baseline);
  const { place, dim, device, collective } = selection;
  const brought = collective === null ? null : replay.moved(now)[collective];
  if (view === "devices" && place !== null && place !== brought) said.tensor = place;
  if (dim !== null) said.dim = dim;
  if (device !== null) said.device = String(device);
  if (collective !== null) said.collective = namesOf(replay.rows(now)).get(collective) ?? collective;
  return `${view}?${Object.entries(said)
    .map(([key, value]) => `${key}=${value.replace(/[%&#]/g, encodeURIComponent)}`)
    .join("&")}`;
}

/**
 * Goes to an address, whole or not at all.
 * @returns what is wrong with it; "" where nothing is
 */
export function goTo(replay: Replay, address: string): string {
  const { view, said, problems } = read(address);
  const views: string[] = replay.views;
  if (view && !views.includes(view)) problems.push(`There is no view “${view}”. There are ${views.join(", ")}.`);
  const [layout, baseline] = ["layout", "baseline"].map((key) => {
    const state = key in said ? stateOf(replay, said[key]) : null;
    if (state === undefined) problems.push(`The ${key} “${said[key]}” is not recorded in this file.`);
    return state ?? null;
  });
  const asked = selectionOf(replay, layout ?? replay.now, said);
  problems.push(...replay.unknown(asked, layout ?? replay.now));
  if (problems.length) return `The link cannot be opened. ${problems.join(" ")}`;
  if (layout !== null) replay.intent("load", { layout: replay.layoutOf(layout) });
  if (baseline !== null) replay.compareWith(baseline);
  replay.select(asked);
  if (view) replay.turnTo(view);
  return "";
}

function read(address: string): { view: string; said: Said; problems: string[] } {
  const [view, ...rest] = address.slice(address.lastIndexOf("#") + 1).split("?");
  const said: Said = {};
  const problems: string[] = [];
  for (const pair of rest.join("?").split("&").filter(Boolean)) {
    const [key, ...value] = pair.split("=");
    if (!KEYS.includes(key) || key in said || !value.length)
      problems.push(`“${pair}” is invalid: write KEY=VALUE, with each of ${KEYS.join(", ")} at most once.`);
    else said[key] = unescaped(value.join("="));
  }
  return { view: unescaped(view), said, problems };
}

function unescaped(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text; // a lone %, which is no letter
  }
}

/** The state of a layout by its text, whatever the order of its dims; or by its JSON. */
function stateOf(replay: Replay, text: string): number | undefined {
  if (text.startsWith("{")) {
    try {
      return replay.laidOut(JSON.parse(text));
    } catch {
      return undefined;
    }
  }
  const wanted = inOrder(text);
  const state = replay.states.findIndex((_, number) => inOrder(replay.layoutText(number)) === wanted);
  return state < 0 ? undefined : state;
}

function inOrder(layout: string): string {
  const words = (part: string) => part.split(/[\s,;]+/).filter(Boolean);
  return layout
    .split(BETWEEN)
    .map((part) => {
      const [at, rules] = part.includes(": ") ? part.split(/: (.*)/) : ["", part];
      return `${at}: ${words(rules).sort().join(" ")}`;
    })
    .join(BETWEEN);
}

function selectionOf(replay: Replay, state: number, { tensor, dim, device, collective }: Said): Record<string, any> {
  const names = namesOf(replay.rows(state));
  const named = [...names].find(([, name]) => name === collective)?.[0] ?? collective;
  return {
    ...(tensor === undefined ? {} : { place: tensor }),
    dim: dim ?? null,
    // What is no number stays as it is, to be named where it is refused.
    device: device === undefined ? null : /^\d+$/.test(device) ? Number(device) : device,
    collective: named ?? null,
    moment: null,
  };
}

/** The names of collectives by their identities; alike ones have numbers. */
function namesOf(rows: Collective[]): Map<string, string> {
  const seen = new Map<string, number>();
  return new Map(
    rows.map((row) => {
      const name = `${row.kind} over ${row.key} of ${row.value}`;
      const count = (seen.get(name) ?? 0) + 1;
      seen.set(name, count);
      return [row.id, count > 1 ? `${name} (${count})` : name];
    }),
  );
}

/** Lets the link of a page follow a board, and the board a link that is opened; says on the board what cannot be. */
export function follow(replay: Replay, page: Window) {
  const open = () => {
    const wrong = page.location.hash.length > 1 ? goTo(replay, page.location.hash) : "";
    if (wrong) replay.share({ notice: { reason: wrong } });
  };
  open();
  page.addEventListener("hashchange", open);
  replay.onMove = () => {
    try {
      page.history.replaceState(null, "", `#${addressOf(replay, replay.tab)}`);
    } catch {
      // A frame without an address of its own has no link; nor is one renewed many times a second.
    }
  };
}
