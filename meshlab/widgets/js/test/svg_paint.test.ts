/** What styles become in SVG, and tables in CSV. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { csvText } from "../src/csv.ts";
import {
  boxPath,
  dashes,
  escaped,
  gradientDefinition,
  gradientsOf,
  painted,
  paintOf,
  parts,
  scaledPath,
  tag,
} from "../src/svg_paint.ts";

test("a colour has its alpha apart; what is transparent is no paint", () => {
  assert.deepEqual(paintOf("rgb(22, 82, 163)"), { hex: "#1652a3", alpha: 1 });
  assert.deepEqual(paintOf("rgba(255, 255, 255, 0.55)"), { hex: "#ffffff", alpha: 0.55 });
  assert.deepEqual(paintOf("color(srgb 1 0.5 0 / 0.2)"), { hex: "#ff8000", alpha: 0.2 });
  assert.deepEqual(paintOf("rgb(0 0 0 / 42%)"), { hex: "#000000", alpha: 0.42 });
  for (const nothing of ["rgba(0, 0, 0, 0)", "transparent", "none", ""]) assert.equal(paintOf(nothing), null);
  assert.deepEqual(painted("stroke", { hex: "#ffffff", alpha: 0.5 }), { stroke: "#ffffff", "stroke-opacity": 0.5 });
  assert.deepEqual(painted("fill", null), { fill: "none" });
});

test("texts are safe in XML", () => {
  assert.equal(escaped('a < b & "c"\u0000'), "a &lt; b &amp; &quot;c&quot;");
  assert.equal(tag("rect", { x: 1.23456, y: null, id: "<" }), '<rect x="1.23" id="&lt;"/>');
  assert.equal(tag("g", {}, "<a/>"), "<g><a/></g>");
});

test("commas within brackets divide nothing", () => {
  assert.deepEqual(parts("f(1, g(2, 3)), 4"), ["f(1, g(2, 3))", "4"]);
});

const HATCHED =
  "repeating-linear-gradient(45deg, rgba(0, 0, 0, 0) 0px, rgba(0, 0, 0, 0) 4px, rgba(255, 255, 255, 0.55) 4px 6px)";

test("hatching is read, and becomes a pattern of stripes across the box", () => {
  const [gradient] = gradientsOf(`${HATCHED}, none`);
  assert.equal(gradient.repeats, true);
  assert.equal(gradient.angle, 45);
  assert.deepEqual(
    gradient.stops.map(({ at }) => at),
    ["0px", "4px", "4px", "6px"],
  );
  const made = gradientDefinition(gradient, { x: 10, y: 20, w: 40, h: 40 }, "p");
  // Its line begins in the lower left corner, as CSS has it.
  assert.match(made, /patternTransform="translate\(10 60\) rotate\(-45\)"/);
  assert.match(made, /width="6" height="6"/);
  assert.equal(made.match(/<rect/g)?.length, 1);
  assert.match(made, /<rect x="4" y="0" width="2" height="6" fill="#ffffff" fill-opacity="0.55"\/>/);
});

test("a gradient that does not repeat has its stops, those between spread evenly", () => {
  const [gradient] = gradientsOf("linear-gradient(to right, rgb(0, 0, 0), rgb(1, 1, 1), rgb(2, 2, 2) 50%, red 100px)");
  assert.equal(gradient.angle, 90);
  const made = gradientDefinition(gradient, { x: 0, y: 0, w: 200, h: 10 }, "g");
  assert.match(made, /x1="0" y1="5" x2="200" y2="5"/);
  assert.deepEqual(
    [...made.matchAll(/offset="([\d.]+)"/g)].map((each) => Number(each[1])),
    [0, 0.25, 0.5, 0.5],
  );
  assert.deepEqual(gradientsOf("none"), []);
  assert.equal(gradientsOf("linear-gradient(rgb(0, 0, 0), rgb(1, 1, 1))")[0].angle, 180);
});

test("corners are round as far as there is room", () => {
  const box = { x: 0, y: 0, w: 10, h: 4 };
  assert.equal(boxPath(box, [0, 0, 0, 0]), "M0 0H10V4H0V0Z");
  assert.equal(boxPath(box, [9, 0, 0, 0]), "M2 0H10V4H0V2A2 2 0 0 1 2 0Z");
  assert.equal(dashes("dashed", 2), "6 4");
  assert.equal(dashes("solid", 2), null);
});

test("cells are quoted where they must be; of several tables each has its name", () => {
  const one = {
    name: "runs",
    rows: [
      ["run", "loss"],
      ["1", 'a "b", c\nd'],
    ],
  };
  assert.equal(csvText([one]), 'run,loss\r\n1,"a ""b"", c\nd"\r\n');
  assert.equal(csvText([one, { name: "", rows: [["x"]] }]), 'runs\r\nrun,loss\r\n1,"a ""b"", c\nd"\r\n\r\nx\r\n');
  assert.equal(csvText([]), "");
});

test("a path is stretched, steps and lines across and up alike", () => {
  assert.equal(scaledPath("M0 5L10,-1.5h4V7Z", 2, 10), "M0 50L20 -15h8V70Z");
  assert.equal(scaledPath("M1e1-2.5", 2, 2), "M20 -5");
});
