/** What is drawn of a search: how much is proved, the way to its layout, its regrets, and what it has met. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { nothingText } from "../src/advice.ts";
import { takesText } from "../src/met.ts";
import { endOf, rangeText } from "../src/regrets.ts";
import { isSearching, provedOf, searchedText } from "../src/search.ts";
import { searchText } from "../src/sentences.ts";
import { barOf } from "../src/way.ts";

test("the bar is as full as what every layout costs is of what the best one does", () => {
  assert.equal(provedOf({ value: 2, bound: 0 }), 0);
  assert.equal(provedOf({ value: 2, bound: 1.5 }), 75);
  assert.equal(provedOf({ value: 2, bound: 2 }), 100);
  assert.equal(provedOf({ value: 2, bound: 2.1 }), 100, "rounding");
  assert.equal(provedOf({ value: 0, bound: 0 }), 100, "nothing costs less than nothing");
});

test("a step of the way is what it takes, and what was saved or added", () => {
  assert.deepEqual(barOf({ seconds: 2, by: -1 }, 4), { solid: 50, change: 25 });
  assert.deepEqual(barOf({ seconds: 4, by: 1 }, 4), { solid: 75, change: 25 });
  assert.deepEqual(barOf({ seconds: 3, by: 0 }, 4), { solid: 75, change: 0 });
});

test("brackets reach as far as the longest, those without an end further", () => {
  const row = (share: number | null, least: number | null) => ({ share, least });
  assert.equal(endOf([row(0.3, 0.1), row(0.2, 0)]), 0.3);
  assert.equal(endOf([row(0.3, 0.1), row(null, 0.8)]), 1);
  assert.equal(endOf([row(0, 0), row(null, null)]), 0.01);
});

test("a regret is a range, or a number where it is known", () => {
  assert.equal(rangeText({ share: 0.345, least: 0 }), "+0% to +34.5%");
  assert.equal(rangeText({ share: 0.0687, least: 0.0687 }), "+6.87%");
  assert.equal(rangeText({ share: null, least: 0.5 }), "at least +50%: no layout evaluated fits");
  assert.equal(rangeText({ share: null, least: null }), "at least +0%: no layout evaluated fits");
});

test("what a layout takes is said", () => {
  const met = { layout: "", load: { op: "load", args: {} }, seconds: 2.0179, peak: 21.6e9, fits: true };
  assert.equal(takesText(met), "2.02 s, peak 21.6 GB");
  assert.equal(takesText({ ...met, fits: false }), "2.02 s, peak 21.6 GB, does not fit");
});

test("what is under way can be cancelled: a search, and that for each decision", () => {
  const search = (its: object) => isSearching({ search: its } as any);
  assert.equal(isSearching({ search: null }), false);
  assert.equal(search({ phase: "searching", refining: false }), true);
  assert.equal(search({ phase: "found", refining: true }), true);
  assert.equal(search({ phase: "found", refining: false }), false);
});

test("how a search has ended is said", () => {
  const ended = (its: object) => searchText({ label: "fastest that fits", ...its } as any);
  assert.equal(searchText(null), "");
  assert.equal(ended({ phase: "cancelled" }), "The search for the fastest that fits was cancelled.");
  assert.equal(ended({ phase: "failed", error: "no" }), "The search for the fastest that fits has failed: no");
  const said =
    "The search for the fastest that fits has ended: 2 s. Use this layout, in Compare, puts it on the board.";
  assert.equal(ended({ phase: "found", proof: "proved", said: "2 s" }), said);
});

test("what was searched is said where no single change helps, and Auto's layout is on the board", () => {
  const searched = "40 ways to compute";
  assert.equal(searchedText({ searched, not_searched: "scopes" }), `Searched: ${searched}. Not searched: scopes.`);
  const text = (search: object | null) => nothingText({ search } as any);
  const untold = "No single change makes it better. Auto tries several at once.";
  assert.equal(text(null), untold);
  assert.equal(text({ searched, same: false }), untold, "another layout is on the board");
  assert.equal(text({ searched, same: true, outdated: "The mesh was changed." }), untold, "it was for something else");
  const told = "No single change makes it better. Auto searched 40 ways to compute.";
  assert.equal(text({ searched, same: true, outdated: "" }), told);
});
