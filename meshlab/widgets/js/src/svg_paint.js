// @ts-check
/**
 * CSS as SVG says it: colours with their alpha apart (SVG 1.1 knows no rgba), gradients and hatching as patterns of
 * shapes, borders as lines. Pure: texts in, texts out; what walks the page is `svg_page.js`.
 */

/** @typedef {{hex: string, alpha: number}} Paint */
/** @typedef {{paint: Paint | null, at: string}} Stop */
/** @typedef {{repeats: boolean, angle: number, stops: Stop[]}} Gradient */
/** @typedef {{x: number, y: number, w: number, h: number}} Box */

/**
 * @param {number} value
 * @returns {number} to a hundredth of a pixel
 */
export const round = (value) => Math.round(100 * value) / 100;

/**
 * @param {string} text
 * @returns {string} for XML, without what XML 1.0 has no place for
 */
export function escaped(text) {
  const marks = /** @type {Record<string, string>} */ ({ "&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;" });
  // biome-ignore lint/suspicious/noControlCharactersInRegex: they are what XML refuses
  return text.replace(/[\u0000-\u0008\u000b\u000c\u000e-\u001f\ufffe\uffff]/g, "").replace(/[&<>"]/g, (c) => marks[c]);
}

/**
 * @param {string} name
 * @param {Record<string, string | number | null | undefined>} attributes those that are null are left out
 * @param {string} [inside] what is in it, as XML
 * @returns {string}
 */
export function tag(name, attributes, inside = "") {
  const all = Object.entries(attributes)
    .filter(([, value]) => value !== null && value !== undefined && value !== "")
    .map(([key, value]) => ` ${key}="${escaped(String(typeof value === "number" ? round(value) : value))}"`);
  return inside ? `<${name}${all.join("")}>${inside}</${name}>` : `<${name}${all.join("")}/>`;
}

/**
 * @param {string} text a colour as `getComputedStyle` writes it
 * @returns {Paint | null} null where nothing is painted
 */
export function paintOf(text) {
  const srgb = /^color\(srgb ([^)]*)\)/.exec(text);
  const rgb = /^rgba?\(([^)]*)\)/.exec(text);
  const parts = ((srgb ?? rgb)?.[1] ?? "").split(/[\s,/]+/).filter(Boolean);
  if (parts.length < 3) return null;
  const numbers = parts.map((part) => (part.endsWith("%") ? Number.parseFloat(part) / 100 : Number(part)));
  const alpha = numbers[3] ?? 1;
  if (!(alpha > 0)) return null;
  const byte = (/** @type {number} */ n) => Math.max(0, Math.min(255, Math.round(srgb ? 255 * n : n)));
  const hex = numbers.slice(0, 3).map((each) => byte(each).toString(16).padStart(2, "0"));
  return { hex: `#${hex.join("")}`, alpha };
}

/**
 * @param {"fill" | "stroke"} what
 * @param {Paint | null} paint
 * @returns {Record<string, string | number | null>} its attributes
 */
export function painted(what, paint) {
  if (!paint) return { [what]: "none" };
  return { [what]: paint.hex, [`${what}-opacity`]: paint.alpha < 1 ? paint.alpha : null };
}

/**
 * @param {string} text
 * @returns {string[]} its parts between commas that are in no brackets
 */
export function parts(text) {
  const found = [""];
  let depth = 0;
  for (const each of text) {
    depth += each === "(" ? 1 : each === ")" ? -1 : 0;
    if (each === "," && depth === 0) found.push("");
    else found[found.length - 1] += each;
  }
  return found.map((part) => part.trim()).filter(Boolean);
}

const SIDES = /** @type {Record<string, number>} */ ({ top: 0, right: 90, bottom: 180, left: 270 });

/**
 * @param {string} text a `background-image`, as computed
 * @returns {Gradient[]} its linear gradients, the topmost first
 */
export function gradientsOf(text) {
  return parts(text).flatMap((layer) => {
    const match = /^(repeating-)?linear-gradient\((.*)\)$/s.exec(layer);
    if (!match) return [];
    const listed = parts(match[2]);
    const side = /^to (top|right|bottom|left)$/.exec(listed[0]);
    const angle = /^(-?[\d.]+)deg$/.exec(listed[0]);
    if (side || angle) listed.shift();
    const stops = listed.flatMap((stop) => {
      const [, colour, at] = /** @type {string[]} */ (/^(.*?)((?:\s+-?[\d.e-]+(?:px|%))*)$/.exec(stop));
      const paint = paintOf(colour);
      return (at.trim() ? at.trim().split(/\s+/) : [""]).map((each) => ({ paint, at: each }));
    });
    return [{ repeats: Boolean(match[1]), angle: side ? SIDES[side[1]] : angle ? Number(angle[1]) : 180, stops }];
  });
}

