// @ts-check
/** One fetch for a page however many ask; after a failure the next one asks again. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { plotlyOf } from "../src/plotly.js";

test("boards that ask at once share one fetch, and one that failed is begun anew", async () => {
  let fetched = 0;
  const fetch = async () => {
    fetched += 1;
    throw new Error(`nothing at ${fetched}`);
  };
  const [one, other] = [plotlyOf(fetch), plotlyOf(fetch)];
  assert.equal(one, other);
  await assert.rejects(one, /nothing at 1/);
  assert.equal(fetched, 1);
  await assert.rejects(plotlyOf(fetch), /nothing at 2/);
});
