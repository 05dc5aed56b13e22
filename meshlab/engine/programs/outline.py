"""The outline of a program says which stretches of its blocks are copies of one another.

A model whose layers are a Python loop is one long block, the same operations again and again. In the outline of such a
block each iteration is one `Copy`, and all point at the first of them:

    operations   embed  a b c d  a b c d  a b c d  loss
    outline      embed  Copy     Copy     Copy     loss

The operations around a copy know it by its `border` alone: the values that it reads, and those of its own that are read
elsewhere. Values at the same place of two borders play the same part. So the plan of a copy is a function of the specs
of its border; it is worked out in the numbers of the first copy, and taken over by the others (`planning/copies.py`,
`target_specs.py`, `dead_moves.py`). Nothing else changes: step by step the plan is the one without an outline.

Copies are alike in kind (`operation_kinds.py`) and in wiring: which of its values an operation reads, counted from the
start of the copy, and where two of them are one value.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
import math
from collections.abc import Iterable, Mapping

import numpy as np

from ..code.operations import Block, Input, Operation, walk
from ..passes.normalize import outside_reads
from .data import Program, analysis
from .operation_kinds import Kinds
from .repeats import Repeat, repeats

# A block is looked through for repeats if it has so many operations; a repeat must save so many.
LEAST_OPERATIONS, LEAST_SAVED = 200, 16


@dataclasses.dataclass(frozen=True, eq=False)
class Copy:
    """One copy of a repeated stretch of a block.

    Attributes:
        operations: the stretch.
        read: the values from outside that it reads; and those that these are, or are made of on the spot.
        shown: values of its own that are read elsewhere.
        produced: all values that it makes, in order, those of blocks inside as well.
        fills: the operations outside that make those values that it reads and that can be made in any spec.
        first: the first copy of the repeat; None for that one itself.
    """

    operations: tuple[Operation, ...]
    read: tuple[int, ...]
    shown: tuple[int, ...]
    produced: tuple[int, ...]
    fills: tuple[Operation, ...]
    first: Copy | None = None

    @functools.cached_property
    def border(self) -> tuple[int, ...]:
        """All values by which the operations around know it."""
        return (*self.read, *self.shown)

    @property
    def model(self) -> Copy:
        """The first copy of the repeat, in whose numbers it is planned."""
        return self.first or self

    @functools.cached_property
    def values(self) -> dict[int, int]:
        """The values here by those of the first copy."""
        pairs = ((self.model.border, self.border), (self.model.produced, self.produced))
        return {a: b for before, after in pairs for a, b in zip(before, after, strict=True)}

    @functools.cached_property
    def models(self) -> dict[int, int]:
        """The values in the first copy by those here."""
        return {own: model for model, own in self.values.items()}

    @functools.cached_property
    def places(self) -> dict[int, int]:
        """The place of each value that it makes."""
        return {value: place for place, value in enumerate(self.produced)}

    @functools.cached_property
    def renamed(self) -> dict[Operation, Operation]:
        """The operations here by those of the first copy."""
        return dict(zip(self.model._every, self._every, strict=True))

    @functools.cached_property
    def _every(self) -> tuple[Operation, ...]:
        return (*walk(Block((), self.operations, ())), *self.fills)


Item = Operation | Copy
Outline = Mapping[Block, tuple[Item, ...]]


def outline_of(program: Program, least_operations: int = LEAST_OPERATIONS, least_saved: int = LEAST_SAVED) -> Outline:
    """Finds the copies in the blocks of a program.

    Args:
        program: the program.
        least_operations: how many operations a block must have to be looked through.
        least_saved: how many operations a repeat must save.

    Returns:
        For each block that has copies its operations in order, copies in the place of theirs.
    """
    outliner, with_copies = _Outliner(program, least_saved), {}

    def look(block: Block):
        items = outliner.items(block) if len(block.operations) >= least_operations else block.operations
        if any(isinstance(item, Copy) for item in items):
            with_copies[block] = items
        for item in items:
            for inside in item.blocks if isinstance(item, Operation) else ():
                look(inside)

    look(program.code.block)
    return with_copies


@analysis
def outline(program: Program) -> Outline:
    """Finds the copies of repeated stretches, which are planned once."""
    return outline_of(program)


@analysis
def copies_by_value(program: Program) -> dict[int, Copy]:
    """Finds the copy in which each value is made, for values that are made in one."""
    items = (item for block in outline(program).values() for item in block)
    return {value: item for item in items if isinstance(item, Copy) for value in item.produced}


class _Outliner:
    """Finds the copies of one program's blocks."""

    def __init__(self, program: Program, least_saved: int):
        self.program, self.least_saved = program, least_saved
        self.kinds = Kinds(program)

    def items(self, block: Block) -> tuple[Item, ...]:
        """Returns the operations of a block, copies in the place of theirs."""
        operations, last = block.operations, _last_reads(block)
        items: list[Item] = []
        done = 0
        for repeat in repeats(np.array([self.kinds.operation(op) for op in operations]), self.least_saved):
            start, period, count = _widened(repeat, operations)
            items += operations[done:start]
            done = start + period * count
            starts = range(start, done, period)
            iterations = [_Iteration(self.program, self.kinds, operations[at : at + period], at) for at in starts]
            for _, alike in itertools.groupby(iterations, key=lambda iteration: iteration.pattern):
                items += _copies(list(alike), last)
        return (*items, *operations[done:])


