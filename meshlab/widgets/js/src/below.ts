/**
 * A sign below a panel that scrolls: how many rows of what is cut there are, or else the next heading. It has a line of its
 * own, so that it covers nothing, which stays empty at the end. A click goes on by what is seen; by keyboard the panel
 * scrolls itself.
 */
import { h } from "./dom.ts";
import { exact } from "./format.ts";

// What is cut by less than this is seen well enough, in pixels.
const LEAST = 6;

/**
 * What is below the edge, in words.
 * @param beyond rows of the list that the edge cuts or that is next, and the first heading below the edge
 */
export function wordsOf({ rows, heading }: { rows: number; heading: string }): string {
  if (rows > 0) return `↓ ${exact(rows)} more ${rows === 1 ? "row" : "rows"}`;
  return `↓ ${heading || "more"}`;
}

function beyond(panel: Element): { rows: number; heading: string } {
  const edge = panel.getBoundingClientRect().bottom;
  const seen = (each: Element) => each.getClientRects().length > 0;
  const top = (each: Element) => each.getBoundingClientRect().top;
  const below = (each: Element) => seen(each) && top(each) > edge - LEAST;
  const [head] = [...panel.querySelectorAll("h4, summary")].filter(below);
  const rows = [...panel.querySelectorAll("tbody > tr, ul > li")].filter(below);
  // Rows of one list: of the one that the edge cuts, or that is next before a heading.
  const list = rows[0]?.parentElement;
  const first = !head || (rows[0]?.compareDocumentPosition(head) ?? 0) & Node.DOCUMENT_POSITION_FOLLOWING;
  const count = first ? rows.filter((row) => row.parentElement === list).length : 0;
  // Of a heading over columns the first; of one that says something, what stands before it does.
  const said = head?.matches(".mlb-bar-heads") ? head.firstElementChild : head;
  return { rows: count, heading: said?.textContent?.split(": ")[0].trim() ?? "" };
}

export class Below {
  panel: () => HTMLElement;
  waiting = false;
  /** Whether the panel may have another height by now, and not only be scrolled. */
  changed = true;
  element: ReturnType<typeof h>;
  changes: MutationObserver;

  /** @param panel the one that is shown */
  constructor(stage: HTMLElement, panel: () => HTMLElement) {
    this.panel = panel;
    this.element = h(
      "button",
      { type: "button", class: "mlb-below", tabindex: "-1", "aria-hidden": "true", onclick: () => this.goOn() },
      "",
    );
    this.element.hidden = true;
    stage.append(this.element);
    const later = () => {
      this.changed = true;
      this.later();
    };
    stage.addEventListener("scroll", () => this.later(), { capture: true, passive: true });
    stage.addEventListener("toggle", later, true);
    new ResizeObserver(later).observe(stage);
    this.changes = new MutationObserver((all) => {
      if (all.some(({ target }) => !this.element.contains(target))) later();
    });
    this.changes.observe(stage, { childList: true, subtree: true, attributes: true, attributeFilter: ["hidden"] });
  }

  /** Looks again before the next frame, once for all that changes until then. */
  later() {
    if (this.waiting) return;
    this.waiting = true;
    requestAnimationFrame(() => {
      this.waiting = false;
      this.paint();
    });
  }

  paint() {
    const [panel, { element }] = [this.panel(), this];
    if (this.changed) this.measure(panel);
    const rest = panel.scrollHeight - panel.clientHeight - panel.scrollTop;
    const words = element.hidden || rest <= LEAST ? "" : wordsOf(beyond(panel));
    if (element.textContent !== words) element.textContent = words;
    element.toggleAttribute("data-end", !words);
  }

  /** Gives the sign its line where the panel would scroll without; it is not hidden to see, which lays all out twice. */
  measure(panel: HTMLElement) {
    this.changed = false;
    const { element } = this;
    const line = element.hidden ? 0 : element.getBoundingClientRect().bottom - panel.getBoundingClientRect().bottom;
    const scrolls = getComputedStyle(panel).overflowY !== "hidden";
    const hidden = !scrolls || panel.scrollHeight - panel.clientHeight - line <= LEAST;
    if (element.hidden !== hidden) element.hidden = hidden;
  }

  goOn() {
    const panel = this.panel();
    panel.scrollBy({ top: 0.8 * panel.clientHeight });
  }
}
