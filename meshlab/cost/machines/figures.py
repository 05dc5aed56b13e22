"""Figures: numbers about machines, each with its source, and what cannot be one.

    Figure(8.19e11, "Google's documentation of v5e")        bytes/s, looked up
    Figure(-1)                                              HardwareError: A figure is a finite number …

Whoever makes a machine of their own hands in numbers; what is wrong with them is told there, all at once, and not as a
negative time or a division by zero three modules on.
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

# How machines call the dtypes whose products they compute; narrow floats are one kind for each width.
_KINDS = {"bfloat16": "bf16", "float16": "f16", "float32": "f32", "float64": "f64"}
_KINDS |= {"int8": "int8", "uint8": "int8", "int4": "int4", "uint4": "int4", "int2": "int4", "uint2": "int4"}
KINDS = ("bf16", "f16", "f32", "f64", "fp8", "fp6", "fp4", "int8", "int4")


class HardwareError(MeshlabError):
    """A machine, a slice of one, or a figure that there is not."""


@dataclasses.dataclass(frozen=True)
class Figure:
    """A number about a machine.

    Attributes:
        value: in bytes, bytes/s, FLOP/s or seconds.
        source: where it is published.
        verified: whether it was looked up there; otherwise it is recalled.

    Raises:
        HardwareError: the value is no number, not finite, or below zero.
    """

    value: float
    source: str = "given by the user"
    verified: bool = True

    def __post_init__(self):
        value = self.value
        if not _is_figure(value):
            raise HardwareError(
                f"A figure is a finite number of bytes, bytes/s, FLOP/s or seconds, not below zero; {shown(value)} was"
                f" given ({self.source})."
            )
        if not isinstance(self.source, str) or not isinstance(self.verified, bool):
            raise HardwareError(
                f"A figure has the source {shown(self.source)} and verified={shown(self.verified)}; write"
                ' ml.Figure(8.19e11, "where it is published", True).'
            )
        object.__setattr__(self, "value", float(value))

    def __str__(self):
        return f"{self.value:g} ({'' if self.verified else 'recalled, not looked up in its source: '}{self.source})"


def _is_figure(value: Any) -> bool:
    """Whether something is a finite number, and not below zero."""
    if not isinstance(value, numbers.Real) or isinstance(value, bool):
        return False
    try:
        return 0 <= float(value) < math.inf
    except OverflowError:  # an integer that no float can hold
        return False


def figure(value: Any) -> Any:
    """Returns a number that was given by hand as a figure.

    What can be none is returned as it is: what it was to be a figure of tells so, with all else that is wrong.
    """
    return Figure(value) if _is_figure(value) else value


def called(dtype: Any) -> str:
    """Returns a dtype's own name: "bfloat16" for jnp.bfloat16; for what is none, what it is."""
    if isinstance(dtype, str):
        return dtype
    try:
        return shown(dtype) if dtype is None else str(np.dtype(dtype))
    except TypeError:
        return shown(dtype)


def kind_of(dtype: Any) -> str:
    """Returns how machines call a dtype whose products they compute: "bf16" for bfloat16, "fp8" for float8_e4m3fn."""
    name = called(dtype)
    narrow = re.match(r"float([468])_", name)
    return f"fp{narrow[1]}" if narrow else _KINDS.get(name, name)


def refuse(what: str, problems: Iterable[str]):
    """Raises if there is anything wrong with a machine, with all that is wrong.

    Raises:
        HardwareError: there are problems.
    """
    found = list(problems)
    if found:
        raise HardwareError(f"{what} cannot be: {'; '.join(found)}.")


def no_figures(owner: Any, above_zero: Iterable[str], others: Iterable[str] = ()) -> list[str]:
    """Returns what is wrong with the figures among an object's attributes; None is none.

    Args:
        owner: the object.
        above_zero: attributes that divide something.
        others: attributes that may be zero.
    """
    found, divisors = [], tuple(above_zero)
    for name in (*divisors, *others):
        value = getattr(owner, name)
        least = "above zero" if name in divisors else "not below zero"
        if not isinstance(value, Figure):
            found.append(f"`{name}` is {shown(value)}, and is to be {_instead(value, least)}")
        elif name in divisors and not value.value:
            found.append(f"`{name}` is 0, and is to be above zero")
    return found


def _instead(value: Any, least: str) -> str:
    """What is to be given where no figure was."""
    return "an ml.Figure" if _is_figure(value) else f"a finite number of bytes, bytes/s, FLOP/s or seconds, {least}"


def no_counts(owner: Any, *names: str) -> list[str]:
    """Returns which of an object's attributes are no positive integers."""
    values = ((name, getattr(owner, name)) for name in names)
    return [
        f"`{name}` is {shown(value)}, and is to be a positive integer" for name, value in values if not is_count(value)
    ]


def is_count(value: Any) -> bool:
    """Whether something is a positive integer."""
    return isinstance(value, numbers.Integral) and not isinstance(value, bool) and int(value) > 0


def no_rates(flops: Any) -> list[str]:
    """Returns what is wrong with FLOP/s by dtype."""
    if not isinstance(flops, Mapping):
        return [f'`flops` is {shown(flops)}, and is to give FLOP/s by dtype, {{"bf16": ml.Figure(4e14)}}']
    found = [] if flops else ['`flops` is empty; give FLOP/s by dtype, {"bf16": 4e14}']
    for kind, rate in flops.items():
        if not isinstance(kind, str) or kind not in KINDS:
            found.append(f"`flops` has {kind!r}.{closest(kind, KINDS)} Dtypes are {listed(KINDS)}")
        if not isinstance(rate, Figure):
            found.append(f"`flops` has {shown(rate)} for {kind!r}, and is to have {_instead(rate, 'above zero')}")
        elif not rate.value:
            found.append(f"`flops` has 0 for {kind!r}; leave it out if the machine computes no such products")
    return found
