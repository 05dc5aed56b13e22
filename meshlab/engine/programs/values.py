"""The values of a program, as users see them: its arguments, its carried outputs, and any other value."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

from ..code.operations import nbytes
from ..code.source import Source
from .spread_names import Names


@dataclasses.dataclass(frozen=True)
class Argument:
    """One array among the arguments: its place, its value's number, and the parameter that it belongs to."""

    place: str
    value: int
    parameter: str


@dataclasses.dataclass(frozen=True)
class Carry:
    """An output that is the next call's argument: the parameter, the output's index and its place."""

    parameter: str
    output: int
    place: str


@dataclasses.dataclass(frozen=True)
class Value:
    """One value of a program.

    Attributes:
        number: its number in the program.
        dims: the dim name of each axis; None for an axis of size 1; made-up names start with `~`.
        shape: its global shape.
        dtype: its dtype.
        source: the user's line that makes it; None for arguments.
        label: a short name to show.
        place: where it is stored, if it is an argument or an output.
    """

    number: int
    dims: Names
    shape: tuple[int, ...]
    dtype: Any
    source: Source | None
    label: str
    place: str | None

    @property
    def nbytes(self) -> int:
        """Bytes of the unsharded value."""
        return nbytes(math.prod(self.shape), self.dtype)
