/** Boxes of the page as SVG: ground, hatching, borders and outline, as their styles have them. */

import type { Sheet } from "./svg_page.ts";
import type { Box } from "./svg_paint.ts";
import { boxPath, dashes, gradientDefinition, gradientsOf, painted, paintOf, round, tag } from "./svg_paint.ts";

export function radiiOf(style: CSSStyleDeclaration): number[] {
  const {
    borderTopLeftRadius: a,
    borderTopRightRadius: b,
    borderBottomRightRadius: c,
    borderBottomLeftRadius: d,
  } = style;
  return [a, b, c, d].map((each) => (each.endsWith("%") ? 1e4 : Number.parseFloat(each)));
}

/** Draws ground, hatching, borders and outline of a box. */
export function drawBox(sheet: Sheet, box: Box, style: CSSStyleDeclaration) {
  if (!(box.w > 0 && box.h > 0)) return;
  const radii = radiiOf(style);
  const d = boxPath(box, radii);
  const ground = paintOf(style.backgroundColor);
  if (ground) sheet.add(tag("path", { d, ...painted("fill", ground) }));
  for (const gradient of gradientsOf(style.backgroundImage).reverse()) {
    const id = sheet.id();
    sheet.defs.push(gradientDefinition(gradient, box, id));
    sheet.add(tag("path", { d, fill: `url(#${id})` }));
  }
  drawBorders(sheet, box, radii, style);
  const width = Number.parseFloat(style.outlineWidth);
  if (style.outlineStyle === "none" || !width) return;
  const by = Number.parseFloat(style.outlineOffset) + width / 2;
  const around = { x: box.x - by, y: box.y - by, w: box.w + 2 * by, h: box.h + 2 * by };
  const line = { "stroke-width": width, "stroke-dasharray": dashes(style.outlineStyle, width), fill: "none" };
  const corners = radii.map((each) => Math.max(0, each + by));
  sheet.add(tag("path", { d: boxPath(around, corners), ...line, ...painted("stroke", paintOf(style.outlineColor)) }));
}

function drawBorders(sheet: Sheet, { x, y, w, h }: Box, radii: number[], style: CSSStyleDeclaration) {
  const sides = ["Top", "Right", "Bottom", "Left"].map((side) => {
    const read = (what: string) => String(Reflect.get(style, `border${side}${what}`));
    const kind = read("Style");
    const width = kind === "none" || kind === "hidden" ? 0 : Number.parseFloat(read("Width"));
    return { width, kind, paint: paintOf(read("Color")) };
  });
  const [top, right, bottom, left] = sides;
  const key = (side: typeof top) => JSON.stringify(side);
  if (sides.every((side) => key(side) === key(top))) {
    if (!top.width || !top.paint) return;
    const by = top.width / 2;
    const inner = boxPath(
      { x: x + by, y: y + by, w: w - top.width, h: h - top.width },
      radii.map((r) => r - by),
    );
    const line = { "stroke-width": top.width, "stroke-dasharray": dashes(top.kind, top.width) };
    sheet.add(tag("path", { d: inner, fill: "none", ...painted("stroke", top.paint), ...line }));
    return;
  }
  const lines = [
    [top, x, y + top.width / 2, x + w, y + top.width / 2],
    [right, x + w - right.width / 2, y, x + w - right.width / 2, y + h],
    [bottom, x, y + h - bottom.width / 2, x + w, y + h - bottom.width / 2],
    [left, x + left.width / 2, y, x + left.width / 2, y + h],
  ] as const;
  for (const [side, x1, y1, x2, y2] of lines) {
    if (!side.width || !side.paint) continue;
    const line = { "stroke-width": side.width, "stroke-dasharray": dashes(side.kind, side.width) };
    sheet.add(
      tag("path", {
        d: `M${round(x1)} ${round(y1)}L${round(x2)} ${round(y2)}`,
        ...line,
        ...painted("stroke", side.paint),
      }),
    );
  }
}
