/**
 * A sentence beside what it explains: whatever has `data-hint` shows it while the pointer is over it, while the keyboard
 * is on it, and when it is tapped. Escape hides it.
 */
import { h, prose } from "./dom.ts";
import { nextNumber } from "./numbers.ts";

const GAP = 4;

export class Hint {
  element: HTMLElementTagNameMap["div"];
  of: HTMLElement | null = null;
  said = "";

  constructor(root: HTMLElement) {
    const id = `mlb-hint-${nextNumber("hints")}`;
    this.element = h("div", { class: "mlb-hint", role: "tooltip", popover: "manual", id });
    root.append(this.element);
    for (const event of ["pointerover", "focusin", "click"]) root.addEventListener(event, (each) => this.follow(each));
    for (const event of ["pointerleave", "focusout"]) root.addEventListener(event, () => this.check());
  }

  follow(event: Event) {
    const target = (event.target as Element).closest("[data-hint]") as HTMLElement | null;
    if (target && event.type !== "focusin") this.show(target);
    else if (target?.matches(":focus-visible")) this.focused(target);
    else if (event.type === "click") this.hide();
    else this.check();
  }

  /** The keyboard is on something: a frame later, since a popover that closes gives it back, and none opens meanwhile. */
  focused(target: HTMLElement) {
    requestAnimationFrame(() => {
      if (target.matches("[data-hint]:focus-visible")) this.show(target);
    });
  }

  show(target: HTMLElement) {
    // What it explains has opened a popover, which it would lie on.
    if (this.of === target || target.hasAttribute("data-opened")) return;
    this.hide();
    this.of = target;
    target.setAttribute("aria-describedby", this.element.id);
    this.said = target.dataset.hint ?? "";
    this.element.replaceChildren(...prose(this.said));
    this.element.showPopover();
    const [from, box] = [target.getBoundingClientRect(), this.element.getBoundingClientRect()];
    const below = from.bottom + GAP;
    const top = below + box.height > window.innerHeight ? from.top - GAP - box.height : below;
    this.element.style.left = `${Math.max(GAP, Math.min(from.left, window.innerWidth - box.width - GAP))}px`;
    this.element.style.top = `${Math.max(GAP, top)}px`;
  }

  /** @returns whether it was shown */
  hide(): boolean {
    if (!this.of) return false;
    this.of.removeAttribute("aria-describedby");
    this.of = null;
    this.element.hidePopover();
    return true;
  }

  /** Hides it where neither the pointer nor the keyboard is on what it explains; that may say something else by now. */
  check() {
    const { of } = this;
    if (of?.dataset.hint === this.said && of.matches(":hover, :focus-visible")) return;
    this.hide();
    if (of?.matches("[data-hint]:is(:hover, :focus-visible)")) this.show(of);
  }
}

/** The badge of a figure's source: one word, and the source itself in its hint. */
export function badge(kind: "measured" | "estimated" | "data sheet" | "recalled", source: string): HTMLElement {
  return h("button", { type: "button", class: "mlb-badge", "data-kind": kind, "data-hint": source }, kind);
}
