// @ts-check
/** Numbers as a reader sees them. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { bytes, letter, percent, plural, seconds, signedBytes, signedPoints, signedSeconds } from "../src/format.js";

test("bytes have three digits and powers of 1000", () => {
  assert.deepEqual([0, 999, 999.6, 1628116, 12345678, -4000, 999_500].map(bytes), [
    "0 B",
    "999 B",
    "1.00 kB",
    "1.63 MB",
    "12.3 MB",
    "−4.00 kB",
    "1.00 MB",
  ]);
  assert.deepEqual([0, 4000, -4000].map(signedBytes), ["±0", "+4.00 kB", "−4.00 kB"]);
});

test("seconds have three digits", () => {
  assert.deepEqual([0, 2, 0.00342, 3.46e-7, -0.5].map(seconds), ["0 s", "2 s", "3.42 ms", "346 ns", "−500 ms"]);
  assert.deepEqual([9.994e-4, 9.996e-4, 0.99951, 123456].map(seconds), ["999 µs", "1 ms", "1 s", "123,000 s"]);
  assert.deepEqual([0, 0.002].map(signedSeconds), ["±0", "+2 ms"]);
});

test("shares, counts and letters", () => {
  assert.deepEqual([percent(0.125), percent(1), signedPoints(-0.875)], ["12.5%", "100%", "−87.5 pts"]);
  assert.deepEqual([plural(1, "device"), plural(2048, "device")], ["1 device", "2,048 devices"]);
  assert.deepEqual([0, 25, 26].map(letter), ["A", "Z", "AA"]);
});
