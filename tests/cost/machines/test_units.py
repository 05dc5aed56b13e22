"""Bytes, seconds, rates and shares as text: three digits, the unit that suits them, and no exponents."""

import pytest

from meshlab.cost.machines.units import bytes_text, scaled_text, seconds_text, share_text


@pytest.mark.parametrize(
    ("count", "text"),
    [
        (0, "0 B"),
        (999, "999 B"),
        (1000, "1.00 kB"),
        (1_628_116, "1.63 MB"),
        (9_994_999, "9.99 MB"),
        (9_995_000, "10.0 MB"),
        (99_950_000, "100 MB"),
        (999_499_999, "999 MB"),
        (999_500_000, "1.00 GB"),
        (-4000, "−4.00 kB"),
        (5e18, "5000 PB"),
    ],
)
def test_bytes_have_three_digits_in_powers_of_1000(count, text):
    assert bytes_text(count) == text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0 s"),
        (3.46e-7, "346 ns"),
        (1e-6, "1 µs"),
        (9.994e-4, "999 µs"),
        (9.996e-4, "1 ms"),
        (0.00342, "3.42 ms"),
        (-0.00342, "−3.42 ms"),
        (0.99951, "1 s"),
        (12.34, "12.3 s"),
        (123_456.0, "123,000 s"),
    ],
)
def test_seconds_have_three_digits_in_their_unit(seconds, text):
    assert seconds_text(seconds) == text


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
