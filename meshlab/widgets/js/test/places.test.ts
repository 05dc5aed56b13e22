/** Names beside points: none covers another, nor a point. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { type Box, boxesAlong, meet, placesOf } from "../src/places.ts";

const WITHIN: Box = [52, 0, 400, 142];

test("two names whose points are next to each other stand apart", () => {
  const points = [4, 6].map((n) => ({ x: 200 + n, y: 80, name: `#${n}`, reach: 6 }));
  const own: Box[] = points.map(({ x, y }) => [x - 6, y - 6, x + 6, y + 6]);
  const [one, other] = placesOf(points, own, WITHIN);
  assert.ok(one && other);
  const box = ({ x, y }: { x: number; y: number }): Box => [x, y - 9, x + 12.4, y + 3];
  assert.equal(meet(box(one), box(other)), false);
});

test("no name covers a cross or the front, and one that is further away has a line to its point", () => {
  const crosses: Box[] = Array.from({ length: 12 }, (_, i) => [196 + 4 * i, 66, 204 + 4 * i, 94]);
  const front = boxesAlong([
    [150, 80],
    [150, 110],
    [300, 110],
  ]);
  const point = { x: 200, y: 80, name: "Auto (time)", reach: 6 };
  const [at] = placesOf([point], [...crosses, ...front, [140, 60, 196, 100]], WITHIN);
  assert.ok(at);
  const box: Box = [at.x, at.y - 9, at.x + 6.2 * point.name.length, at.y + 3];
  for (const each of [...crosses, ...front]) assert.equal(meet(box, each), false);
  assert.deepEqual(at.line?.slice(0, 2), [200, 80]);
});

test("a name without room is not written", () => {
  assert.deepEqual(placesOf([{ x: 60, y: 20, name: "start", reach: 6 }], [[0, 0, 400, 200]], WITHIN), [null]);
});
