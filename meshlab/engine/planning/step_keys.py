"""Keys: a value's number and its spec on one device, by which steps are read.

    mul  [data, model] → [data, model]         reads (3, [data, model]), (5, [data, model]); makes (7, [data, model])
    all-gather over model  of 7                reads (7, [data, model]);                     makes (7, [data, ·])

A rename or a tag is the same array under another name, so keys have the number of its original
(`Program.original_of`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Protocol

from ..code.operations import Input
from ..specs.spec import Spec

Key = tuple[int, Spec]
Originals = Mapping[int, int]
# Values that are read, and the spec of each; None for a literal, or for what is not read. And values that are made.
Border = tuple[Sequence[Input], Sequence[Spec | None]]
Made = tuple[Sequence[int], Sequence[Spec]]


class HasKeys(Protocol):
    """What reads keys and makes some: a step."""

    def keys(self, original_of: Originals) -> tuple[tuple[Key, ...], tuple[Key, ...]]:
        """Returns the keys that it reads, and those that it makes."""
        ...


def keys(values: Sequence[Input], specs: Sequence[Spec | None], original_of: Originals) -> tuple[Key, ...]:
    """Returns the keys of values in specs; literals, and values that are not read, have none."""
    return tuple(
        [
            (original_of.get(value, value), spec)
            for value, spec in zip(values, specs, strict=True)
            if spec is not None and isinstance(value, int)
        ]
    )


def from_around(steps: Iterable[HasKeys], known: Iterable[Key], returned: Iterable[Key], original_of: Originals):
    """Yields the keys that steps, or whoever they return something to, read from around them.

    Args:
        steps: in order.
        known: the keys that they are given.
        returned: the keys that they return.
        original_of: the originals of renames and tags, by number.
    """
    defined = set(known)
    for step in steps:
        read, made = step.keys(original_of)
        yield from [key for key in read if key not in defined]
        defined.update(made)
    yield from [key for key in returned if key not in defined]
