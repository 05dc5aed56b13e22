/**
 * A small way to write elements: `h("button", { class: "mlb-button", onclick: undo }, "Undo")`. `redraw` makes a panel
 * what was drawn last: elements that are drawn again stay (`reconcile.ts`), and with them what the browser knows of them.
 * So what a listener reads of its element it reads of `event.currentTarget`, never of the element that `h` returned.
 */
import { giveBack, listen, note, reconcile, standIn, write } from "./reconcile.ts";

const SVG = "http://www.w3.org/2000/svg";

export type Child = Node | string | number | null | undefined | false;
type Listeners<E extends Element> = {
  [K in keyof HTMLElementEventMap as `on${K}`]?: (event: HTMLElementEventMap[K] & { currentTarget: E }) => unknown;
};
/**
 * Attributes, and listeners as `onclick`. `key` tells an element from those beside it, where they are a list that changes.
 * What is `lasting` is made once: drawn again, it stays where it is, and its maker looks after what is in it.
 */
export type Properties<E extends Element = HTMLElement> = Listeners<E> & {
  key?: string | number;
  lasting?: boolean;
  [attribute: string]: unknown;
};

function make<E extends Element>(element: E, properties: Properties<E>, children: (Child | Child[])[]): E {
  for (const name in properties)
    if (name.startsWith("on")) listen(element, name.slice(2));
    else write(element, name, properties[name]);
  note(element, properties);
  fill(element, children);
  return element;
}

/** Appends children. Each is known by its place among the arguments, so that one that is left out moves no other. */
function fill(parent: ParentNode, children: (Child | Child[])[]) {
  for (const [place, child] of children.entries())
    if (Array.isArray(child)) for (const [i, each] of child.entries()) append(parent, each, `${place}.${i}`);
    else append(parent, child, `${place}`);
}

function append(parent: ParentNode, child: Child, place: string) {
  if (child === null || child === undefined || child === false || child === "") return;
  parent.append(child instanceof Node ? standIn(child, place) : String(child));
}

/** Makes an HTML element. */
export function h<T extends keyof HTMLElementTagNameMap>(
  tag: T,
  properties: Properties<HTMLElementTagNameMap[T]> = {},
  ...children: (Child | Child[])[]
): HTMLElementTagNameMap[T] {
  return make(document.createElement(tag), properties, children);
}

/** Makes an SVG element. */
export function s(tag: string, properties: Properties<SVGElement> = {}, ...children: (Child | Child[])[]): SVGElement {
  return make(document.createElementNS(SVG, tag) as SVGElement, properties, children);
}

/** Text in which `names` in backquotes are set as code. */
export function prose(text: string): (Node | string)[] {
  return text.split("`").map((part, i) => (i % 2 ? h("code", {}, part) : part));
}

/**
 * Makes a panel what is drawn. What has the keyboard focus keeps it; where that is gone or disabled, what is around it
 * gets it, so that keys still reach the board.
 */
export function redraw(panel: Element, ...children: (Child | Child[])[]) {
  const root = panel.getRootNode() as Document | ShadowRoot;
  const focused = panel.contains(root.activeElement) ? (root.activeElement as HTMLElement) : null;
  const drawn = document.createDocumentFragment();
  fill(drawn, children);
  reconcile(panel, drawn, focused);
  giveBack(panel);
  const stays = focused?.isConnected && !focused.matches(":disabled");
  const heir = stays ? focused : (panel.closest("[tabindex]") as HTMLElement | null);
  if (focused && root.activeElement !== heir) heir?.focus({ preventScroll: true });
}
