"""What is in memory while a step runs, as users know it: values with their names, lines, roles and causes."""

from __future__ import annotations

import dataclasses

from ...engine.code.source import Source


@dataclasses.dataclass(frozen=True)
class Alive:
    """One value that is in memory at a step.

    Attributes:
        name: its place, its name in the user's code, or its operation.
        place: its place, if it is an argument or an output.
        dims: the dim of each axis; "1" for an axis of size 1.
        shape: on one device.
        dtype: its dtype.
        bytes: on one device.
        source: the user's line that computes it; None for arguments.
        role: see `roles`.
        because: why it is in memory, and along which mesh axes it is replicated.
        repeated: these mesh axes.
        value: its number, of `plan.program.value`.
    """

    name: str
    place: str | None
    dims: tuple[str, ...]
    shape: tuple[int, ...]
    dtype: str
    bytes: int
    source: Source | None
    role: str
    because: str
    repeated: tuple[str, ...]
    value: int


@dataclasses.dataclass(frozen=True)
class Moment:
    """The memory of one device while one step runs.

    Attributes:
        step: the operation or collective that runs; "start" before the first.
        source: the user's line.
        bytes: in memory at that time.
    """

    step: str
    source: Source | None
    bytes: int
