/** The status line, which screen readers read out. */
import { h, prose, redraw } from "./dom.ts";
import { EMPTY } from "./model.ts";
import { missedText } from "./sentences.ts";
import type { View } from "./types.ts";

// A layout that is longer than this, in characters, is shortened there.
const LONG = 56;

/**
 * Says something.
 * @param more what stands behind it, such as a button
 */
export function speak(line: HTMLElement, text: string, mood: "plain" | "done" | "refused", more: (Node | string)[]) {
  line.setAttribute("data-mood", mood);
  // What is there already is not read out again.
  const same = line.textContent === text.replaceAll("`", "");
  if (!same || more.length) redraw(line, prose(text), more);
  // A sentence that is longer than its place is scrolled, by keyboard too; asked in the frame, it lays out nothing anew.
  requestAnimationFrame(() => {
    if (line.scrollHeight > line.clientHeight) line.setAttribute("tabindex", "0");
    else line.removeAttribute("tabindex");
  });
}

/** What stands behind the totals: the layout by its name, or of a long one without its middle, which its hint has; and a goal that is missed. */
export function drawSaid(view: View): (Node | string)[] {
  if (view.pending) return [];
  const { text } = view.layout;
  const whole = { type: "button", class: "mlb-term", "data-hint": text };
  if (view.named) return [h("button", whole, h("b", {}, view.named.text)), missedText(view)];
  const code = h("code", {}, shortened(text || EMPTY));
  return [text.length <= LONG ? code : h("button", whole, code), missedText(view)];
}

/** "batch:data params/*: … vocab:model", cut between rules where it can be. */
export function shortened(text: string, most: number = LONG): string {
  if (text.length <= most) return text;
  const half = (most - 3) / 2;
  const head = text.slice(0, Math.ceil(half)).replace(/\s+\S*$/, "");
  const tail = text.slice(-Math.floor(half)).replace(/^\S*\s+/, "");
  return `${head} … ${tail}`;
}
