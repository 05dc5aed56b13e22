/** The resolution of a PNG: where it stands in the file, and how it is written. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { resolutionOf, withResolution } from "../src/png.ts";

test("300 dots per inch are 11,811 pixels per metre, across and down, with the CRC that other programs write", () => {
  const chunk = Buffer.from(resolutionOf(300));
  assert.equal(chunk.toString("hex"), "00000009" + "70485973" + "00002e23" + "00002e23" + "01" + "78a53f76");
});

test("the chunk stands behind the header, and nothing else changes", async () => {
  const png = Uint8Array.from({ length: 60 }, (_, n) => n);
  const written = withResolution(new Blob([png], { type: "image/png" }), 72);
  const bytes = new Uint8Array(await written.arrayBuffer());
  assert.equal(written.type, "image/png");
  assert.deepEqual([...bytes.slice(0, 33), ...bytes.slice(33 + 21)], [...png]);
  assert.deepEqual(bytes.slice(33, 33 + 21), resolutionOf(72));
});
