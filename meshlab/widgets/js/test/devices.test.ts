/** Which positions a square covers, where a device stands, and that what is not the same data does not look the same. */
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import { boxOf, whereIs } from "../src/devices.ts";
import { channels, identity, indicesOf, luminance, PATTERNS, ramp, rangesOf } from "../src/identity.ts";

const levels = [
  { name: "slice", size: 2, low: 0, high: 2, step: 1, count: 2 },
  { name: "axis 0", size: 5, low: 0, high: 5, step: 2, count: 3 },
];

test("a square covers the positions of its devices, at the end of a level fewer", () => {
  const picture = { levels } as any;
  assert.deepEqual(boxOf(picture, 0), [
    [0, 1],
    [0, 2],
  ]);
  assert.deepEqual(boxOf(picture, 5), [
    [1, 2],
    [4, 5],
  ]);
});

test("a device stands at an index of each mesh axis, the last one fastest", () => {
  const axes = [
    { name: "data", size: 2 },
    { name: "model", size: 4 },
  ];
  assert.equal(whereIs({ mesh: { axes } } as any, 6), "data 1, model 2");
});

/** @returns the looks of all slices */
function looks(parts: number[]): string[] {
  const slices = parts.reduce((all, count) => all * count, 1);
  return Array.from({ length: slices }, (_, slice) => {
    const { fill, pattern, label } = identity({ parts, slices }, slice);
    return `${fill} ${pattern} ${label}`;
  });
}

test("slices that are not the same look different, without their letters too", () => {
  for (const parts of [[8], [4, 8], [2, 2, 2], [1, 16, 4], [3, 24], [2, 2, 2, 2, 2, 2]]) {
    const all = looks(parts).map((look) => look.split(" ").slice(0, 2).join(" "));
    assert.equal(new Set(all).size, all.length, parts.join("x"));
  }
});

test("what is whole has no letter", () => {
  assert.equal(identity({ parts: [1, 1], slices: 1 }, 0).label, "");
  assert.equal(identity({ parts: [4], slices: 4 }, 3).label, "D");
});

test("slices are numbered row-major", () => {
  assert.deepEqual(indicesOf([2, 1, 4], 6), [1, 0, 2]);
  assert.deepEqual(indicesOf([], 0), []);
});

test("a slice is one range of each axis that is cut; of very many parts they are worked out", () => {
  const shards = {
    parts: [2, 1, 4],
    edges: [[0, 3, 5], [0, 7], []],
    step: [3, 7, 10],
    dims: ["a", "b", "c"],
    shape: [5, 7, 38],
    splits: [["data"], [], ["model"]],
  };
  assert.deepEqual(rangesOf(shards, 7), [
    { dim: "a", axes: ["data"], range: [3, 5], full: 3 },
    { dim: "c", axes: ["model"], range: [30, 38], full: 10 },
  ]);
});

test("the ramp gets lighter all the way, so that no kind of colour blindness takes its order", () => {
  const steps = Array.from({ length: 33 }, (_, i) => luminance(ramp(i / 32)));
  assert.ok(steps.every((each, i) => i === 0 || each > steps[i - 1]));
  assert.deepEqual(channels("#46307e"), [70, 48, 126]);
});

// Machado, Oliveira, Fernandes 2009, severity 1, on linear RGB; https://doi.org/10.1109/TVCG.2009.113, table 1.
const BLIND = {
  protanopia: [0.152286, 1.052583, -0.204868, 0.114503, 0.786281, 0.099216, -0.003882, -0.048116, 1.051998],
  deuteranopia: [0.367322, 0.860646, -0.227968, 0.280085, 0.672501, 0.047413, -0.01182, 0.04294, 0.968881],
  tritanopia: [1.255528, -0.076749, -0.178779, -0.078411, 0.930809, 0.147602, 0.004733, 0.691367, 0.3039],
};
const linear = (share: number) => (share <= 0.04045 ? share / 12.92 : ((share + 0.055) / 1.055) ** 2.4);

/** @returns the colour in OKLab (https://bottosson.github.io/posts/oklab), as seen */
function seen(hex: string, matrix: number[]): number[] {
  const rgb = channels(hex).map((each) => linear(each / 255));
  const [r, g, b] = [0, 3, 6].map((row) => rgb.reduce((sum, each, i) => sum + matrix[row + i] * each, 0));
  const l = Math.cbrt(0.4122214708 * r + 0.5363325363 * g + 0.0514459929 * b);
  const m = Math.cbrt(0.2119034982 * r + 0.6806995451 * g + 0.1073969566 * b);
  const s = Math.cbrt(0.0883024619 * r + 0.2817188376 * g + 0.6299787005 * b);
  return [
    0.2104542553 * l + 0.793617785 * m - 0.0040720468 * s,
    1.9779984951 * l - 2.428592205 * m + 0.4505937099 * s,
    0.0259040371 * l + 0.7827717662 * m - 0.808675766 * s,
  ];
}

test("eight slices are told apart under each kind of colour blindness", () => {
  const fills = Array.from({ length: 8 }, (_, slice) => identity({ parts: [8], slices: 8 }, slice).fill);
  for (const [kind, matrix] of Object.entries({ none: [1, 0, 0, 0, 1, 0, 0, 0, 1], ...BLIND })) {
    const colours = fills.map((fill) => seen(fill, matrix));
    for (let i = 1; i < 8; i += 1) {
      const distance = Math.hypot(...colours[i].map((each, axis) => each - colours[i - 1][axis]));
      assert.ok(distance > 0.04, `${kind}: ${fills[i - 1]} and ${fills[i]} are ${distance.toFixed(3)} apart`);
    }
  }
});

test("there are as many patterns as are drawn", () => {
  const used = new Set(looks([2, 64]).map((look) => look.split(" ")[1]));
  assert.equal(used.size, PATTERNS);
});

test("slices look as in snapshots", () => {
  const rows = JSON.parse(readFileSync(new URL("./identities.json", import.meta.url), "utf-8"));
  for (const [parts, slice, ...look] of rows) {
    const slices = parts.reduce((all: number, count: number) => all * count, 1);
    const { fill, pattern, label } = identity({ parts, slices }, slice);
    assert.deepEqual([fill, pattern, label], look);
  }
});
