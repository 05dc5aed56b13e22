"""The outline of a program: which stretches of its blocks are copies of one another.

A model whose layers are a Python loop is one long block, the same operations again and again. In the outline of such a
block each turn is one `Copy`, and all turns point at the first of them:

    operations   embed  a b c d  a b c d  a b c d  loss
    outline      embed  Copy     Copy     Copy     loss

What lies around a copy knows it by its `border` alone: the values that it reads, and those of its own that are read
elsewhere. Values at the same place of two borders play the same part. So what planning does with a copy is a function
of how its border lies and is wanted; it is worked out in the numbers of the first copy, and taken over by the others
(`planner_copies`, `wanted`, `prune`). Nothing else changes: step by step the plan is the one without an outline.

Copies are alike in kind (`kinds`) and in wiring: which of its values an operation reads, counted from the start of the
copy, and where two of them are one value.
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
        made: all values that it makes, in order, those of blocks inside as well.
        fills: the operations outside that make those values that it reads and that can be made in any spec.
        first: the first copy of the repeat; None for that one itself.
    """

    operations: tuple[Operation, ...]
    read: tuple[int, ...]
    shown: tuple[int, ...]
    made: tuple[int, ...]
    fills: tuple[Operation, ...]
    first: Copy | None = None

    @functools.cached_property
    def border(self) -> tuple[int, ...]:
        """All values by which it is known around it."""
        return (*self.read, *self.shown)

    @property
    def model(self) -> Copy:
        """The first copy of the repeat, in whose numbers it is planned."""
        return self.first or self

    @functools.cached_property
    def values(self) -> dict[int, int]:
        """The values here by those of the first copy."""
        pairs = ((self.model.border, self.border), (self.model.made, self.made))
        return {a: b for before, after in pairs for a, b in zip(before, after, strict=True)}

    @functools.cached_property
    def models(self) -> dict[int, int]:
        """The values in the first copy by those here."""
        return {own: model for model, own in self.values.items()}

    @functools.cached_property
    def places(self) -> dict[int, int]:
        """The place of each value that it makes."""
        return {value: place for place, value in enumerate(self.made)}

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
    return {value: item for item in items if isinstance(item, Copy) for value in item.made}


class _Outliner:
    """Finds the copies of one program's blocks."""

    def __init__(self, program: Program, least_saved: int):
        self.program, self.least_saved = program, least_saved
        self.kinds = Kinds(program)

    def items(self, block: Block) -> tuple[Item, ...]:
        """The operations of a block, copies in the place of theirs."""
        operations, last = block.operations, _last_reads(block)
        items: list[Item] = []
        done = 0
        for repeat in repeats(np.array([self.kinds.operation(op) for op in operations]), self.least_saved):
            start, period, count = _widened(repeat, operations)
            items += operations[done:start]
            done = start + period * count
            starts = range(start, done, period)
            turns = [_Turn(self.program, self.kinds, operations[at : at + period], at) for at in starts]
            for _, alike in itertools.groupby(turns, key=lambda turn: turn.pattern):
                items += _copies(list(alike), last)
        return (*items, *operations[done:])


def _widened(repeat: Repeat, operations: tuple[Operation, ...]) -> Repeat:
    """Many copies of a single operation, as of a long sum, are taken for fewer copies of several."""
    start, period, count = repeat
    wide = math.isqrt(count) if period == 1 and not operations[start].blocks else 1
    return Repeat(start, period * wide, count // wide)


def _last_reads(block: Block) -> dict[int, int]:
    """The position of the last operation that reads each value."""
    last: dict[int, int] = {}
    for position, operation in enumerate(block.operations):
        last.update(dict.fromkeys(operation.reads, position))
        for inside in operation.blocks:
            last.update(dict.fromkeys(outside_reads(inside), position))
    last.update((o, len(block.operations)) for o in block.outputs if isinstance(o, int))
    return last


def _copies(turns: list[_Turn], last: Mapping[int, int]) -> Iterable[Item]:
    """The copies that turns alike are; a value that is read outside one copy is in the border of all."""
    if len(turns) == 1:
        return turns[0].operations
    shown = sorted(set().union(*(turn.shown(last) for turn in turns)))
    copies: list[Copy] = []
    for turn in turns:
        produced = tuple(turn.made)
        border = (tuple(turn.read), tuple(produced[i] for i in shown))
        copies.append(Copy(turn.operations, *border, produced, tuple(turn.fills), copies[0] if copies else None))
    return copies


class _Turn:
    """One turn of a repeat, and how it is wired.

    Attributes:
        operations: its operations.
        made: the values that it makes, in order, with their places.
        read: the values from outside that it reads, in order; and those that these are, or are made of on the spot.
        fills: the operations that make values from outside on the spot.
        pattern: for each read the place of the value: from 0 among those made, from -1 down among those read.
    """

    def __init__(self, program: Program, kinds: Kinds, operations: tuple[Operation, ...], start: int):
        self.program, self.kinds = program, kinds
        self.operations, self.stop = operations, start + len(operations)
        self.made: dict[int, int] = {}
        self.read: dict[int, int] = {}
        self.fills: list[Operation] = []
        self.pattern: list[int] = []
        self.follow(operations)

    def follow(self, operations: tuple[Operation, ...]):
        """Takes note of what operations read and make, those of blocks inside as well."""
        for operation in operations:
            self.note(operation.inputs)
            for block in operation.blocks:
                self.make(block.inputs)
                self.follow(block.operations)
                self.note(block.outputs)
            self.make(operation.outputs)

    def make(self, values: Iterable[int]):
        for value in values:
            self.made[value] = len(self.made)

    def note(self, values: Iterable[Input]):
        """Takes note of values that are read."""
        for value in values:
            if isinstance(value, int):
                if value not in self.made and value not in self.read:
                    self.read[value] = len(self.read)
                    self.pattern.append(self.kinds.value(value))
                    self.origin(value)
                place = self.made.get(value)
                self.pattern.append(place if place is not None else -1 - self.read[value])

    def origin(self, value: int):
        """Takes note of what a value from outside is the array of, or is made of on the spot."""
        if value in self.program.roots:
            self.note([self.program.roots[value]])
        elif value in self.program.free:
            operation = self.program.makers[value]
            self.fills.append(operation)
            self.pattern.append(self.kinds.operation(operation))
            self.note(operation.inputs)

    def shown(self, last: Mapping[int, int]) -> set[int]:
        """The places of values that are read elsewhere, and of what these are the array of, or are made of."""
        outputs = (v for operation in self.operations for v in operation.outputs)
        waiting = [v for v in outputs if last.get(v, -1) >= self.stop]
        places: set[int] = set()
        while waiting:
            value = waiting.pop()
            if value in self.made and self.made[value] not in places:
                places.add(self.made[value])
                waiting += [self.program.roots[value]] if value in self.program.roots else []
                waiting += self.program.makers[value].reads if value in self.program.free else ()
        return places
