// @ts-check
/** Paints plain shapes that Python has laid out (meshlab/widgets/views/devices/sheet.py): links, frames and names. */
import { s } from "./dom.js";
import { markClass } from "./marks.js";

/**
 * @typedef {import("./types.js").View} View
 * @typedef {import("./types.js").Shape} Shape
 */

/**
 * @param {View} view
 * @param {Shape} shape
 * @returns {SVGElement}
 */
export function drawShape(view, shape) {
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
