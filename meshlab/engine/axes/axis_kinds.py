"""The kinds of mesh axes, as a table: whoever reads a size, from a person, JSON or a command, reads it by this."""

from __future__ import annotations

import operator
from collections.abc import Mapping
from typing import Any

from .axis import Axis, Devices
from .serial import Serial
from .stages import Stages

# By the name of what makes one; a plain number is a number of devices.
KINDS: dict[str, type[Axis]] = {kind.maker: kind for kind in (Serial, Stages)}


def axis_of(size: int | Axis) -> Axis:
    """Returns the axis that a size means: a number is one of devices."""
    return size if isinstance(size, Axis) else Devices(operator.index(size))


def size_of(axis: Axis) -> int | Axis:
    """Returns what a mesh is given for an axis: a number for one of devices."""
    return axis.size if isinstance(axis, Devices) else axis


def read_axis(given: Any) -> Any:
    """Returns the axis that JSON-like data are of; whatever else is given, or is invalid, as it is.

    Example:
        >>> str(read_axis({"serial": 8, "reduce": "each"})), read_axis({"size": 8})
        ('serial(8, reduce="each")', {'size': 8})
    """
    if not isinstance(given, Mapping):
        return given
    return next((axis for kind in KINDS.values() if (axis := kind.read(given)) is not None), given)
