/**
 * Parts of a panel that follow an answer of Python's: when it comes, they alone are drawn again, and what stands around
 * them stays. A step's lanes are laid out for as long as it takes to draw the roofline below them.
 */
import { h, redraw } from "./dom.ts";
import { drawnWith } from "./reconcile.ts";
import { explained, termsOf } from "./terms.ts";

type Draw = () => (Node | null | false)[];

/**
 * A part of a panel.
 * @param what the answer that it follows, as `views/reads.READS` has it
 * @param draw what stands in it
 */
export function spot(what: string, draw: Draw): HTMLElement {
  return h("div", { key: what, class: "mlb-spot", "data-read": what, draw }, draw());
}

/**
 * Draws again the parts of a panel that follow an answer.
 * @param what the answer
 * @returns whether there are such parts
 */
export function drawSpots(panel: Element, what: string): boolean {
  const spots = [...panel.querySelectorAll(`[data-read="${what}"]`)];
  for (const each of spots) {
    const around = each.closest(".mlb-body, .mlb-detail") ?? panel;
    redraw(each, explained([(drawnWith(each).draw as Draw)()], termsOf(around, each)));
  }
  return spots.length > 0;
}
