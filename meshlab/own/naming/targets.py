"""Finds what the user's lines assign, so that a value is called by a name only where it is that name's.

    y = jax.nn.softmax(x @ w)      what softmax divides last is `y`; `x @ w`, and what softmax makes before, are not

The name's is what the line makes by all of its right side, or by an item of a list there, and what is read outside of
that, in the forward pass: what differentiation keeps beside it is read by the backward pass alone.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple

from ...engine.code.loops import LOOPS, carried
from ...engine.code.operations import Code, Operation, walk
from ...engine.code.source import Columns, Source, source_of
from ...engine.jax_compat import columns, is_backward


class Target(NamedTuple):
    """What a line assigns, by the parts of it that make that."""

    source: Source
    parts: frozenset[Columns]


def assigned(code: Code, readers: Mapping[int, Sequence[Operation]]) -> dict[int, str]:
    """Returns the name that each value was assigned to, of those that were.

    Where what is read of one right side comes of several operations, which of them make what is assigned is not known.
    """
    leaving = Leaving(code, readers)
    made: dict[Target, list[Operation]] = {}
    for operation in walk(code.block):
        source = operation.source
        parts = source.assigned if source is not None and not operation.backward else ()
        if source is not None and parts and any(leaving.is_read(v, source, parts) for v in operation.outputs):
            made.setdefault(Target(source, frozenset(parts)), []).append(operation)
    return {
        value: target.source.target or ""
        for target, operations in made.items()
        if len({operation.name for operation in operations}) == 1
        for operation in operations
        for value in operation.outputs
    }


def held(code: Code, readers: Mapping[int, Sequence[Operation]]) -> dict[int, str]:
    """The same of values that a constraint on the line holds: `total = with_sharding_constraint(x @ w, …)`."""
    leaving = Leaving(code, readers)
    found: dict[int, str] = {}
    for value, equation in code.constraints:
        source = source_of(equation)
        if source is None or is_backward(equation) or not source.assigned:
            continue
        if leaving.is_read(value, source, source.assigned):
            found.setdefault(value, source.target or "")
    return found


class Leaving:
    """Tells which values are read outside of the part of a line that makes them."""

    def __init__(self, code: Code, readers: Mapping[int, Sequence[Operation]]):
        self.readers = readers
        self.results = {value for value in code.block.outputs if isinstance(value, int)}
        # What a block inside returns is what the operation around makes; None: it goes into the next turn, or a test.
        self.outside: dict[int, list[int | None]] = {}
        for around in walk(code.block):
            for block in around.blocks:
                inside = len(block.outputs) != len(around.outputs)
                for i, value in enumerate(block.outputs):
                    if isinstance(value, int):
                        made = None if inside or _goes_round(around, i) else around.outputs[i]
                        self.outside.setdefault(value, []).append(made)

    def is_read(self, value: int, source: Source, parts: Collection[Columns]) -> bool:
        """Whether the forward pass reads a value outside of parts of a line."""
        if value in self.results or any(_is_outside(one, source, parts) for one in self.readers.get(value, ())):
            return True
        outside = self.outside.get(value, ())
        return any(made is None or self.is_read(made, source, parts) for made in outside)


def _goes_round(operation: Operation, position: int) -> bool:
    return operation.name in LOOPS and position < carried(operation)


def _is_outside(reader: Operation, source: Source, parts: Collection[Columns]) -> bool:
    if reader.backward:
        return False
    around = columns(reader.equation, source.file, source.line)
    own = reader.source.columns if reader.source == source and reader.source is not None else ()
    return not set(parts).intersection((*around, *own))