/**
 * @param {Gradient} gradient
 * @param {number} length of the gradient line
 * @returns {number[]} where its stops are on it, in pixels
 */
function places({ stops }, length) {
  const given = stops.map(({ at }, i) => {
    if (at) return at.endsWith("%") ? (length * Number.parseFloat(at)) / 100 : Number.parseFloat(at);
    return i === 0 ? 0 : i === stops.length - 1 ? length : Number.NaN;
  });
  return given.map((at, i) => {
    if (!Number.isNaN(at)) return at;
    let [last, next] = [i, i];
    while (Number.isNaN(given[last])) last -= 1;
    while (Number.isNaN(given[next])) next += 1;
    return given[last] + ((given[next] - given[last]) * (i - last)) / (next - last);
  });
}

/**
 * A gradient over a box: hatching as a pattern of stripes, which more programs draw than gradients that repeat.
 * @param {Gradient} gradient
 * @param {Box} box
 * @param {string} id
 * @returns {string} a definition, to be filled with
 */
export function gradientDefinition(gradient, { x, y, w, h }, id) {
  const turn = (gradient.angle * Math.PI) / 180;
  const [dx, dy] = [Math.sin(turn), -Math.cos(turn)];
  const length = Math.abs(w * dx) + Math.abs(h * dy);
  const [startX, startY] = [x + w / 2 - (dx * length) / 2, y + h / 2 - (dy * length) / 2];
  const at = places(gradient, length);
  const all = gradient.stops;
  if (!gradient.repeats) {
    const stops = all.map(({ paint }, i) =>
      tag("stop", {
        offset: at[i] / (length || 1),
        "stop-color": paint?.hex ?? "#000000",
        "stop-opacity": paint?.alpha ?? 0,
      }),
    );
    const line = { x1: startX, y1: startY, x2: startX + dx * length, y2: startY + dy * length };
    return tag("linearGradient", { id, gradientUnits: "userSpaceOnUse", ...line }, stops.join(""));
  }
  const period = at[at.length - 1];
  const stripes = all.slice(1).map(({ paint }, i) => {
    if (!paint || at[i + 1] <= at[i]) return "";
    return tag("rect", { x: at[i], y: 0, width: at[i + 1] - at[i], height: period, ...painted("fill", paint) });
  });
  const patternTransform = `translate(${round(startX)} ${round(startY)}) rotate(${gradient.angle - 90})`;
  const size = { width: period, height: period };
  return tag("pattern", { id, patternUnits: "userSpaceOnUse", ...size, patternTransform }, stripes.join(""));
}

/**
 * @param {Box} box
 * @param {number[]} radii of its corners, from the upper left, clockwise
 * @returns {string} a rectangle as a path
 */
export function boxPath({ x, y, w, h }, radii) {
  const most = Math.min(w, h) / 2;
  const [a, b, c, d] = radii.map((each) => Math.max(0, Math.min(each, most)));
  const arc = (/** @type {number} */ r, /** @type {string} */ to) => (r ? `A${round(r)} ${round(r)} 0 0 1 ${to}` : "");
  const p = (/** @type {number} */ px, /** @type {number} */ py) => `${round(px)} ${round(py)}`;
  return (
    `M${p(x + a, y)}H${round(x + w - b)}${arc(b, p(x + w, y + b))}V${round(y + h - c)}${arc(c, p(x + w - c, y + h))}` +
    `H${round(x + d)}${arc(d, p(x, y + h - d))}V${round(y + a)}${arc(a, p(x + a, y))}Z`
  );
}

/**
 * @param {string} style `solid`, `dashed`, `dotted` …
 * @param {number} width
 * @returns {string | null} its dashes
 */
export function dashes(style, width) {
  return style === "dashed" ? `${3 * width} ${2 * width}` : style === "dotted" ? `${width} ${width}` : null;
}

/**
 * @param {string} d a path without arcs
 * @param {number} sx
 * @param {number} sy
 * @returns {string} the path, so many times as wide and as high
 */
export function scaledPath(d, sx, sy) {
  return d.replace(/([a-df-z])([^a-df-z]*)/gi, (_, command, rest) => {
    const numbers = (rest.match(/-?(?:\d+\.?\d*|\.\d+)(?:e-?\d+)?/g) ?? []).map(Number);
    const by = /h/i.test(command) ? [sx, sx] : /v/i.test(command) ? [sy, sy] : [sx, sy];
    return command + numbers.map((/** @type {number} */ n, /** @type {number} */ i) => round(n * by[i % 2])).join(" ");
  });
}
