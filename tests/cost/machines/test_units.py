"""Bytes, seconds, rates and shares as text: three digits, the unit that suits them, and no exponents."""

import json
import pathlib

import pytest

import meshlab
from meshlab.cost.machines.units import bytes_text, count_text, number_text, scaled_text, seconds_text, share_text

TABLE = pathlib.Path(meshlab.__file__).parent / "widgets" / "js" / "test" / "numbers.json"
NUMBERS = json.loads(TABLE.read_text(encoding="utf-8"))
WRITERS = {"bytes": bytes_text, "seconds": seconds_text, "percent": share_text, "number": number_text}


@pytest.mark.parametrize(
    ("kind", "value", "text"), [(kind, value, text) for kind, rows in NUMBERS.items() for value, text in rows]
)
def test_numbers_are_written_as_the_page_writes_them(kind, value, text):
    """The page's own tests hold JavaScript to the same table."""
    assert WRITERS[kind](value) == text


@pytest.mark.parametrize(
    ("value", "unit", "text"),
    [
        (5, "B", "5 B"),
        (1e3, "B", "1 kB"),
        (8.1e11, "B/s", "810 GB/s"),
        (3.83e10, "FLOP/s", "38.3 GFLOP/s"),
        (9.996e14, "FLOP/s", "1 PFLOP/s"),
        (2e21, "FLOP/s", "2,000 EFLOP/s"),
    ],
)
def test_a_unit_gets_its_prefix(value, unit, text):
    assert scaled_text(value, unit) == text


@pytest.mark.parametrize(("share", "text"), [(1, "100%"), (0.5, "50%"), (0.125, "12.5%"), (1 / 512, "0.195%")])
def test_shares_have_three_digits(share, text):
    assert share_text(share) == text


@pytest.mark.parametrize(
    ("count", "text"), [(0, "0"), (24, "24"), (4_608, "4.61 K"), (8_030_261_248, "8.03 B"), (5 * 10**12, "5 T")]
)
def test_a_count_is_written_as_it_is_spoken_of(count, text):
    assert count_text(count) == text
