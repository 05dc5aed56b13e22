/** What the browser itself draws in a panel: selects, fields, boxes to tick, progress, and what styles put before and after. */
import { drawBox } from "./svg_box.ts";
import type { Sheet } from "./svg_page.ts";
import { type Box, type Paint, painted, paintOf, round, tag } from "./svg_paint.ts";
import { addText, metricsOf, widthOf } from "./svg_text.ts";

/** @returns whether it was one, so that what is in it is not drawn */
export function drawControl(sheet: Sheet, element: HTMLElement, style: CSSStyleDeclaration): boolean {
  const box = sheet.box(element.getBoundingClientRect());
  const middle = box.y + box.h / 2;
  const ink = paintOf(style.color);
  if (element instanceof HTMLSelectElement) {
    const chosen = element.selectedOptions[0]?.text ?? "";
    drawField(sheet, element, style, chosen);
    const d = `M${round(box.x + box.w - 16)} ${round(middle - 2)}l4 4l4 -4`;
    sheet.add(tag("path", { d, fill: "none", ...painted("stroke", ink), "stroke-width": 1.5 }));
    return true;
  }
  if (element instanceof HTMLProgressElement) {
    const track = { x: box.x, width: box.w, y: middle - 2, height: 4, rx: 2 };
    sheet.add(tag("rect", { ...track, ...painted("fill", ink), "fill-opacity": 0.15 }));
    const done = Math.max(0, element.position);
    const bar = paintOf(style.accentColor) ?? ink;
    if (done) sheet.add(tag("rect", { ...track, width: done * box.w, ...painted("fill", bar) }));
    return true;
  }
  if (!(element instanceof HTMLInputElement)) return false;
  if (element.type === "checkbox" || element.type === "radio") {
    const isRadio = element.type === "radio";
    const mark = element.checked ? (paintOf(style.accentColor) ?? ink) : ink;
    const edge = { x: box.x + 0.5, y: box.y + 0.5, width: box.w - 1, height: box.h - 1, rx: isRadio ? box.w / 2 : 2 };
    sheet.add(tag("rect", { ...edge, fill: "none", ...painted("stroke", mark) }));
    if (element.checked) drawMark(sheet, box, mark, isRadio);
    return true;
  }
  if (element.value) drawField(sheet, element, style, element.value);
  else drawField(sheet, element, getComputedStyle(element, "::placeholder"), element.placeholder);
  return true;
}

/** @param dot of one that is chosen among several; else a tick */
function drawMark(sheet: Sheet, { x, y, w, h }: Box, paint: Paint | null, dot: boolean) {
  const d = `M${round(x + 3)} ${round(y + h / 2)}l${round(w / 4)} ${round(h / 4)}l${round(w / 3)} ${round(-h / 2)}`;
  if (dot) sheet.add(tag("circle", { cx: x + w / 2, cy: y + h / 2, r: w / 4, ...painted("fill", paint) }));
  else sheet.add(tag("path", { d, fill: "none", ...painted("stroke", paint), "stroke-width": 2 }));
}

/** The triangle of a disclosure, which the browser draws. */
export function drawTriangle(sheet: Sheet, summary: HTMLElement, style: CSSStyleDeclaration) {
  if (style.display !== "list-item" || style.listStyleType === "none") return;
  const { x, y } = sheet.box(summary.getBoundingClientRect());
  const { up, down } = metricsOf(style);
  const line = Number.parseFloat(style.lineHeight) || up + down;
  const at = `M${round(x + Number.parseFloat(style.paddingLeft) + 1)} ${round(y + Number.parseFloat(style.paddingTop) + line / 2)}`;
  const open = summary.parentElement?.hasAttribute("open");
  sheet.add(
    tag("path", { d: `${at}${open ? "m0 -2h8l-4 6z" : "m0 -4v8l6 -4z"}`, ...painted("fill", paintOf(style.color)) }),
  );
}

function drawField(sheet: Sheet, element: HTMLElement, style: CSSStyleDeclaration, text: string) {
  const { x, y, w, h } = sheet.box(element.getBoundingClientRect());
  const { up, down } = metricsOf(style);
  const { borderLeftWidth, paddingLeft } = getComputedStyle(element);
  const inset = Number.parseFloat(borderLeftWidth) + Number.parseFloat(paddingLeft);
  const from = x + inset + (element instanceof HTMLSelectElement ? 4 : 0);
  const room = w - (from - x) - (element instanceof HTMLSelectElement ? 18 : 4);
  const shown = shortened(text, style, room);
  if (shown) addText(sheet, shown, style, { x: from, y: y + h / 2 + (up - down) / 2 });
}

function shortened(text: string, style: CSSStyleDeclaration, room: number): string {
  if (widthOf(text, style) <= room) return text;
  let most = text.length;
  while (most > 0 && widthOf(`${text.slice(0, most)}…`, style) > room) most -= 1;
  return most ? `${text.slice(0, most)}…` : "";
}

export function drawPseudo(sheet: Sheet, element: HTMLElement, which: "::before" | "::after") {
  const style = getComputedStyle(element, which);
  if (style.content === "none" || style.content === "normal" || style.display === "none") return;
  const text = style.content.startsWith('"') ? style.content.slice(1, -1) : "";
  const own = getComputedStyle(element);
  const { x, y } = sheet.box(element.getBoundingClientRect());
  if (style.position === "absolute") {
    const px = (value: string) => Number.parseFloat(value) || 0;
    const box = {
      x: x + px(own.borderLeftWidth) + px(style.left),
      y: y + px(own.borderTopWidth) + px(style.top),
      w: px(style.width),
      h: px(style.height),
    };
    drawBox(sheet, box, style);
    const { up, down } = metricsOf(style);
    const start = box.x + (box.w - widthOf(text, style)) / 2;
    if (text) addText(sheet, text, style, { x: start, y: box.y + box.h / 2 + (up - down) / 2 });
    return;
  }
  const range = document.createRange();
  range.selectNodeContents(element);
  const rects = [...range.getClientRects()];
  const beside = which === "::before" ? rects[0] : rects[rects.length - 1];
  if (!text.trim()) return;
  const { up, down } = metricsOf(style);
  const width = widthOf(text, style);
  const at = sheet.box(beside ?? element.getBoundingClientRect());
  const inset = beside ? 0 : Number.parseFloat(own.borderLeftWidth) + Number.parseFloat(own.paddingLeft);
  const start = !beside ? at.x + inset : which === "::before" ? at.x - width : at.x + at.w;
  addText(sheet, text.trimEnd(), style, { x: start, y: at.y + at.h / 2 + (up - down) / 2 });
}
