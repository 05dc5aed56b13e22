/** The texts of the page as `<text>`, line by line, where they stand. */

import type { Sheet } from "./svg_page.ts";
import { escaped, painted, paintOf, round, tag } from "./svg_paint.ts";

const KNOWN: Map<string, { up: number; down: number }> = new Map();
let ruler: CanvasRenderingContext2D | null = null;

/** @returns that measures texts in its font */
function rulerOf(style: CSSStyleDeclaration): CanvasRenderingContext2D {
  ruler ??= document.createElement("canvas").getContext("2d") as CanvasRenderingContext2D;
  ruler.font = `${style.fontStyle} ${style.fontWeight} ${style.fontSize} ${style.fontFamily}`;
  return ruler;
}

/** @returns how far its font reaches above and below the base line */
export function metricsOf(style: CSSStyleDeclaration): { up: number; down: number } {
  const measure = rulerOf(style);
  const known = KNOWN.get(measure.font);
  if (known) return known;
  const { fontBoundingBoxAscent: up, fontBoundingBoxDescent: down } = measure.measureText("x");
  KNOWN.set(measure.font, { up, down });
  return { up, down };
}

/** @returns how wide it is */
export const widthOf = (text: string, style: CSSStyleDeclaration): number => rulerOf(style).measureText(text).width;

/**
 * @param weight as computed
 * @returns what programs know that have no weights in between
 */
export const weightOf = (weight: string): string => (Number(weight) >= 550 ? "bold" : "normal");

function fontOf(style: CSSStyleDeclaration): Record<string, string | number | null> {
  return {
    "font-family": style.fontFamily,
    "font-size": Number.parseFloat(style.fontSize),
    "font-weight": style.fontWeight === "400" ? null : weightOf(style.fontWeight),
    "font-style": style.fontStyle === "normal" ? null : style.fontStyle,
    ...painted("fill", paintOf(style.color)),
  };
}

/**
 * A text of one line; in another font it keeps its length.
 * @param at its start, on the base line
 */
export function addText(
  sheet: Sheet,
  text: string,
  style: CSSStyleDeclaration,
  { x, y, length, turn = false }: { x: number; y: number; length?: number; turn?: boolean },
) {
  const shown = style.textTransform === "uppercase" ? text.toUpperCase() : text;
  const place = turn ? { transform: `translate(${round(x)} ${round(y)}) rotate(90)` } : { x, y };
  const fitted =
    length && length > 0 && text.length > 1 ? { textLength: length, lengthAdjust: "spacingAndGlyphs" } : {};
  sheet.add(tag("text", { ...place, ...fontOf(style), ...fitted, "xml:space": "preserve" }, escaped(shown)));
  const lined = style.textDecorationLine.includes("underline") && length;
  if (!lined || turn) return;
  const dots = style.textDecorationStyle === "dotted" ? "1 2" : null;
  const stroke = painted("stroke", paintOf(style.textDecorationColor));
  sheet.add(tag("path", { d: `M${round(x)} ${round(y + 2)}h${round(length)}`, ...stroke, "stroke-dasharray": dots }));
}

export function drawTextNode(sheet: Sheet, node: Text) {
  const parent = node.parentElement;
  if (!parent || !node.data.trim()) return;
  const style = getComputedStyle(parent);
  if (style.visibility !== "visible" || Number.parseFloat(style.fontSize) === 0) return;
  const { up, down } = metricsOf(style);
  const turn = style.writingMode.startsWith("vertical");
  for (const { text, rect } of linesOf(node, /^(pre|break-spaces)/.test(style.whiteSpace))) {
    const { x, y, w, h } = sheet.box(rect);
    // What a font reaches is what its box has, but for rounding.
    const scale = (turn ? w : h) / (up + down || 1);
    if (turn) addText(sheet, text, style, { x: x + down * scale, y, length: h, turn });
    else addText(sheet, text, style, { x, y: y + up * scale, length: w });
  }
}

/**
 * @param spaces whether its spaces stand as they are
 * @returns what is seen of it in each line
 */
function linesOf(node: Text, spaces: boolean): { text: string; rect: DOMRect }[] {
  const range = document.createRange();
  const { data } = node;
  const rects = (from: number, to: number): DOMRect[] => {
    range.setStart(node, from);
    range.setEnd(node, to);
    return [...range.getClientRects()].filter((rect) => rect.width > 0 && rect.height > 0);
  };
  const first = data.search(/\S/);
  const all = rects(first, data.trimEnd().length);
  if (all.length === 1) return [{ text: clean(data.slice(first).trimEnd(), spaces), rect: all[0] }];
  const lines: { from: number; to: number; rect: DOMRect }[] = [];
  for (const match of data.matchAll(/\S+/g)) {
    const end = match.index + match[0].length;
    // A word is broken where nothing else fits.
    const whole = rects(match.index, end).length === 1;
    const step = whole ? match[0].length : 1;
    for (let from = match.index; from < end; from += step) {
      const [rect] = rects(from, from + step);
      if (!rect) continue;
      const last = lines[lines.length - 1];
      if (last && Math.abs(last.rect.top - rect.top) < 2 && last.rect.left <= rect.left) last.to = from + step;
      else lines.push({ from, to: from + step, rect });
    }
  }
  return lines.map(({ from, to, rect }) => {
    const [whole = rect] = rects(from, to);
    return { text: clean(data.slice(from, to), spaces), rect: whole };
  });
}

const clean = (text: string, spaces: boolean): string => (spaces ? text : text.replace(/\s+/g, " "));