def _widened(repeat: Repeat, operations: tuple[Operation, ...]) -> Repeat:
    """Takes many copies of a single operation, as of a long sum, for fewer copies of several."""
    start, period, count = repeat
    wide = math.isqrt(count) if period == 1 and not operations[start].blocks else 1
    return Repeat(start, period * wide, count // wide)


def _last_reads(block: Block) -> dict[int, int]:
    """Returns the position of the last operation that reads each value."""
    last: dict[int, int] = {}
    for position, operation in enumerate(block.operations):
        last.update(dict.fromkeys(operation.reads, position))
        for inside in operation.blocks:
            last.update(dict.fromkeys(outside_reads(inside), position))
    last.update((o, len(block.operations)) for o in block.outputs if isinstance(o, int))
    return last


def _copies(iterations: list[_Iteration], last: Mapping[int, int]) -> Iterable[Item]:
    """Makes copies of iterations alike; a value that is read outside one copy is in the border of all."""
    if len(iterations) == 1:
        return iterations[0].operations
    shown = sorted(set().union(*(iteration.shown(last) for iteration in iterations)))
    copies: list[Copy] = []
    for iteration in iterations:
        produced = tuple(iteration.produced)
        border = (tuple(iteration.read), tuple(produced[i] for i in shown))
        copies.append(
            Copy(iteration.operations, *border, produced, tuple(iteration.fills), copies[0] if copies else None)
        )
    return copies


class _Iteration:
    """One iteration of a repeat, and how it is wired.

    Attributes:
        operations: its operations.
        produced: the values that it makes, in order, with their places.
        read: the values from outside that it reads, in order; and those that these are, or are made of on the spot.
        fills: the operations that make values from outside on the spot.
        pattern: for each read the place of the value: from 0 among those made, from -1 down among those read.
    """

    def __init__(self, program: Program, kinds: Kinds, operations: tuple[Operation, ...], start: int):
        self.program, self.kinds = program, kinds
        self.operations, self.stop = operations, start + len(operations)
        self.produced: dict[int, int] = {}
        self.read: dict[int, int] = {}
        self.fills: list[Operation] = []
        self.pattern: list[int] = []
        self.follow(operations)

    def follow(self, operations: tuple[Operation, ...]):
        """Takes note of the values that operations read and make, in blocks inside as well."""
        for operation in operations:
            self.note(operation.inputs)
            for block in operation.blocks:
                self.make(block.inputs)
                self.follow(block.operations)
                self.note(block.outputs)
            self.make(operation.outputs)

    def make(self, values: Iterable[int]):
        for value in values:
            self.produced[value] = len(self.produced)

    def note(self, values: Iterable[Input]):
        """Takes note of values that are read."""
        for value in values:
            if isinstance(value, int):
                if value not in self.produced and value not in self.read:
                    self.read[value] = len(self.read)
                    self.pattern.append(self.kinds.value(value))
                    self.origin(value)
                place = self.produced.get(value)
                self.pattern.append(place if place is not None else -1 - self.read[value])

    def origin(self, value: int):
        """Takes note of the value that one from outside shares its array with, or is made of on the spot."""
        if value in self.program.roots:
            self.note([self.program.roots[value]])
        elif value in self.program.free:
            operation = self.program.makers[value]
            self.fills.append(operation)
            self.pattern.append(self.kinds.operation(operation))
            self.note(operation.inputs)

    def shown(self, last: Mapping[int, int]) -> set[int]:
        """Returns the places of values that are read elsewhere, and of those that these share arrays with, or need."""
        outputs = (v for operation in self.operations for v in operation.outputs)
        waiting = [v for v in outputs if last.get(v, -1) >= self.stop]
        places: set[int] = set()
        while waiting:
            value = waiting.pop()
            if value in self.produced and self.produced[value] not in places:
                places.add(self.produced[value])
                waiting += [self.program.roots[value]] if value in self.program.roots else []
                waiting += self.program.makers[value].reads if value in self.program.free else ()
        return places
