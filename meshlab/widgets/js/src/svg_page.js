// @ts-check
/**
 * What is drawn on the page as one SVG document: boxes, borders and hatching, texts where they stand, inline drawings
 * with their styles written out. No foreignObject: other programs draw none. Of what scrolls all is drawn.
 */
import { drawBox, radiiOf } from "./svg_box.js";
import { drawControl, drawPseudo, drawTriangle } from "./svg_controls.js";
import { inlineSvg } from "./svg_inline.js";
import { boxPath, escaped, painted, paintOf, tag } from "./svg_paint.js";
import { drawTextNode } from "./svg_text.js";

/** @typedef {import("./svg_paint.js").Box} Box */

// Buttons that zoom a chart are no part of its picture.
const UNDRAWN = "script, style, option, .mlb-plot-tools, [popover]:not(:popover-open)";

/** What is drawn so far, and where its upper left corner is on the screen. */
export class Sheet {
  /**
   * @param {number} left
   * @param {number} top
   */
  constructor(left, top) {
    this.left = left;
    this.top = top;
    /** @type {string[]} */
    this.out = [];
    /** @type {string[]} */
    this.defs = [];
    this.count = 0;
  }

  /** @returns {string} an id that nothing else has */
  id() {
    this.count += 1;
    return `out-${this.count}`;
  }

  /**
   * @param {{left: number, top: number, width: number, height: number}} rect on the screen
   * @returns {Box} on the sheet
   */
  box({ left, top, width, height }) {
    return { x: left - this.left, y: top - this.top, w: width, h: height };
  }

  /** @param {string} shape */
  add(shape) {
    if (shape) this.out.push(shape);
  }
}

/**
 * @param {Element} panel
 * @param {string} title
 * @returns {{svg: string, width: number, height: number}} in CSS pixels
 */
export function pictureOf(panel, title) {
  const rect = panel.getBoundingClientRect();
  const style = getComputedStyle(panel);
  const borders = ["Left", "Right", "Top", "Bottom"].map((side) =>
    Number.parseFloat(Reflect.get(style, `border${side}Width`)),
  );
  const width = panel.scrollWidth + borders[0] + borders[1];
  const height = panel.scrollHeight + borders[2] + borders[3];
  const sheet = new Sheet(rect.left - panel.scrollLeft, rect.top - panel.scrollTop);
  const ground = tag("rect", { width, height, ...painted("fill", groundOf(panel.parentElement)) });
  drawBox(sheet, { x: 0, y: 0, w: width, h: height }, style);
  for (const child of panel.childNodes) draw(sheet, child);
  const defs = sheet.defs.length ? `<defs>${sheet.defs.join("")}</defs>` : "";
  const inside = `<title>${escaped(title)}</title>${defs}${ground}${sheet.out.join("\n")}`;
  const svg = tag(
    "svg",
    {
      xmlns: "http://www.w3.org/2000/svg",
      "xmlns:xlink": "http://www.w3.org/1999/xlink",
      width,
      height,
      viewBox: `0 0 ${width} ${height}`,
    },
    inside,
  );
  return { svg: `<?xml version="1.0" encoding="UTF-8"?>\n${svg}\n`, width, height };
}

/**
 * @param {Element | null} element
 * @returns {import("./svg_paint.js").Paint | null} the colour that it stands on
 */
function groundOf(element) {
  for (let each = element; each; each = each.parentElement) {
    const paint = paintOf(getComputedStyle(each).backgroundColor);
    if (paint && paint.alpha === 1) return paint;
  }
  return { hex: "#ffffff", alpha: 1 };
}

/**
 * @param {Sheet} sheet
 * @param {Node} node
 */
function draw(sheet, node) {
  if (node instanceof Text) drawTextNode(sheet, node);
  if (!(node instanceof Element) || node.matches(UNDRAWN)) return;
  const style = getComputedStyle(node);
  if (style.display === "none" || Number(style.opacity) === 0 || isUnseen(node, style)) return;
  const opacity = Number(style.opacity);
  const before = sheet.out.length;
  if (node instanceof SVGSVGElement) sheet.add(inlineSvg(sheet, node));
  else drawElement(sheet, /** @type {HTMLElement} */ (node), style);
  const drawn = sheet.out.splice(before).join("");
  const clip =
    drawn && !(node instanceof SVGSVGElement) ? clipOf(sheet, /** @type {HTMLElement} */ (node), style) : null;
  if (drawn && (opacity < 1 || clip))
    sheet.add(tag("g", { opacity: opacity < 1 ? opacity : null, "clip-path": clip }, drawn));
  else sheet.add(drawn);
}

/**
 * @param {Sheet} sheet
 * @param {HTMLElement} element
 * @param {CSSStyleDeclaration} style
 */
function drawElement(sheet, element, style) {
  const seen = style.visibility === "visible";
  // An element in a line may have several boxes, one in each line.
  if (seen && style.display !== "contents")
    for (const rect of element.getClientRects()) drawBox(sheet, sheet.box(rect), style);
  if (seen) drawPseudo(sheet, element, "::before");
  if (seen && element.matches("summary")) drawTriangle(sheet, element, style);
  if (element instanceof HTMLCanvasElement) drawCanvas(sheet, element);
  else if (drawControl(sheet, element, style)) return;
  else for (const child of element.childNodes) if (isOpen(element, child)) draw(sheet, child);
  if (seen) drawPseudo(sheet, element, "::after");
}

/**
 * @param {HTMLElement} element
 * @param {Node} child
 * @returns {boolean} false of what stands in a disclosure that is closed
 */
function isOpen(element, child) {
  if (!(element instanceof HTMLDetailsElement) || element.open) return true;
  return child instanceof Element && child.matches("summary");
}

/**
 * @param {Element} element
 * @param {CSSStyleDeclaration} style
 * @returns {boolean} whether it is there for screen readers only
 */
function isUnseen(element, style) {
  const { width, height } = element.getBoundingClientRect();
  return style.position === "absolute" && style.overflow === "hidden" && width <= 1 && height <= 1;
}

/**
 * @param {Sheet} sheet
 * @param {HTMLElement} element
 * @param {CSSStyleDeclaration} style
 * @returns {string | null} the reference to its clip, where it hides what is beyond its edge
 */
function clipOf(sheet, element, style) {
  if (style.overflowX === "visible" && style.overflowY === "visible") return null;
  const more = element.scrollWidth > element.clientWidth + 1 || element.scrollHeight > element.clientHeight + 1;
  const round = Number.parseFloat(style.borderTopLeftRadius) > 0;
  if (!(more || round) || style.display === "inline" || style.display === "contents") return null;
  const id = sheet.id();
  const { x, y, w, h } = sheet.box(element.getBoundingClientRect());
  const path = tag("path", { d: boxPath({ x, y, w, h }, radiiOf(style)) });
  sheet.defs.push(tag("clipPath", { id }, path));
  return `url(#${id})`;
}

/**
 * @param {Sheet} sheet
 * @param {HTMLCanvasElement} canvas
 */
function drawCanvas(sheet, canvas) {
  const { x, y, w, h } = sheet.box(canvas.getBoundingClientRect());
  const href = canvas.toDataURL("image/png");
  sheet.add(tag("image", { x, y, width: w, height: h, href, "xlink:href": href, preserveAspectRatio: "none" }));
}
