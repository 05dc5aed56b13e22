"""A dim is a named dimension: `Batch, Hidden = dims(batch=100, hidden=1024)`.

A dim is a name and a size. Within one program a name has one size; two dims of one name and different sizes that meet
are an error (Mesh TensorFlow takes the pair for the identity and silently computes an outer product instead).
Wherever meshlab takes a dim it takes its name as well. Names of dims and of mesh axes follow one rule, `NAME_RULE`:
they stand in layout texts and in the texts of `ml.named`, and look alike only where they are alike.
"""

from __future__ import annotations

import dataclasses
import operator
import re
from typing import Any

from ..argument_checks import is_whole
from ..errors import DimError, shown

# `_` alone is how `ml.named` writes an axis without a name.
_NAME = re.compile(r"(?!_\Z)[A-Za-z_][A-Za-z0-9_]*\Z")
NAME_RULE = "a name is ASCII letters, digits and `_`, with no digit in front (`_` alone is not a name)"


# The largest number that XLA counts with.
_MOST = 2**63 - 1


def is_name(text: Any) -> bool:
    """Says whether something can name a dim or a mesh axis."""
    return isinstance(text, str) and bool(_NAME.match(text))


def proper(text: Any) -> str:
    """Returns " Write `d_model`." where a text becomes a name by other characters between its letters, or ""."""
    name = re.sub(r"\W+", "_", text.strip()) if isinstance(text, str) and text.isascii() else ""
    return f" Write `{name}`." if is_name(name) and name != text else ""


@dataclasses.dataclass(frozen=True)
class Dim:
    """A named dimension.

    Args:
        name: ASCII letters, digits and underscores, so that a layout string can contain it.
        size: at least 1, and of 64 bits.
    """

    name: str
    size: int

    def __post_init__(self):
        if is_whole(self.name) and is_name(self.size):
            given = f"{shown(self.name)}, {shown(self.size)}"
            raise DimError(f"A dim was given {given}; the name comes first: ml.Dim({shown(self.size)}, {self.name}).")
        if not is_name(self.name):
            raise DimError(f"A dim was named {shown(self.name)}; {NAME_RULE}.{proper(self.name)}")
        if not is_whole(self.size):
            raise DimError(f"Dim `{self.name}` was given the size {shown(self.size)}; a size must be an integer.")
        size = operator.index(self.size)
        if size < 1:
            raise DimError(f"Dim `{self.name}` was given the size {size}; a size must be at least 1.")
        if size > _MOST:
            raise DimError(f"Dim `{self.name}` was given the size {shown(size)}; a size must be at most {_MOST:,}.")
        object.__setattr__(self, "size", size)

    def __str__(self):
        return f"{self.name}={self.size}"


@dataclasses.dataclass(frozen=True)
class Ragged(Dim):
    """A dim of rows that stand behind each other in the order of their experts, whichever part they fall into.

    So it has the name and the size of a dim, and is another one: nothing else is in the same order.
    """


def dims(*unnamed: Any, **sizes: int) -> tuple[Dim, ...]:
    """Makes several dims at once, in the order given.

    Args:
        unnamed: nothing: a size without a name is refused.
        sizes: name=size of each dim.

    Returns:
        One `Dim` for each keyword.

    Example:
        >>> dims(batch=100, hidden=1024)
        (Dim(name='batch', size=100), Dim(name='hidden', size=1024))
    """
    if not sizes and not unnamed:
        raise DimError("dims() was called without sizes; write dims(batch=100, hidden=1024).")
    result, problems = [], []
    if unnamed:
        given = ", ".join(map(shown, unnamed))
        problems.append(f"dims() was given {given} without a name; write dims(batch=100, hidden=1024).")
    for name, size in sizes.items():
        try:
            result.append(Dim(name, size))
        except DimError as error:
            problems.append(str(error))
    if problems:
        raise DimError(" ".join(problems))
    return tuple(result)


def name_of(dim: Dim | str, what: str = "meshlab") -> str:
    """Returns the name of a dim, or the name itself."""
    if not isinstance(dim, Dim | str):
        raise DimError(f"{what} was given {shown(dim)} for a dim; give a dim or its name, such as 'batch'.")
    return dim.name if isinstance(dim, Dim) else dim
