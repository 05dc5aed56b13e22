"""Holds what is known of a program's arrays: how each is split, and what an operation does to its axes.

known.split(42)            (("data",), ()): as XLA decided
known.arrays(operation)    its operands and results, with the factor of each axis
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import NamedTuple

from ..engine.code.operations import Operation
from ..engine.rules.table import AxisFactors
from ..engine.specs.spec import Axes
from .decided import Splits
from .subject import Asked, Constrained, Subject

# How far from an operation a cause is looked for, among what it is computed of.
DEPTH = 6


class Found(NamedTuple):
    """An axis that is split.

    Attributes:
        dim: its name.
        value: the value that has it.
        axes: the mesh axes that split it.
    """

    dim: str
    value: int
    axes: Axes


class Evidence(NamedTuple):
    """What a test found: see `Cause`; the operation and the cause if they are others than those asked about."""

    dims: tuple[Found, ...]
    place: str = ""
    size: int = 0
    cuts: Operation | None = None
    constraint: Constrained | None = None
    operation: Operation | None = None
    name: str = ""
    others: tuple[int, ...] = ()


class Known:
    """What is known of one program.

    Args:
        subject: the program.
        shardings: of its values, as decided.
        results: for the value of each result that `out_shardings` asks for, its places and what is asked.
    """

    def __init__(
        self,
        subject: Subject,
        shardings: Mapping[int, Splits | None],
        results: Mapping[int, Collection[tuple[str, Asked]]],
    ):
        self.subject, self.shardings, self.results = subject, shardings, results

    def split(self, value: int) -> Splits | None:
        """How a value is split; of what is computed of one value, element by element, as that is."""
        while value not in self.shardings and (operand := self.subject.passed_on(value)) is not None:
            value = operand
        return self.shardings.get(value)

    def found(self, value: int, axis: int) -> Found:
        splits = self.split(value)
        return Found(self.subject.dims(value)[axis] or "", value, splits[axis] if splits else ())

    def arrays(self, operation: Operation) -> list[tuple[int, AxisFactors, Splits | None]]:
        """The arrays of an operation: the value, the factor of each axis, and how it is split."""
        factors = self.subject.factors.get(operation)
        if factors is None:
            return []
        values, rows = (*operation.inputs, *operation.outputs), (*factors.operands, *factors.results)
        return [(v, row, self.split(v)) for v, row in zip(values, rows, strict=True) if isinstance(v, int)]

    def computed_of(self, operation: Operation) -> Iterator[list[Operation]]:
        """Yields the operations that make what one reads, those that make what these read, and so on."""
        level = [operation]
        for _ in range(DEPTH):
            makers = (self.subject.made_by.get(value) for one in level for value in one.reads)
            level = list({id(m): m for m in makers if m is not None and not m.blocks}.values())
            yield level
