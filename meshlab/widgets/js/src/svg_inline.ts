/** A drawing of the page that is SVG already: copied, with the styles that it has from sheets written into it. */

import type { Sheet } from "./svg_page.ts";
import { painted, paintOf, round, scaledPath } from "./svg_paint.ts";
import { weightOf } from "./svg_text.ts";

// What is written out, and what need not be said.
const STYLES = {
  "stroke-width": ["1px", "1"],
  "stroke-dasharray": ["none"],
  "stroke-linecap": ["butt"],
  "stroke-linejoin": ["miter"],
  opacity: ["1"],
  visibility: ["visible"],
  "font-family": [],
  "font-size": [],
  "font-weight": ["400"],
  "font-style": ["normal"],
  "text-anchor": ["start"],
  "dominant-baseline": ["auto"],
  "paint-order": ["normal"],
  "clip-path": ["none"],
  mask: ["none"],
  "marker-start": ["none"],
  "marker-end": ["none"],
} as Record<string, string[]>;
const TEXTS = ["font-family", "font-size", "font-weight", "font-style", "text-anchor", "dominant-baseline"];
const REFERENCE = /url\(["']?#([^"')]+)["']?\)/g;

export function inlineSvg(sheet: Sheet, svg: SVGSVGElement): string {
  if (getComputedStyle(svg).visibility === "hidden") return "";
  const copy = written(svg);
  const { x, y, w, h } = sheet.box(svg.getBoundingClientRect());
  for (const [name, value] of Object.entries({ x, y, width: w, height: h })) copy.setAttribute(name, value.toFixed(2));
  copy.setAttribute("overflow", getComputedStyle(svg).overflow === "visible" ? "visible" : "hidden");
  const text = new XMLSerializer().serializeToString(copy);
  const root = svg.getRootNode() as Document | ShadowRoot;
  for (const [, id] of text.matchAll(REFERENCE)) {
    const kept =
      svg.querySelector(`[id="${CSS.escape(id)}"]`) || sheet.defs.some((each) => each.includes(`id="${id}"`));
    const other = kept ? null : root.querySelector(`[id="${CSS.escape(id)}"]`);
    if (other instanceof SVGElement) sheet.defs.push(new XMLSerializer().serializeToString(written(other)));
  }
  return text;
}

/** @returns a copy that needs no style sheet */
function written(element: SVGElement): SVGElement {
  const copy = element.cloneNode(true) as SVGElement;
  const from = [element, ...element.querySelectorAll("*")];
  const to = [copy, ...copy.querySelectorAll("*")];
  from.forEach((each, i) => {
    writeStyles(each, to[i]);
  });
  for (const each of to) if (each.tagName === "foreignObject" || each.hasAttribute("data-left-out")) each.remove();
  return copy;
}

function writeStyles(from: Element, to: Element) {
  const style = getComputedStyle(from);
  for (const { name } of [...to.attributes])
    if (/^(class|style|on|data-|aria-|role|tabindex)/.test(name)) to.removeAttribute(name);
  if (style.display === "none") to.setAttribute("data-left-out", "");
  if (from instanceof SVGStopElement) {
    const paint = paintOf(style.stopColor);
    to.setAttribute("stop-color", paint?.hex ?? "#000000");
    to.setAttribute("stop-opacity", String((paint?.alpha ?? 0) * Number(style.stopOpacity || 1)));
  }
  if (!(from instanceof SVGGraphicsElement) || from instanceof SVGSVGElement) return;
  const isText = from instanceof SVGTextContentElement;
  for (const [name, usual] of Object.entries(STYLES)) {
    const value = style.getPropertyValue(name);
    if (usual.includes(value) || !value || (TEXTS.includes(name) && !isText)) to.removeAttribute(name);
    else to.setAttribute(name, name === "font-weight" ? weightOf(value) : value);
  }
  for (const what of ["fill", "stroke"] as const) {
    const value = style.getPropertyValue(what);
    to.removeAttribute(`${what}-opacity`);
    if (value.startsWith("url(")) {
      to.setAttribute(what, value);
      continue;
    }
    const paint = paintOf(value);
    const share = Number(style.getPropertyValue(`${what}-opacity`) || 1);
    const attributes = painted(what, paint && { hex: paint.hex, alpha: paint.alpha * share });
    for (const [name, each] of Object.entries(attributes)) if (each !== null) to.setAttribute(name, String(each));
  }
  if (from instanceof SVGGeometryElement && style.getPropertyValue("vector-effect") === "non-scaling-stroke") {
    unscale(from, to, style);
  }
}

/**
 * Draws a line that keeps its width however its drawing is stretched, in words that all programs know: as long as it is
 * on the page, and then made smaller.
 */
function unscale(from: SVGGeometryElement, to: Element, style: CSSStyleDeclaration) {
  const matrix = from.getScreenCTM();
  if (!matrix) return;
  const [sx, sy] = [Math.hypot(matrix.a, matrix.b), Math.hypot(matrix.c, matrix.d)];
  to.removeAttribute("vector-effect");
  if (Math.abs(sx - sy) < 0.01 * sx || from.hasAttribute("transform")) {
    const narrower = (text: string) => text.replace(/[\d.]+/g, (n) => `${round(Number(n) / Math.sqrt(sx * sy))}`);
    for (const name of ["stroke-width", "stroke-dasharray"]) {
      const value = style.getPropertyValue(name);
      if (value !== "none") to.setAttribute(name, narrower(value).replaceAll("px", ""));
    }
    return;
  }
  for (const [names, by] of [
    [["x", "x1", "x2", "width", "rx"], sx],
    [["y", "y1", "y2", "height", "ry"], sy],
  ] as [string[], number][]) {
    for (const name of names) {
      if (to.hasAttribute(name)) to.setAttribute(name, String(round(Number(to.getAttribute(name)) * by)));
    }
  }
  for (const name of ["d", "points"]) {
    const value = to.getAttribute(name);
    if (value)
      to.setAttribute(name, name === "d" ? scaledPath(value, sx, sy) : scaledPath(`M${value}`, sx, sy).slice(1));
  }
  to.setAttribute("transform", `scale(${1 / sx} ${1 / sy})`);
}
