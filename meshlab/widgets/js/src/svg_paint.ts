/**
 * CSS as SVG says it: colours with their alpha apart (SVG 1.1 knows no rgba), gradients and hatching as patterns of
 * shapes, borders as lines. Pure: texts in, texts out; what walks the page is `svg_page.ts`.
 */

export type Paint = { hex: string; alpha: number };
type Stop = { paint: Paint | null; at: string };
type Gradient = { repeats: boolean; angle: number; stops: Stop[] };
export type Box = { x: number; y: number; w: number; h: number };

/** @returns to a hundredth of a pixel */
export const round = (value: number): number => Math.round(100 * value) / 100;

/** @returns for XML, without what XML 1.0 has no place for */
export function escaped(text: string): string {
  const marks = { "&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;" } as Record<string, string>;
  // biome-ignore lint/suspicious/noControlCharactersInRegex: they are what XML refuses
  return text.replace(/[\u0000-\u0008\u000b\u000c\u000e-\u001f\ufffe\uffff]/g, "").replace(/[&<>"]/g, (c) => marks[c]);
}

/**
 * @param attributes those that are null are left out
 * @param inside what is in it, as XML
 */
export function tag(
  name: string,
  attributes: Record<string, string | number | null | undefined>,
  inside: string = "",
): string {
  const all = Object.entries(attributes)
    .filter(([, value]) => value !== null && value !== undefined && value !== "")
    .map(([key, value]) => ` ${key}="${escaped(String(typeof value === "number" ? round(value) : value))}"`);
  return inside ? `<${name}${all.join("")}>${inside}</${name}>` : `<${name}${all.join("")}/>`;
}

/**
 * @param text a colour as `getComputedStyle` writes it
 * @returns null where nothing is painted
 */
export function paintOf(text: string): Paint | null {
  const srgb = /^color\(srgb ([^)]*)\)/.exec(text);
  const rgb = /^rgba?\(([^)]*)\)/.exec(text);
  const parts = ((srgb ?? rgb)?.[1] ?? "").split(/[\s,/]+/).filter(Boolean);
  if (parts.length < 3) return null;
  const numbers = parts.map((part) => (part.endsWith("%") ? Number.parseFloat(part) / 100 : Number(part)));
  const alpha = numbers[3] ?? 1;
  if (!(alpha > 0)) return null;
  const byte = (n: number) => Math.max(0, Math.min(255, Math.round(srgb ? 255 * n : n)));
  const hex = numbers.slice(0, 3).map((each) => byte(each).toString(16).padStart(2, "0"));
  return { hex: `#${hex.join("")}`, alpha };
}

/** @returns its attributes */
export function painted(what: "fill" | "stroke", paint: Paint | null): Record<string, string | number | null> {
  if (!paint) return { [what]: "none" };
  return { [what]: paint.hex, [`${what}-opacity`]: paint.alpha < 1 ? paint.alpha : null };
}

/** @returns its parts between commas that are in no brackets */
export function parts(text: string): string[] {
  const found = [""];
  let depth = 0;
  for (const each of text) {
    depth += each === "(" ? 1 : each === ")" ? -1 : 0;
    if (each === "," && depth === 0) found.push("");
    else found[found.length - 1] += each;
  }
  return found.map((part) => part.trim()).filter(Boolean);
}

const SIDES = { top: 0, right: 90, bottom: 180, left: 270 } as Record<string, number>;

/**
 * @param text a `background-image`, as computed
 * @returns its linear gradients, the topmost first
 */
export function gradientsOf(text: string): Gradient[] {
  return parts(text).flatMap((layer) => {
    const match = /^(repeating-)?linear-gradient\((.*)\)$/s.exec(layer);
    if (!match) return [];
    const listed = parts(match[2]);
    const side = /^to (top|right|bottom|left)$/.exec(listed[0]);
    const angle = /^(-?[\d.]+)deg$/.exec(listed[0]);
    if (side || angle) listed.shift();
    const stops = listed.flatMap((stop) => {
      const [, colour, at] = /^(.*?)((?:\s+-?[\d.e-]+(?:px|%))*)$/.exec(stop) as string[];
      const paint = paintOf(colour);
      return (at.trim() ? at.trim().split(/\s+/) : [""]).map((each) => ({ paint, at: each }));
    });
    return [{ repeats: Boolean(match[1]), angle: side ? SIDES[side[1]] : angle ? Number(angle[1]) : 180, stops }];
  });
}

/**
 * @param length of the gradient line
 * @returns where its stops are on it, in pixels
 */
function places({ stops }: Gradient, length: number): number[] {
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
 * @returns a definition, to be filled with
 */
export function gradientDefinition(gradient: Gradient, { x, y, w, h }: Box, id: string): string {
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
 * @param radii of its corners, from the upper left, clockwise
 * @returns a rectangle as a path
 */
export function boxPath({ x, y, w, h }: Box, radii: number[]): string {
  const most = Math.min(w, h) / 2;
  const [a, b, c, d] = radii.map((each) => Math.max(0, Math.min(each, most)));
  const arc = (r: number, to: string) => (r ? `A${round(r)} ${round(r)} 0 0 1 ${to}` : "");
  const p = (px: number, py: number) => `${round(px)} ${round(py)}`;
  return (
    `M${p(x + a, y)}H${round(x + w - b)}${arc(b, p(x + w, y + b))}V${round(y + h - c)}${arc(c, p(x + w - c, y + h))}` +
    `H${round(x + d)}${arc(d, p(x, y + h - d))}V${round(y + a)}${arc(a, p(x + a, y))}Z`
  );
}

/**
 * @param style `solid`, `dashed`, `dotted` …
 * @returns its dashes
 */
export function dashes(style: string, width: number): string | null {
  return style === "dashed" ? `${3 * width} ${2 * width}` : style === "dotted" ? `${width} ${width}` : null;
}

/**
 * @param d a path without arcs
 * @returns the path, so many times as wide and as high
 */
export function scaledPath(d: string, sx: number, sy: number): string {
  return d.replace(/([a-df-z])([^a-df-z]*)/gi, (_, command, rest) => {
    const numbers = (rest.match(/-?(?:\d+\.?\d*|\.\d+)(?:e-?\d+)?/g) ?? []).map(Number);
    const by = /h/i.test(command) ? [sx, sx] : /v/i.test(command) ? [sy, sy] : [sx, sy];
    return command + numbers.map((n: number, i: number) => round(n * by[i % 2])).join(" ");
  });
}
