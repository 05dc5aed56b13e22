/**
 * The strip of a goal: each condition with a tick and what is found now. While a chip is held over a zone whose price is
 * known, it says of each condition on a price what the drop would make of it.
 */

import type { Board } from "./board.ts";
import { h, prose, redraw } from "./dom.ts";
import { bytes, percent, seconds } from "./format.ts";
import type { Priced } from "./prices.ts";
import type { Condition, View } from "./types.ts";

const MARKS: Record<Condition["state"], string> = { met: "✓", missed: "✗", pending: "…" };
const WRITTEN: Record<NonNullable<Condition["price"]>, (value: number) => string> = {
  bytes,
  seconds,
  peak: bytes,
  work: (share) => `${percent(share)} each`,
};

/**
 * What a drop would make of a condition.
 * @returns null where its price does not tell, and where it changes nothing
 */
export function after(condition: Condition, price?: Priced): { state: Condition["state"]; value: string } | null {
  const found = condition.price && price && !price.refused ? price[condition.price] : null;
  if (condition.price === null || found === null) return null;
  const state = found <= condition.most ? "met" : "missed";
  const value = WRITTEN[condition.price](found);
  return state === condition.state && condition.value.startsWith(value) ? null : { state, value };
}

/** What the status line says of the goal; "" without one, and while it is not known. */
export function goalText({ goal }: Pick<View, "goal">): string {
  return goal && !goal.pending ? `${goal.heading[0].toUpperCase()}${goal.heading.slice(1)}.` : "";
}

function mark(state: Condition["state"]): HTMLElement {
  return h("span", { class: "mlb-goal-mark", "data-state": state, role: "img", "aria-label": state }, MARKS[state]);
}

/** The value, and over it what a drop would make of it: nothing else in the strip moves while a chip is held. */
function drawValue({ value, price }: Condition, then: ReturnType<typeof after>): HTMLElement {
  const now = h("span", { class: then ? "mlb-goal-before" : "" }, prose(value));
  const later = then && h("span", { class: "mlb-after" }, "→ ", mark(then.state), ` ${then.value}`);
  return h("span", { class: "mlb-goal-value", "data-priced": price }, now, later);
}

function drawCondition(condition: Condition, drop?: Priced): HTMLElement {
  const { text, state, value, because, price } = condition;
  const then = after(condition, drop);
  const asked = prose(text);
  return h(
    "li",
    { "data-state": state },
    mark(state),
    because ? h("button", { type: "button", class: "mlb-term", "data-hint": because }, ...asked) : h("span", {}, asked),
    (value || price) && drawValue(condition, then),
  );
}

/**
 * Draws the strip anew, where anything in it is another.
 * @param price of the drop that is aimed at
 */
export function paintGoal({ root, panels, view }: Board, price?: Priced) {
  const { goal } = view;
  const panel = panels.goal;
  root.toggleAttribute("data-quiet", goal?.quiet ?? false);
  panel.hidden = goal === null;
  panel.toggleAttribute("data-met", goal?.met ?? false);
  const said = JSON.stringify([goal, goal?.conditions.map((each) => after(each, price))]);
  if (panel.dataset.said === said) return;
  panel.dataset.said = said;
  const count = goal?.conditions.filter(({ state }) => state === "met").length;
  const head = goal?.met ? "Goal met" : `Goal ${count} of ${goal?.conditions.length}`;
  redraw(
    panel,
    goal && h("strong", { class: "mlb-goal-head" }, head),
    goal &&
      h(
        "ul",
        { "aria-label": goal.heading },
        goal.conditions.map((each) => drawCondition(each, price)),
      ),
  );
}
