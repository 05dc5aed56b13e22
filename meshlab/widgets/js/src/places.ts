/**
 * Names beside points: each where nothing else is, with a line to its point where that is not next to it. What is drawn
 * is kept clear, so that no name covers a point (meshlab/widgets/render/print/places.py does the same).
 */

/** Left, top, right and bottom. */
export type Box = [number, number, number, number];
export type Named = { x: number; y: number; name: string; reach: number };
/** Where a name begins, on its base line; `line` goes to its point. */
export type Placed = { x: number; y: number; line: Box | null };

const TURNS = [0, 180, 315, 225, 45, 135, 270, 90];
const FAR = [0, 7, 14, 22, 32, 44];
// Pixels of a small letter and of a wide one, and of a name above and below its base line.
const [LETTER, WIDE, UP, DOWN] = [6.2, 8.6, 9, 3];

/** @returns whether two boxes overlap */
export function meet([left, top, right, bottom]: Box, other: Box): boolean {
  return left < other[2] && other[0] < right && top < other[3] && other[1] < bottom;
}

/**
 * @param points those first that are to be nearest to their names
 * @param taken where no name may be
 * @param within where all are
 * @returns for each point where its name stands; null where there is no room
 */
export function placesOf(points: Named[], taken: Box[], within: Box): (Placed | null)[] {
  const all = [...taken];
  return points.map((point) => {
    for (const far of FAR) {
      for (const turn of TURNS) {
        const box = boxOf(point, turn, far);
        const inside = box[0] >= within[0] && box[1] >= within[1] && box[2] <= within[2] && box[3] <= within[3];
        if (!inside || all.some((other) => meet(box, other))) continue;
        all.push(box);
        const near = [Math.min(Math.max(point.x, box[0]), box[2]), Math.min(Math.max(point.y, box[1]), box[3])];
        return { x: box[0], y: box[3] - DOWN, line: far ? [point.x, point.y, near[0], near[1]] : null };
      }
    }
    return null;
  });
}

function boxOf({ x, y, name, reach }: Named, turn: number, far: number): Box {
  const [dx, dy] = [Math.cos((turn * Math.PI) / 180), Math.sin((turn * Math.PI) / 180)];
  const wide = name.match(/[A-Z&#+]/g)?.length ?? 0;
  const [long, out] = [LETTER * (name.length - wide) + WIDE * wide, reach + 3 + far];
  const side = Math.abs(dx) < 0.1 ? 0 : Math.sign(dx);
  const middle = x + dx * out + (side * long) / 2;
  const centre = y + dy * (out + (side ? 0 : (UP + DOWN) / 2));
  return [middle - long / 2, centre - (UP + DOWN) / 2, middle + long / 2, centre + (UP + DOWN) / 2];
}

/**
 * A line as boxes along it, so that it is kept clear.
 * @param points its corners; every part is level or upright
 */
export function boxesAlong(points: number[][]): Box[] {
  return points.slice(1).map(([x, y], i) => {
    const [px, py] = points[i];
    return [Math.min(x, px) - 1.5, Math.min(y, py) - 1.5, Math.max(x, px) + 1.5, Math.max(y, py) + 1.5];
  });
}
