/**
 * What is drawn on the page as one SVG document: boxes, borders and hatching, texts where they stand, inline drawings
 * with their styles written out. No foreignObject: other programs draw none. Of what scrolls all is drawn.
 */
import { drawBox, radiiOf } from "./svg_box.ts";
import { drawControl, drawPseudo, drawTriangle } from "./svg_controls.ts";
import { inlineSvg } from "./svg_inline.ts";
import { type Box, boxPath, escaped, type Paint, painted, paintOf, tag } from "./svg_paint.ts";
import { drawTextNode } from "./svg_text.ts";

// Buttons that zoom a chart are no part of its picture.
const UNDRAWN = "script, style, option, .mlb-plot-tools, [popover]:not(:popover-open)";

/** What is drawn so far, and where its upper left corner is on the screen. */
export class Sheet {
  left: number;
  top: number;
  out: string[] = [];
  defs: string[] = [];
  count = 0;

  constructor(left: number, top: number) {
    this.left = left;
    this.top = top;
  }

  /** @returns an id that nothing else has */
  id(): string {
    this.count += 1;
    return `out-${this.count}`;
  }

  /**
   * @param rect on the screen
   * @returns on the sheet
   */
  box({ left, top, width, height }: { left: number; top: number; width: number; height: number }): Box {
    return { x: left - this.left, y: top - this.top, w: width, h: height };
  }

  add(shape: string) {
    if (shape) this.out.push(shape);
  }
}

/** @returns in CSS pixels */
export function pictureOf(panel: Element, title: string): { svg: string; width: number; height: number } {
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

/** @returns the colour that it stands on */
function groundOf(element: Element | null): Paint | null {
  for (let each = element; each; each = each.parentElement) {
    const paint = paintOf(getComputedStyle(each).backgroundColor);
    if (paint && paint.alpha === 1) return paint;
  }
  return { hex: "#ffffff", alpha: 1 };
}

function draw(sheet: Sheet, node: Node) {
  if (node instanceof Text) drawTextNode(sheet, node);
  if (!(node instanceof Element) || node.matches(UNDRAWN)) return;
  const style = getComputedStyle(node);
  if (style.display === "none" || Number(style.opacity) === 0 || isUnseen(node, style)) return;
  const opacity = Number(style.opacity);
  const before = sheet.out.length;
  if (node instanceof SVGSVGElement) sheet.add(inlineSvg(sheet, node));
  else drawElement(sheet, node as HTMLElement, style);
  const drawn = sheet.out.splice(before).join("");
  const clip = drawn && !(node instanceof SVGSVGElement) ? clipOf(sheet, node as HTMLElement, style) : null;
  if (drawn && (opacity < 1 || clip))
    sheet.add(tag("g", { opacity: opacity < 1 ? opacity : null, "clip-path": clip }, drawn));
  else sheet.add(drawn);
}

function drawElement(sheet: Sheet, element: HTMLElement, style: CSSStyleDeclaration) {
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

/** @returns false of what stands in a disclosure that is closed */
function isOpen(element: HTMLElement, child: Node): boolean {
  if (!(element instanceof HTMLDetailsElement) || element.open) return true;
  return child instanceof Element && child.matches("summary");
}

/** @returns whether it is there for screen readers only */
function isUnseen(element: Element, style: CSSStyleDeclaration): boolean {
  const { width, height } = element.getBoundingClientRect();
  return style.position === "absolute" && style.overflow === "hidden" && width <= 1 && height <= 1;
}

/** @returns the reference to its clip, where it hides what is beyond its edge */
function clipOf(sheet: Sheet, element: HTMLElement, style: CSSStyleDeclaration): string | null {
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

function drawCanvas(sheet: Sheet, canvas: HTMLCanvasElement) {
  const { x, y, w, h } = sheet.box(canvas.getBoundingClientRect());
  const href = canvas.toDataURL("image/png");
  sheet.add(tag("image", { x, y, width: w, height: h, href, "xlink:href": href, preserveAspectRatio: "none" }));
}
