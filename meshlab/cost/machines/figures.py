"""Figures: numbers about machines, each with its source, and the checks that refuse invalid ones.

    Figure(8.19e11, "Google's documentation of v5e")        bytes/s, looked up
    Figure(-1)                                              HardwareError: A figure must be a finite number …

Users give numbers for their own machines. All problems are reported at once, where they are given, and not as a
negative time or a division by zero three modules later.
"""

from __future__ import annotations

import dataclasses
import math
import numbers
import re
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from ...engine.errors import MeshlabError, closest, listed, shown

# Names of the dtypes of matmuls, as machines have figures for them; narrow floats are one kind for each width.
_KINDS = {"bfloat16": "bf16", "float16": "f16", "float32": "f32", "float64": "f64"}
_KINDS |= {"int8": "int8", "uint8": "int8", "int4": "int4", "uint4": "int4", "int2": "int4", "uint2": "int4"}
KINDS = ("bf16", "f16", "f32", "f64", "fp8", "fp6", "fp4", "int8", "int4")


class HardwareError(MeshlabError):
    """An unknown machine, or an invalid slice, placement or figure."""


@dataclasses.dataclass(frozen=True)
class Figure:
    """A number about a machine.

    Attributes:
        value: in bytes, bytes/s, FLOP/s or seconds.
        source: where it is published.
        verified: whether it was looked up there; otherwise it was recalled.

    Raises:
        HardwareError: the value is no number, not finite, or negative.
    """

    value: float
    source: str = "given by the user"
    verified: bool = True

    def __post_init__(self):
        value = self.value
        if not _is_figure(value):
            raise HardwareError(
                "A figure must be a finite number of bytes, bytes/s, FLOP/s or seconds, 0 or more, not"
                f" {shown(value)} ({self.source})."
            )
        if not isinstance(self.source, str) or not isinstance(self.verified, bool):
            raise HardwareError(
                f"A figure's source must be a text and `verified` True or False, not {shown(self.source)} and"
                f' {shown(self.verified)}: ml.Figure(8.19e11, "where it is published", True).'
            )
        object.__setattr__(self, "value", float(value))

    def __str__(self):
        return f"{self.value:g} ({'' if self.verified else 'recalled, not looked up in its source: '}{self.source})"


def _is_figure(value: Any) -> bool:
    """Returns whether a value is a finite number, and not below zero."""
    if not isinstance(value, numbers.Real) or isinstance(value, bool):
        return False
    try:
        return 0 <= float(value) < math.inf
    except OverflowError:  # an integer that no float can hold
        return False


def figure(value: Any) -> Any:
    """Returns a user's number as a figure.

    An invalid one is returned as it is: the machine that it belongs to reports it, with all else that is wrong.
    """
    return Figure(value) if _is_figure(value) else value


def dtype_name(dtype: Any) -> str:
    """Returns a dtype's own name: "bfloat16" for jnp.bfloat16; for anything else its repr."""
    if isinstance(dtype, str):
        return dtype
    try:
        return shown(dtype) if dtype is None else str(np.dtype(dtype))
    except TypeError:
        return shown(dtype)


def kind_of(dtype: Any) -> str:
    """Returns a machine's name for a dtype of matmuls: "bf16" for bfloat16, "fp8" for float8_e4m3fn."""
    name = dtype_name(dtype)
    narrow = re.match(r"float([468])_", name)
    return f"fp{narrow[1]}" if narrow else _KINDS.get(name, name)


def refuse(what: str, problems: Iterable[str]):
    """Raises a `HardwareError` of all problems, if there are any."""
    listing = "; ".join(problems)
    if listing:
        raise HardwareError(f"Invalid {what}: {listing}.")


def no_figures(owner: Any, above_zero: Iterable[str], others: Iterable[str] = ()) -> list[str]:
    """Returns the problems of the figures among an object's attributes.

    Args:
        owner: the object.
        above_zero: attributes that are divisors.
        others: attributes that may be zero.
    """
    problems, divisors = [], tuple(above_zero)
    for name in (*divisors, *others):
        value = getattr(owner, name)
        least = "above zero" if name in divisors else "0 or more"
        if not isinstance(value, Figure):
            problems.append(f"`{name}` must be {_expected(value, least)}, not {shown(value)}")
        elif name in divisors and not value.value:
            problems.append(f"`{name}` must be above zero, not 0")
    return problems


def _expected(value: Any, least: str) -> str:
    """The kind of value that must be given instead of an invalid one."""
    return "an ml.Figure" if _is_figure(value) else f"a finite number of bytes, bytes/s, FLOP/s or seconds, {least}"


def no_counts(owner: Any, *names: str) -> list[str]:
    """Returns the problems of attributes that must be positive integers."""
    values = ((name, getattr(owner, name)) for name in names)
    return [f"`{name}` must be a positive integer, not {shown(value)}" for name, value in values if not is_count(value)]


def is_count(value: Any) -> bool:
    """Returns whether a value is a positive integer."""
    return isinstance(value, numbers.Integral) and not isinstance(value, bool) and int(value) > 0


def no_rates(flops: Any) -> list[str]:
    """Returns the problems of FLOP/s by dtype."""
    if not isinstance(flops, Mapping):
        return [f'`flops` must give FLOP/s by dtype, {{"bf16": ml.Figure(4e14)}}, not {shown(flops)}']
    problems = [] if flops else ['`flops` is empty; give FLOP/s by dtype, {"bf16": 4e14}']
    for kind, rate in flops.items():
        if not isinstance(kind, str) or kind not in KINDS:
            problems.append(f"`flops` has {kind!r}.{closest(kind, KINDS)} Dtypes are {listed(KINDS)}")
        if not isinstance(rate, Figure):
            problems.append(f"`flops` must have {_expected(rate, 'above zero')} for {kind!r}, not {shown(rate)}")
        elif not rate.value:
            problems.append(f"`flops` has 0 for {kind!r}; leave it out if the machine computes no such matmuls")
    return problems
