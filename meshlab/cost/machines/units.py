"""Bytes, seconds, rates and shares as text: three digits, in powers of 1000; js/src/format.ts writes them alike.

    bytes_text(1628116)             1.63 MB
    seconds_text(0.00342)           3.42 ms
    scaled_text(8.1e11, "B/s")      810 GB/s
    share_text(0.125)               12.5%
    number_text(3072.0)             3,072

Exact counts are written out where they are compared (`1,628,116 B`). Halves are rounded up, as JavaScript does: a test
holds both against one table, `js/test/numbers.json`.
"""

from __future__ import annotations

import decimal

_BYTES = ("B", "kB", "MB", "GB", "TB", "PB")
_PREFIXES = ("", "k", "M", "G", "T", "P", "E")
_SECONDS = (("s", 1.0), ("ms", 1e-3), ("µs", 1e-6), ("ns", 1e-9))
# The least value that three digits round to 1000 of its unit.
_NEXT = 999.5
# From here on a number has six digits before its point.
_WHOLE = 1e6
_THREE = decimal.Context(prec=3, rounding=decimal.ROUND_HALF_UP)


def bytes_text(count: float) -> str:
    """Returns bytes in the unit in which they have at most three digits before the point: "1.63 MB", "4.00 GB"."""
    value, unit = _scaled(count, len(_BYTES))
    digits = 0 if unit == 0 or value >= 99.95 else 1 if value >= 9.995 else 2
    rounded = decimal.Decimal(value).quantize(decimal.Decimal(1).scaleb(-digits), decimal.ROUND_HALF_UP)
    return f"{_sign(count)}{rounded:,f} {_BYTES[unit]}"


def number_text(number: float | None) -> str:
    """Returns a number without a unit: whole ones in full, others to six digits; "" where there is none."""
    if number is None:
        return ""
    return f"{number:,.0f}" if number == round(number) or abs(number) >= _WHOLE else f"{number:,.6g}"


def seconds_text(seconds: float) -> str:
    """Returns seconds as "3.42 ms", "350 ns" or "0 s"; the least unit is a nanosecond."""
    value = abs(seconds)
    if not value:
        return "0 s"
    unit, size = next((each for each in _SECONDS if value >= each[1] * _NEXT / 1000), _SECONDS[-1])
    return f"{_sign(seconds)}{_three_digits(value / size)} {unit}"


def scaled_text(value: float, unit: str) -> str:
    """Returns a value of a unit with the unit's prefix: "810 GB/s", "38.3 GFLOP/s"."""
    size, power = _scaled(value, len(_PREFIXES))
    return f"{_sign(value)}{_three_digits(size)} {_PREFIXES[power]}{unit}"


def count_text(count: int) -> str:
    """Returns a number of things as it is spoken of: "8.03 B" for billions; up to three digits in full."""
    size, power = _scaled(count, 5)
    return f"{_three_digits(size)} {' KMBT'[power]}".rstrip()


def share_text(share: float) -> str:
    """Returns a share of the whole in hundredths: "12.5%"."""
    return f"{_sign(share)}{_three_digits(abs(100 * share))}%"


def _scaled(value: float, powers: int) -> tuple[float, int]:
    """A magnitude over the largest power of 1000 that leaves at least 1 of it, and that power."""
    size, power = float(abs(value)), 0
    while size >= _NEXT and power < powers - 1:
        size, power = size / 1000, power + 1
    return size, power


def _three_digits(value: float) -> str:
    """Three digits, without an exponent and without zeros at the end; large numbers keep what is before the point."""
    return f"{_THREE.create_decimal(float(value)).normalize():,f}"


def _sign(value: float) -> str:
    return "−" if value < 0 else ""
