// @ts-check
/**
 * A small way to write elements: `h("button", { class: "mlb-button", onclick: undo }, "Undo")`.
 * `redraw` replaces what is in a panel and keeps the keyboard focus on the element with the same `data-key`.
 */

const SVG = "http://www.w3.org/2000/svg";

/** @typedef {Node | string | number | null | undefined | false} Child */

/**
 * @param {Element} element
 * @param {Record<string, any>} properties
 */
function assign(element, properties) {
  for (const [name, value] of Object.entries(properties)) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else element.setAttribute(name, value === true ? "" : String(value));
  }
}

/**
 * @param {Element} element
 * @param {(Child | Child[])[]} children
 */
function fill(element, children) {
  for (const child of children.flat()) {
    if (child === null || child === undefined || child === false) continue;
    element.append(child instanceof Node ? child : String(child));
  }
}

/**
 * Makes an HTML element.
 * @template {keyof HTMLElementTagNameMap} T
 * @param {T} tag
 * @param {Record<string, any>} [properties] attributes, and listeners as `onclick`
 * @param {...(Child | Child[])} children
 * @returns {HTMLElementTagNameMap[T]}
 */
export function h(tag, properties = {}, ...children) {
  const element = document.createElement(tag);
  assign(element, properties);
  fill(element, children);
  return element;
}

/**
 * Makes an SVG element.
 * @param {string} tag
 * @param {Record<string, any>} [properties]
 * @param {...(Child | Child[])} children
 * @returns {SVGElement}
 */
export function s(tag, properties = {}, ...children) {
  const element = document.createElementNS(SVG, tag);
  assign(element, properties);
  fill(element, children);
  return element;
}

/**
 * Text in which `names` in backquotes are set as code.
 * @param {string} text
 * @returns {(Node | string)[]}
 */
export function prose(text) {
  return text.split("`").map((part, i) => (i % 2 ? h("code", {}, part) : part));
}

/**
 * Replaces what is in a panel; focus and scroll positions stay where they were.
 * @param {Element} panel
 * @param {...(Child | Child[])} children
 */
export function redraw(panel, ...children) {
  const root = /** @type {Document | ShadowRoot} */ (panel.getRootNode());
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
  const again = /** @type {HTMLElement | null} */ (panel.querySelector(`[data-key="${CSS.escape(focused)}"]`));
  again?.focus({ preventScroll: true });
}
