import assert from "node:assert/strict";
import { test } from "node:test";
import { addressOf } from "../src/pages.ts";

test("a page of the project is at its address on the site, with its heading", () => {
  const root = "http://site.test/meshlab/";
  assert.equal(addressOf("docs/accuracy.md#memory", root), `${root}accuracy.html#memory`);
  assert.equal(addressOf("docs/learn.md", root), `${root}learn.html`);
});
