"""Named dimensions: `Batch, Hidden = dims(batch=100, hidden=1024)`.

A dim is a name and a size. Within one program a name has one size; two dims of one name and different sizes that meet
are an error (Mesh TensorFlow takes the pair for the identity and silently computes an outer product instead).
Wherever meshlab takes a dim it takes its name as well.
"""

from __future__ import annotations

import dataclasses
import operator
import re

from .errors import DimError

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")


def is_name(text: str) -> bool:
    """Says whether a text can name a dim or a mesh axis."""
    return bool(_NAME.match(text))


@dataclasses.dataclass(frozen=True)
class Dim:
    """A named dimension.

    Args:
        name: letters, digits and underscores, so that it can stand in a layout string.
        size: at least 1.

    Raises:
        DimError: the name or the size cannot be used.
    """

    name: str
    size: int

    def __post_init__(self):
        if not isinstance(self.name, str) or not is_name(self.name):
            raise DimError(
                f"A dim was named {self.name!r}; a name is letters, digits and `_`, and starts with a letter."
            )
        try:
            size = operator.index(self.size)
        except TypeError:
            raise DimError(f"Dim `{self.name}` was given the size {self.size!r}; a size is an integer.") from None
        if size < 1:
            raise DimError(f"Dim `{self.name}` was given the size {size}; a size is at least 1.")
        object.__setattr__(self, "size", size)

    def __str__(self):
        return f"{self.name}={self.size}"


def dims(**sizes: int) -> tuple[Dim, ...]:
    """Makes several dims at once, in the order given.

    Args:
        sizes: name=size of each dim.

    Returns:
        One `Dim` for each keyword.

    Raises:
        DimError: no keyword was given, or one cannot be a dim.

    Example:
        >>> dims(batch=100, hidden=1024)
        (Dim(name='batch', size=100), Dim(name='hidden', size=1024))
    """
    if not sizes:
        raise DimError("dims() was called without sizes; write dims(batch=100, hidden=1024).")
    return tuple(Dim(name, size) for name, size in sizes.items())


def name_of(dim: Dim | str) -> str:
    """Returns the name of a dim, or the name itself."""
    return dim.name if isinstance(dim, Dim) else dim
