"""Reads the bounds that people set, on memory and of goals: numbers, or text as a person writes it.

    read_bytes("≤ 8 kB")          at most 8,000 bytes; "8 kB", "at most 8 kB", "1 GiB" and 8000 will do as well
    read_seconds("90 ms")         at most 0.09 seconds
    read_cap("90%")               0.9, a share of a device's memory; "60 GB" stays a text
    read_count((0, 2))            0 to 2; 2 is exactly 2, "≤ 2", "at least 1" and (1, None) leave an end open

A text keeps its number and unit, so that what is said of it is what its author wrote.
"""

from __future__ import annotations

import contextlib
import dataclasses
import math
import numbers
import re
from collections.abc import Callable, Mapping
from typing import Any

from ...engine.argument_checks import is_whole
from ...engine.errors import MeshlabError, closest, listed, shown
from .units import bytes_text, seconds_text

_BYTES = {f"{prefix}B": 1000.0**power for power, prefix in enumerate(("", "k", "M", "G", "T", "P"))}
_BINARY = {f"{prefix}iB": 1024.0**power for power, prefix in enumerate("KMGTP", 1)}
_SECONDS = {"s": 1.0, "ms": 1e-3, "µs": 1e-6, "ns": 1e-9}
# Units under the names that people also give them.
_ALSO = {"KB": "kB", "bytes": "B", "byte": "B", "seconds": "s", "second": "s", "us": "µs", "μs": "µs"}
_MOST, _LEAST, _EXACTLY = ("≤", "<=", "at most"), ("≥", ">=", "at least"), ("", "=", "exactly")
_NUMBER = r"(?:[0-9]{1,3}(?:,[0-9]{3})+|[0-9]+)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?"
_TEXT = re.compile(rf"\s*(?P<sign>[^0-9.\s-][^0-9.-]*?)?\s*(?P<number>{_NUMBER})\s*(?P<unit>[^\s0-9]\S*)?\s*")
# No bound is longer.
_LONG = 60
# Floating point sums of the same terms, in another order, are the same.
_SLACK = 1 + 1e-9


def read_cap(text: str) -> float | str:
    """Reads a cap on memory: "90%" and "0.9" as a share of a device's, and "60 GB" as itself."""
    share = text.strip()
    with contextlib.suppress(ValueError):
        return float(share.removesuffix("%")) / (100 if share.endswith("%") else 1)
    return share


@dataclasses.dataclass(frozen=True)
class Most:
    """An upper bound.

    Attributes:
        value: in bytes or seconds.
        text: as the goal's author wrote it: "8 kB".
    """

    value: float
    text: str

    @property
    def limit(self) -> float:
        """The bound, with what rounding may add."""
        return self.value * _SLACK

    def holds(self, value: float) -> bool:
        return value <= self.limit


@dataclasses.dataclass(frozen=True)
class Count:
    """The fewest and the most; None where there is no most."""

    least: int
    most: int | None

    def holds(self, count: int) -> bool:
        return self.least <= count and (self.most is None or count <= self.most)

    def of(self, one: str, several: str) -> str:
        """Says how many of something: "exactly 2 all-reduces", "no all-gather"."""
        least, most = self.least, self.most
        if most == 0:
            return f"no {one}"
        how = (
            "exactly" if least == most else "at least" if most is None else "at most" if least == 0 else f"{least:,} to"
        )
        end = least if most is None else most
        return f"{how} {end:,} {one if end == 1 else several}"


def read_bytes(given: Any) -> Most:
    """Reads a number of bytes, or a text with their unit; refuses anything else."""
    return _most(given, {**_BYTES, **_BINARY}, '"8 kB", "≤ 1 GiB" or a number of bytes', _exact_bytes)


def read_seconds(given: Any) -> Most:
    """Reads a number of seconds, or a text with their unit; refuses anything else."""
    return _most(given, _SECONDS, '"90 ms", "≤ 1.5 s" or a number of seconds', seconds_text)


def read_count(given: Any) -> Count:
    """Reads how often: a number for exactly that, a pair of the least and the most, or a text."""
    least, most = _ends(given)
    ends = [end for end in (least, most) if end is not None]
    if least is None or not all(is_whole(end) and end >= 0 for end in ends) or ends != sorted(ends):
        raise MeshlabError(f'{shown(given)} is not a count: write 2 (exactly), (0, 2), "≤ 2" or "at least 1"')
    return Count(int(least), None if most is None else int(most))


def _ends(given: Any) -> tuple[Any, Any]:
    """Returns the fewest and the most as they are given; no fewest of what is no count."""
    if isinstance(given, tuple | list) and len(given) == 2:
        least, most = given
        return (0 if least is None and most is not None else least), most
    match = _matched(given)
    if match is None:
        return given, given
    sign, number = (match["sign"] or "").strip(), _number(match["number"])
    if match["unit"] or not number.is_integer():
        return None, None
    count = int(number)
    ends = {sign: (0, count) for sign in _MOST} | {sign: (count, None) for sign in _LEAST}
    return (ends | {sign: (count, count) for sign in _EXACTLY}).get(sign, (None, None))


def _most(given: Any, units: Mapping[str, float], write: str, text: Callable[[float], str]) -> Most:
    if isinstance(given, numbers.Real) and not isinstance(given, bool):
        with contextlib.suppress(OverflowError):
            if 0 <= float(given) < math.inf:
                return Most(float(given), text(float(given)))
    match = _matched(given)
    if match is None:
        raise MeshlabError(f"{shown(given)} is not a bound: write {write}")
    sign, unit = (match["sign"] or "").strip(), match["unit"]
    if sign and sign not in _MOST:
        raise MeshlabError(f"{shown(given)} is not an upper bound: write {write}; {listed(_MOST)} may come first")
    if unit is None:
        raise MeshlabError(f"{shown(given)} has no unit: write {write}")
    unit = _ALSO.get(unit, unit)
    if unit not in units:
        raise MeshlabError(
            f"{shown(given)}: there is no unit `{unit}`.{_closest(unit, units)} There are {listed(units)}"
        )
    return Most(_number(match["number"]) * units[unit], f"{match['number']} {unit}")


def _matched(given: Any) -> re.Match[str] | None:
    """Returns the sign, the number and the unit of a text; None of anything else."""
    match = _TEXT.fullmatch(given) if isinstance(given, str) and len(given) <= _LONG else None
    return match if match and math.isfinite(_number(match["number"])) else None


def _number(text: str) -> float:
    return float(text.replace(",", ""))


def _closest(unit: str, units: Mapping[str, float]) -> str:
    """Names the unit that differs in its capitals alone, or the nearest."""
    alike = [known for known in units if known.lower() == unit.lower()]
    return f" Did you mean `{alike[0]}`?" if alike else closest(unit, units)


def _exact_bytes(count: float) -> str:
    """Returns bytes in a unit in which three digits say them exactly, else in full where they are few."""
    text = bytes_text(count)
    number, unit = text.split(" ")
    short = number.rstrip("0").rstrip(".") if "." in number else number
    if round(_number(short) * _BYTES[unit]) == count:
        return f"{short} {unit}"
    return text if count >= 1e6 else f"{count:,.0f} B"
