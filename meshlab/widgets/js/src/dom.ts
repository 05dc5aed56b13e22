/**
 * A small way to write elements: `h("button", { class: "mlb-button", onclick: undo }, "Undo")`.
 * `redraw` replaces what is in a panel and keeps the keyboard focus on the element with the same `data-key`.
 */

const SVG = "http://www.w3.org/2000/svg";

export type Child = Node | string | number | null | undefined | false;

function assign(element: Element, properties: Record<string, any>) {
  for (const [name, value] of Object.entries(properties)) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else element.setAttribute(name, value === true ? "" : String(value));
  }
}

function fill(element: Element, children: (Child | Child[])[]) {
  for (const child of children.flat()) {
    if (child === null || child === undefined || child === false) continue;
    element.append(child instanceof Node ? child : String(child));
  }
}

/**
 * Makes an HTML element.
 * @param properties attributes, and listeners as `onclick`
 */
export function h<T extends keyof HTMLElementTagNameMap>(
  tag: T,
  properties: Record<string, any> = {},
  ...children: (Child | Child[])[]
): HTMLElementTagNameMap[T] {
  const element = document.createElement(tag);
  assign(element, properties);
  fill(element, children);
  return element;
}

/** Makes an SVG element. */
export function s(tag: string, properties: Record<string, any> = {}, ...children: (Child | Child[])[]): SVGElement {
  const element = document.createElementNS(SVG, tag);
  assign(element, properties);
  fill(element, children);
  return element;
}

/** Text in which `names` in backquotes are set as code. */
export function prose(text: string): (Node | string)[] {
  return text.split("`").map((part, i) => (i % 2 ? h("code", {}, part) : part));
}

/** Replaces what is in a panel; focus and scroll positions stay where they were. */
export function redraw(panel: Element, ...children: (Child | Child[])[]) {
  const root = panel.getRootNode() as Document | ShadowRoot;
  const focused = panel.contains(root.activeElement) ? root.activeElement?.getAttribute("data-key") : null;
  const scrolled = [...panel.querySelectorAll("[data-scroll]")].map((e) => [
    e.getAttribute("data-scroll"),
    e.scrollTop,
  ]);
  panel.replaceChildren();
  fill(panel, children);
  for (const [key, top] of scrolled) {
    const again = panel.querySelector(`[data-scroll="${key}"]`);
    if (again) again.scrollTop = Number(top);
  }
  if (!focused) return;
  const again = panel.querySelector(`[data-key="${CSS.escape(focused)}"]`) as HTMLElement | null;
  again?.focus({ preventScroll: true });
}
