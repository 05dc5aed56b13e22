// @ts-check
/** Paints the drawing of a mesh on its machine, plain shapes from meshlab/widgets/views/mesh_drawing.py. */
import { h, prose, s } from "./dom.js";
import { markClass } from "./marks.js";

/**
 * @typedef {import("./types.js").View} View
 * @typedef {import("./types.js").Machine} Machine
 * @typedef {import("./types.js").Shape} Shape
 */

/**
 * @param {View} view
 * @param {Machine} machine
 * @returns {HTMLElement | null}
 */
export function drawPicture(view, machine) {
  const { picture, axes } = machine;
  if (!picture) return null;
  const placed = (axes ?? []).map((axis) => `${axis.name}: ${axis.placement}`).join("; ");
  const drawing = s(
    "svg",
    {
      viewBox: `0 0 ${picture.width} ${picture.height}`,
      width: picture.width,
      height: picture.height,
      role: "img",
      "aria-label": `the mesh on ${machine.title}, ${machine.slice}. ${placed}`,
    },
    picture.shapes.map((shape) => draw(view, shape)),
  );
  return h(
    "figure",
    { class: "mlb-picture" },
    drawing,
    picture.left_out && h("figcaption", { class: "mlb-none" }, prose(picture.left_out)),
  );
}

/**
 * @param {View} view
 * @param {Shape} shape
 * @returns {SVGElement}
 */
function draw(view, shape) {
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
