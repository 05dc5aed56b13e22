/**
 * The place of the keyboard while Python is silent. What is frozen cannot have the focus: the browser would give it to the
 * page, where keys are the notebook's. What is around it has it meanwhile, and it goes back when Python is heard again,
 * unless the reader has gone elsewhere.
 *
 *     the size of a popover is frozen → the popover has the focus → Python answers → the size has it, with what was typed
 */

export class Focus {
  root: HTMLElement;
  /** What is frozen and is to have the focus, and what has it meanwhile. */
  left: HTMLElement | null = null;
  heir: HTMLElement | null = null;

  constructor(root: HTMLElement) {
    this.root = root;
  }

  get focused(): HTMLElement | null {
    return (this.root.getRootNode() as Document | ShadowRoot).activeElement as HTMLElement | null;
  }

  /** Gives the focus to an element; where it is frozen, to what is around it until it is no longer. */
  give(element: HTMLElement) {
    const around = isFrozen(element) ? (element.parentElement?.closest<HTMLElement>("[tabindex]") ?? this.root) : null;
    this.left = around && element;
    this.heir = around;
    (around ?? element).focus({ preventScroll: around !== null });
  }

  /** Takes the focus from what was frozen under it. */
  leave() {
    const { focused } = this;
    if (focused && this.root.contains(focused) && isFrozen(focused)) this.give(focused);
  }

  /** Gives the focus back to another element, where what would get it is in what was closed. */
  pass(closed: HTMLElement, other: HTMLElement) {
    if (this.left && closed.contains(this.left)) this.left = other;
  }

  /** Gives the focus back to what had it, where nobody has moved it; whoever pressed "Try again" has not gone elsewhere. */
  comeBack() {
    const { left, heir, focused } = this;
    this.left = null;
    this.heir = null;
    const stayed = !focused || [document.body, heir, this.root].includes(focused);
    if (left?.isConnected && stayed && !isFrozen(left)) left.focus({ preventScroll: true });
  }
}

const isFrozen = (element: Element): boolean => element.matches("[inert], [inert] *, :disabled");
