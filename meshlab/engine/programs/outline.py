"""Repeated layers are planned once (outlining and memoisation): the outline says which operations repeat.

A model whose layers are a Python loop is one long block, the same operations again and again. In the outline of such a
block each iteration is one `Repetition`, and the first of them is the representative of all:

    operations   embed  a b c d     a b c d     a b c d     loss
    outline      embed  Repetition  Repetition  Repetition  loss

The operations around a repetition know it by its `interface` alone: its live-ins, the values that it reads, and its
live-outs, those of its own that are read elsewhere. Values at the same position of two interfaces play the same part.
So the plan of a repetition is a function of the specs of its interface; it is worked out for the representative, and
serves the others (`planning/repetitions.py`, `target_specs.py`, `dead_moves.py`). Nothing else changes: step by step
the plan is the one without an outline.

Repetitions are alike in kind (`operation_kinds.py`) and in wiring: which of its values an operation reads, counted from
the start of the repetition, and where two of them are one value.
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
from .operation_kinds import Kinds
from .program import Program, scoped_analysis
from .repeats import Repeat, repeats

# A block is looked through for repeats if it has so many operations; a repeat must save so many.
LEAST_OPERATIONS, LEAST_SAVED = 200, 16


@dataclasses.dataclass(frozen=True, eq=False)
class Repetition:
    """One occurrence of a repeated stretch of a block.

    Attributes:
        operations: the stretch.
        live_ins: the values from outside that it reads; and those that these are, or are made of on the spot.
        live_outs: values of its own that are read elsewhere.
        produced: all values that it makes, in order, those of blocks inside as well.
        deferred: the operations outside that make those live-ins that readers materialise.
        first: the first repetition of the stretch; None for that one itself.
    """

    operations: tuple[Operation, ...]
    live_ins: tuple[int, ...]
    live_outs: tuple[int, ...]
    produced: tuple[int, ...]
    deferred: tuple[Operation, ...]
    first: Repetition | None = None

    @functools.cached_property
    def interface(self) -> tuple[int, ...]:
        """All values by which the operations around know it."""
        return (*self.live_ins, *self.live_outs)

    @property
    def representative(self) -> Repetition:
        """The first repetition of the stretch, in whose numbers all are planned."""
        return self.first or self

    @functools.cached_property
    def from_representative(self) -> dict[int, int]:
        """The values here by those of the representative."""
        first = self.representative
        pairs = ((first.interface, self.interface), (first.produced, self.produced))
        return {a: b for before, after in pairs for a, b in zip(before, after, strict=True)}

    @functools.cached_property
    def to_representative(self) -> dict[int, int]:
        """The values of the representative by those here."""
        return {here: there for there, here in self.from_representative.items()}

    @functools.cached_property
    def positions(self) -> dict[int, int]:
        """The position of each value that it makes."""
        return {value: position for position, value in enumerate(self.produced)}

    @functools.cached_property
    def counterparts(self) -> dict[Operation, Operation]:
        """The operations here by those of the representative."""
        return dict(zip(self.representative._every, self._every, strict=True))

    @functools.cached_property
    def _every(self) -> tuple[Operation, ...]:
        return (*walk(Block((), self.operations, ())), *self.deferred)


Item = Operation | Repetition
Outline = Mapping[Block, tuple[Item, ...]]


def outline_of(program: Program, least_operations: int = LEAST_OPERATIONS, least_saved: int = LEAST_SAVED) -> Outline:
    """Finds the repetitions in the blocks of a program.

    Args:
        program: the program.
        least_operations: how many operations a block must have to be looked through.
        least_saved: how many operations a repeat must save.

    Returns:
        For each block that has repetitions its operations in order, repetitions in place of theirs.
    """
    outliner, with_copies = _Outliner(program, least_saved), {}

    def look(block: Block):
        items = outliner.items(block) if len(block.operations) >= least_operations else block.operations
        if any(isinstance(item, Repetition) for item in items):
            with_copies[block] = items
        for item in items:
            for inside in item.blocks if isinstance(item, Operation) else ():
                look(inside)

    look(program.code.block)
    return with_copies


@scoped_analysis
def outline(program: Program) -> Outline:
    return outline_of(program)


@scoped_analysis
def repetitions_by_value(program: Program) -> dict[int, Repetition]:
    """Finds the repetition in which each value is made, for values that are made in one."""
    items = (item for block in outline(program).values() for item in block)
    return {value: item for item in items if isinstance(item, Repetition) for value in item.produced}


class _Outliner:
    def __init__(self, program: Program, least_saved: int):
        self.program, self.least_saved = program, least_saved
        self.kinds = Kinds(program)

    def items(self, block: Block) -> tuple[Item, ...]:
        """Returns the operations of a block, repetitions in place of theirs."""
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
                items += _repetitions(list(alike), last)
        return (*items, *operations[done:])


def _widened(repeat: Repeat, operations: tuple[Operation, ...]) -> Repeat:
    """Takes many repetitions of a single operation, as of a long sum, for fewer repetitions of several."""
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


def _repetitions(iterations: list[_Iteration], last: Mapping[int, int]) -> Iterable[Item]:
    """Makes repetitions of iterations alike; a value that is read outside one of them is a live-out of all."""
    if len(iterations) == 1:
        return iterations[0].operations
    live_outs = sorted(set().union(*(iteration.live_outs(last) for iteration in iterations)))
    alike: list[Repetition] = []
    for each in iterations:
        produced = tuple(each.produced)
        interface = (tuple(each.live_ins), tuple(produced[i] for i in live_outs))
        first = alike[0] if alike else None
        alike.append(Repetition(each.operations, *interface, produced, tuple(each.deferred), first))
    return alike


class _Iteration:
    """One iteration of a repeat, and how it is wired.

    Attributes:
        operations: its operations.
        produced: the values that it makes, in order, with their positions.
        live_ins: the values from outside that it reads, in order; and those that these are, or are made of on the spot.
        deferred: the operations that make values from outside on the spot.
        pattern: for each read the position of the value: from 0 among those made, from -1 down among those read.
    """

    def __init__(self, program: Program, kinds: Kinds, operations: tuple[Operation, ...], start: int):
        self.program, self.kinds = program, kinds
        self.operations, self.stop = operations, start + len(operations)
        self.produced: dict[int, int] = {}
        self.live_ins: dict[int, int] = {}
        self.deferred: list[Operation] = []
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
                if value not in self.produced and value not in self.live_ins:
                    self.live_ins[value] = len(self.live_ins)
                    self.pattern.append(self.kinds.value(value))
                    self.origin(value)
                position = self.produced.get(value)
                self.pattern.append(position if position is not None else -1 - self.live_ins[value])

    def origin(self, value: int):
        """Takes note of the value that one from outside shares its array with, or is made of on the spot."""
        if value in self.program.original_of:
            self.note([self.program.original_of[value]])
        elif value in self.program.materialisable:
            operation = self.program.makers[value]
            self.deferred.append(operation)
            self.pattern.append(self.kinds.operation(operation))
            self.note(operation.inputs)

    def live_outs(self, last: Mapping[int, int]) -> set[int]:
        """Returns the positions of values read elsewhere, and of those that these share arrays with, or need."""
        outputs = (v for operation in self.operations for v in operation.outputs)
        waiting = [v for v in outputs if last.get(v, -1) >= self.stop]
        positions: set[int] = set()
        while waiting:
            value = waiting.pop()
            if value in self.produced and self.produced[value] not in positions:
                positions.add(self.produced[value])
                waiting += [self.program.original_of[value]] if value in self.program.original_of else []
                waiting += self.program.makers[value].reads if value in self.program.materialisable else ()
        return positions
