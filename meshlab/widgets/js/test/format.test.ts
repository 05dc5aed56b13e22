/** Numbers as a reader sees them. */
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import {
  bytes,
  letter,
  loss,
  number,
  percent,
  plural,
  seconds,
  signedBytes,
  signedCount,
  signedSeconds,
} from "../src/format.ts";

const numbers = JSON.parse(readFileSync(new URL("./numbers.json", import.meta.url), "utf-8"));

test("numbers are written as the table has them, which Python's are held to as well", () => {
  for (const [name, text] of Object.entries({ bytes, seconds, percent, number })) {
    const rows = numbers[name] as [number, string][];
    assert.deepEqual(
      rows.map(([value]) => [value, text(value)]),
      rows,
    );
  }
});

test("differences have a sign, and are nothing where there is none", () => {
  assert.deepEqual([0, 4000, -4000].map(signedBytes), ["±0", "+4.00 kB", "−4.00 kB"]);
  assert.deepEqual([0, 0.002, -12700].map(signedSeconds), ["±0", "+2 ms", "−12,700 s"]);
  assert.deepEqual([0, 2157, -3].map(signedCount), ["±0", "+2,157", "−3"]);
});

test("shares, counts and letters", () => {
  assert.deepEqual([percent(0.125), percent(1)], ["12.5%", "100%"]);
  assert.deepEqual([plural(1, "device"), plural(2048, "device")], ["1 device", "2,048 devices"]);
  assert.deepEqual([0, 25, 26].map(letter), ["A", "Z", "AA"]);
});

test("a loss that is no finite number comes in words, and is written as such", () => {
  assert.deepEqual([0.5, "nan", "inf", null].map(loss), ["0.500000", "nan", "inf", "–"]);
});
