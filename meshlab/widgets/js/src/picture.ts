/** Paints plain shapes that Python has laid out (meshlab/widgets/views/devices/sheet.py): links, frames and names. */
import { s } from "./dom.ts";
import { markClass } from "./marks.ts";
import type { Shape, View } from "./types.ts";

export function drawShape(view: View, shape: Shape): SVGElement {
  const style = `mlb-draw-${shape.as}`;
  if (shape.is === "rect") {
    const box = { class: style, x: shape.x, y: shape.y, width: shape.w, height: shape.h, rx: 3 };
    return s("rect", box, shape.title && s("title", {}, shape.title));
  }
  if (shape.is === "path")
    return s("path", { class: `${style} mlb-link ${markClass(view, shape.key ?? "")}`, d: shape.d });
  const turn = shape.turn ? `rotate(${shape.turn} ${shape.x} ${shape.y})` : null;
  const place = { class: style, x: shape.x, y: shape.y, transform: turn };
  return s("text", place, shape.text);
}
