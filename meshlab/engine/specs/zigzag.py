"""Axes that a layout writes as `zigzag(a+b)`: they split a dim of positions, and inside of attention in zig-zag order.

    kv:zigzag(a) seq:zigzag(a)      each of n devices has inside the i-th and the (2n - 1 - i)-th of 2n halves of parts

Under a causal mask all devices then attend to as much. Everywhere else the dim is split as by `a+b` alone
(`programs/zigzagged.py`).
"""

from __future__ import annotations

import re
from typing import Any

_WRITTEN = re.compile(r"zigzag\((.*)\)\Z", re.DOTALL)


class Zigzag(tuple[str, ...]):
    """Mesh axes, major first, that split positions in zig-zag order inside of attention; no equal of the axes alone."""

    __slots__ = ()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Zigzag) and tuple.__eq__(self, other)

    def __ne__(self, other: object) -> bool:
        return not self == other

    def __hash__(self) -> int:
        return hash((Zigzag, tuple(self)))

    def __repr__(self) -> str:
        return f"Zigzag({', '.join(map(repr, self))})"

    def __getnewargs__(self) -> tuple[Any, ...]:
        return (tuple(self),)


def ordered_as(before: tuple[str, ...], axes: tuple[str, ...]) -> tuple[str, ...]:
    """Returns other axes in place of some: in zig-zag order if those were."""
    return Zigzag(axes) if isinstance(before, Zigzag) and axes else axes


def inside(text: str) -> str | None:
    """Returns what stands in `zigzag(…)`; None where a text is no such.

    Example:
        >>> inside("zigzag(a+b)"), inside("a+b")
        ('a+b', None)
    """
    found = _WRITTEN.match(text)
    return found[1] if found else None


def around(axes: tuple[str, ...], text: str) -> str:
    """Returns the text of axes with `zigzag(…)` around it, if they are such."""
    return f"zigzag({text})" if isinstance(axes, Zigzag) else text


def split(text: str) -> tuple[str, ...]:
    """Reads axes as a dict has them: `data+model`, or `zigzag(data+model)`."""
    within = inside(text)
    return tuple(text.split("+")) if within is None else Zigzag(within.split("+"))


def as_data(axes: tuple[str, ...]) -> str | list[str]:
    """Returns axes as JSON has them: several as a list."""
    return around(axes, "+".join(axes)) if isinstance(axes, Zigzag) or len(axes) == 1 else list(axes)
