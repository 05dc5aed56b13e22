"""Bounds as people write them: read alike however they are spelt, and refused where they are none."""

from __future__ import annotations

import pytest

from meshlab.cost.machines.bounds import read_bytes, read_count, read_seconds
from tests.given import ml, refused


@pytest.mark.parametrize(
    ("given", "value", "text"),
    [
        ("≤ 8 kB", 8000, "8 kB"),
        ("<= 8 kB", 8000, "8 kB"),
        ("at most 8kB", 8000, "8 kB"),
        (" 8 KB ", 8000, "8 kB"),
        (8000, 8000, "8 kB"),
        ("1 GiB", 2**30, "1 GiB"),
        (2**30, 2**30, "1.07 GB"),
        ("3,072 B", 3072, "3,072 B"),
        ("3072 bytes", 3072, "3072 B"),
        (3072, 3072, "3,072 B"),
        ("2.5e3 MB", 2.5e9, "2.5e3 MB"),
        (0, 0, "0 B"),
    ],
)
def test_bytes(given, value, text):
    assert (read_bytes(given).value, read_bytes(given).text) == (value, text)


@pytest.mark.parametrize(
    ("given", "value", "text"),
    [("90 ms", 0.09, "90 ms"), ("≤ 1.5 s", 1.5, "1.5 s"), ("at most 20 us", 2e-5, "20 µs"), (0.09, 0.09, "90 ms")],
)
def test_seconds(given, value, text):
    assert read_seconds(given).value == pytest.approx(value)
    assert read_seconds(given).text == text


@pytest.mark.parametrize(
    ("given", "text"),
    [
        (2, "exactly 2 sums"),
        ("2", "exactly 2 sums"),
        ("exactly 1", "exactly 1 sum"),
        ((0, 2), "at most 2 sums"),
        ([None, 1], "at most 1 sum"),
        ("≤ 2", "at most 2 sums"),
        ((1, 3), "1 to 3 sums"),
        ((1, None), "at least 1 sum"),
        ("≥ 2", "at least 2 sums"),
        (0, "no sum"),
        ("at most 0", "no sum"),
    ],
)
def test_counts(given, text):
    assert read_count(given).of("sum", "sums") == text


@pytest.mark.parametrize(
    ("given", "holds"), [(2, {2}), ((0, 2), {0, 1, 2}), ((1, None), {1, 2, 3, 4}), ("≤ 1", {0, 1}), (0, {0})]
)
def test_counts_hold_between_their_ends(given, holds):
    assert {number for number in range(5) if read_count(given).holds(number)} == holds


@pytest.mark.parametrize(
    ("read", "given", "match"),
    [
        (read_bytes, "8", "'8' has no unit"),
        (read_bytes, "8 kb", r"there is no unit `kb`. Did you mean `kB`\?"),
        (read_bytes, "90 ms", "there is no unit `ms`"),
        (read_bytes, "8,5 kB", "'8,5 kB' is not a bound"),
        (read_bytes, "≥ 8 kB", "not an upper bound: .* `≤`, `<=`, `at most` may come first"),
        (read_bytes, "-8 kB", "is not a bound"),
        (read_bytes, -8, "-8 is not a bound"),
        (read_bytes, 10**400, "is not a bound"),
        (read_bytes, "1e999 B", "is not a bound"),
        (read_bytes, float("nan"), "nan is not a bound"),
        (read_bytes, float("inf"), "inf is not a bound"),
        (read_bytes, True, "True is not a bound"),
        (read_bytes, [8], r"\[8\] is not a bound"),
        (read_bytes, " " * 100_000, "is not a bound"),
        (read_seconds, "8 kB", "there is no unit `kB`"),
        (read_seconds, "< 8 s", "not an upper bound"),
        (read_count, (3, 1), r"\(3, 1\) is not a count"),
        (read_count, (None, None), "is not a count"),
        (read_count, (1, 2, 3), "is not a count"),
        (read_count, "1.5", "'1.5' is not a count"),
        (read_count, "2 kB", "is not a count"),
        (read_count, "< 2", "is not a count"),
        (read_count, -1, "-1 is not a count"),
        (read_count, True, "True is not a count"),
        (read_count, None, "None is not a count"),
    ],
)
def test_what_is_no_bound_is_refused(read, given, match):
    refused(lambda: read(given), ml.MeshlabError, match)
