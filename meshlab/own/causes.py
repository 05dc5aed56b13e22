"""Says why XLA's partitioner inserted a collective, from the shardings of what the operation reads and makes.

    summed        an axis that the operation adds up is split over the collective's mesh axes
    along         an axis is split along which the operation cuts, orders or looks up
    constrained   an operand is split over them where a constraint on the result is not
    otherwise     an operand or the result is split over them where the others are not
    stored        a result must come out otherwise than it is made
    made          a value, or what it is computed of, is split, and read whole
    read          a value is made whole, and its reader is split
    hop           part of a move that goes over other mesh axes too
    manual        the user's own, inside a `shard_map`
    whole         all arrays of the operation are split alike, and the partitioner gathers one all the same
    own           none of these: the partitioner's own way to run the primitive

Each is asked in this order, of the operations that the collective's `op_name` names.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import NamedTuple

from ..engine.code.operations import Operation
from ..engine.code.source import Source
from ..engine.collectives.kinds import KINDS
from ..engine.rules.table import AxisFactors
from ..engine.specs.spec import Axes
from .decided import Splits
from .subject import Constrained, Subject

# How far from an operation a cause is looked for, among what it is computed of.
_DEPTH = 6
# How a result is asked for: of each axis its mesh axes; None where anything goes.
Asked = Sequence[Axes | None]
# Primitives by which the user says what each device does.
MANUAL = ("shard_map",)


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


@dataclasses.dataclass(frozen=True)
class Cause:
    """Why a collective is there.

    Attributes:
        name: one of those above.
        operation: that it belongs to.
        dims: the axes concerned.
        place: of a result that is stored otherwise.
        constraint: that asks for it.
    """

    name: str
    operation: Operation
    dims: tuple[Found, ...] = ()
    place: str = ""
    constraint: Constrained | None = None

    @property
    def source(self) -> Source | None:
        """The user's line."""
        return (self.constraint.source if self.constraint else None) or self.operation.source


class Causes:
    """Finds causes in one program.

    Args:
        subject: the program.
        shardings: of its values, as decided.
        results: for the value of each result that `out_shardings` asks for, its place and what is asked.
    """

    def __init__(
        self,
        subject: Subject,
        shardings: Mapping[int, Splits | None],
        results: Mapping[int, tuple[str, Splits]],
    ):
        self.subject, self.shardings, self.results = subject, shardings, results

    def of(self, numbers: Collection[Collection[int]], kind: str, axes: Axes) -> Cause | None:
        """Returns the cause of a collective that is made of some equations; None where no operation is known.

        Args:
            numbers: of the equations, each with those around it, innermost first.
            kind: of the collective.
            axes: its mesh axes.
        """
        if found := next(filter(None, (self._on_an_input(one, axes) for one in numbers)), None):
            return found
        around = [next(filter(None, map(self._at, one)), None) for one in numbers]
        operations = [operation for operation in around if operation is not None]
        for operation in operations:
            if operation.name in MANUAL:
                return Cause("manual", operation)
            for name, test in _TESTS:
                if found := test(self, operation, kind, axes):
                    return Cause(found.name or name, found.operation or operation, *found[:3])
        for operation in operations:
            if found := self.whole(operation, kind, axes):
                return Cause("whole", operation, found.dims)
        return Cause("own", operations[0]) if operations else None

    def _at(self, number: int) -> Operation | None:
        """The operation of an equation; of a constraint on what comes in, what reads that."""
        constraint = self.subject.on_inputs.get(number)
        return self.subject.makers.get(number) if constraint is None else self._reader(constraint.value)

    def _reader(self, value: int) -> Operation | None:
        return next(iter(self.subject.readers.get(value, ())), None)

    def _on_an_input(self, numbers: Collection[int], axes: Axes) -> Cause | None:
        """Of a collective that a constraint makes which stands on what comes in: nothing makes it."""
        constraint = self.subject.on_inputs.get(next(iter(numbers), -1))
        reader = self._reader(constraint.value) if constraint else None
        dims = self._left(constraint, axes) if constraint else ()
        return Cause("constrained", reader, dims, constraint=constraint) if reader and dims else None

    def _left(self, constraint: Constrained, axes: Axes) -> tuple[Found, ...]:
        """What comes in split over mesh axes, and is not behind a constraint on it."""
        wants = zip(self.split(constraint.value) or (), constraint.splits, strict=False)
        return tuple(
            self._found(constraint.value, axis)
            for axis, (has, asked) in enumerate(wants)
            if asked is not None and set(axes).intersection(has) - set(asked)
        )

    def split(self, value: int) -> Splits | None:
        """How a value is split; of what is computed of one value, element by element, as that is."""
        while value not in self.shardings and (operand := self.subject.passed_on(value)) is not None:
            value = operand
        return self.shardings.get(value)

    def _found(self, value: int, axis: int) -> Found:
        splits = self.split(value)
        return Found(self.subject.dims(value)[axis] or "", value, splits[axis] if splits else ())

    def summed(self, operation: Operation, kind: str, axes: Axes) -> Evidence | None:
        factors = self.subject.factors.get(operation)
        if factors is None or not KINDS[kind].sums:
            return None
        made = {factor for row in factors.results for factor in row}
        found = [
            self._found(value, axis)
            for value, row in zip(operation.inputs, factors.operands, strict=True)
            if isinstance(value, int) and (splits := self.split(value))
            for axis, factor in enumerate(row)
            if factor >= 0 and factor not in made and not set(axes).isdisjoint(splits[axis])
        ]
        return Evidence(tuple(found)) if found else None

    def constrained(self, operation: Operation, _kind: str, axes: Axes) -> Evidence | None:
        """By a constraint on a result, or on what comes in and is read behind it."""
        reads = operation.equation.invars
        for constraint in self.subject.constraints:
            found = ()
            if constraint.value in operation.outputs:
                found = self._turned(operation, axes, constraint.value, constraint.splits)
            elif constraint.value not in self.subject.made_by and constraint.equation.outvars[0] in reads:
                found = self._left(constraint, axes)
            if found:
                return Evidence(found, constraint=constraint)
        return None

    def asked(self, operation: Operation, _kind: str, axes: Axes) -> Evidence | None:
        for value in operation.outputs:
            place, asked = self.results.get(value, ("", ()))
            if place and (found := self._turned(operation, axes, value, asked)):
                return Evidence(found, place)
        return None

    def _turned(self, operation: Operation, axes: Axes, value: int, asked: Asked) -> tuple[Found, ...]:
        """What operands have split where a result, as it is asked for, has not; then what that has over these axes."""
        factors = self.subject.factors.get(operation)
        if factors is None:
            return ()
        row = factors.results[operation.outputs.index(value)]
        found = tuple(
            self._found(operand, axis)
            for operand, theirs, splits in self._arrays(operation)
            if operand not in operation.outputs and splits is not None
            for axis, factor in enumerate(theirs)
            if factor in row and (wants := asked[row.index(factor)]) is not None
            if set(axes).intersection(splits[axis]) - set(wants)
        )
        dims = self.subject.dims(value)
        wanted = (
            Found(dims[axis] or "", value, wants)
            for axis, wants in enumerate(asked)
            if wants and not set(axes).isdisjoint(wants)
        )
        return (*found, *wanted) if found else ()

    def whole(self, operation: Operation, kind: str, axes: Axes) -> Evidence | None:
        """What an operand and a result have split alike: nothing asks for a gather."""
        if KINDS[kind].sums:
            return None
        arrays = self._arrays(operation)
        made = [(row, splits) for value, row, splits in arrays if value in operation.outputs and splits is not None]
        found = tuple(
            self._found(value, axis)
            for value, row, splits in arrays
            if value not in operation.outputs and splits is not None
            for axis, factor in enumerate(row)
            if (here := set(axes).intersection(splits[axis]))
            if any(factor in theirs and here.issubset(of[theirs.index(factor)]) for theirs, of in made)
        )
        return Evidence(found) if found else None

    def otherwise(self, operation: Operation, _kind: str, axes: Axes) -> Evidence | None:
        found = tuple(self._unmatched(operation, axes))
        return Evidence(found) if found else None

    def _unmatched(self, operation: Operation, axes: Axes) -> Iterator[Found]:
        """Yields the axes of an operation's arrays that are split over mesh axes where another array's are not."""
        arrays = self._arrays(operation)
        for value, row, splits in arrays:
            for axis, factor in enumerate(row):
                here = set(axes).intersection(splits[axis]) if splits else set()
                if not here:
                    continue
                others = [
                    set(theirs[other.index(factor)])
                    for one, other, theirs in arrays
                    if one != value and theirs is not None and factor >= 0 and factor in other
                ]
                if not others or any(here - them for them in others):
                    yield self._found(value, axis)

    def _arrays(self, operation: Operation) -> list[tuple[int, AxisFactors, Splits | None]]:
        """The arrays of an operation: the value, the factor of each axis, and how it is split."""
        factors = self.subject.factors.get(operation)
        if factors is None:
            return []
        values, rows = (*operation.inputs, *operation.outputs), (*factors.operands, *factors.results)
        return [(v, row, self.split(v)) for v, row in zip(values, rows, strict=True) if isinstance(v, int)]

    def along(self, operation: Operation, _kind: str, axes: Axes) -> Evidence | None:
        factors = self.subject.factors.get(operation)
        if factors is None:
            return None
        whole = factors.unsharded | factors.per_shard
        found = tuple(
            self._found(value, axis)
            for value, row, splits in self._arrays(operation)
            for axis, factor in enumerate(row)
            if splits and factor in whole and not set(axes).isdisjoint(splits[axis])
        )
        return Evidence(found) if found else None

    def cut(self, operation: Operation, _kind: str, axes: Axes) -> Evidence | None:
        factors, shapes = self.subject.factors.get(operation), self.subject.code.shapes
        arrays = self._arrays(operation)
        if factors is None:
            return None
        sizes: dict[int, set[int]] = {}
        for value, row, _ in arrays:
            for factor, size in zip(row, shapes[value], strict=True):
                sizes.setdefault(factor, set()).add(size)
        found = tuple(
            self._found(value, axis)
            for value, row, splits in arrays
            for axis, factor in enumerate(row)
            if splits and len(sizes[factor]) > 1 and not set(axes).isdisjoint(splits[axis])
        )
        return Evidence(found) if found else None

    def stored(self, operation: Operation, _kind: str, axes: Axes) -> Evidence | None:
        for value in (*operation.outputs, *operation.reads):
            if value not in self.results:
                continue
            place, asked = self.results[value]
            splits = self.split(value) or ((),) * len(asked)
            found = tuple(
                self._found(value, axis)
                for axis, (has, wants) in enumerate(zip(splits, asked, strict=True))
                if not set(axes).isdisjoint(set(has) ^ set(wants))
            )
            if found:
                return Evidence(found, place)
        return None

    def as_read(self, operation: Operation, kind: str, axes: Axes) -> Evidence | None:
        """What holds at a reader of the results: XLA may call a collective after what makes the value that is sent."""
        values = self._handed(operation)
        for reader in (reader for value in values for reader in self.subject.readers.get(value, ())):
            for name, test in _AT_IT:
                found = test(self, reader, kind, axes)
                if found and any(one.value in values for one in found.dims):
                    return found._replace(operation=reader, name=name)
        return None

    def read(self, operation: Operation, _kind: str, axes: Axes) -> Evidence | None:
        return self._at_a_reader(operation, axes, lambda found: found.value not in operation.outputs)

    def read_whole(self, operation: Operation, _kind: str, axes: Axes) -> Evidence | None:
        return self._at_a_reader(operation, axes, lambda found: found.value in operation.outputs)

    def _at_a_reader(self, operation: Operation, axes: Axes, wanted: Callable[[Found], bool]) -> Evidence | None:
        """What is split at the first reader of an operation's results where another array is not."""
        readers = (reader for value in self._handed(operation) for reader in self.subject.readers.get(value, ()))
        each = (tuple(filter(wanted, self._unmatched(reader, axes))) for reader in readers)
        found = next(filter(None, each), ())
        return Evidence(found) if found else None

    def _handed(self, operation: Operation) -> tuple[int, ...]:
        """The results of an operation, and what it hands to its blocks."""
        return (*operation.outputs, *(value for block in operation.blocks for value in block.inputs))

    def made(self, operation: Operation, _kind: str, axes: Axes) -> Evidence | None:
        level = [operation]
        for _ in range(_DEPTH):
            makers = (self.subject.made_by.get(value) for one in level for value in one.reads)
            level = list({id(m): m for m in makers if m is not None and not m.blocks}.values())
            if found := next((f for one in level if (f := tuple(self._unmatched(one, axes)))), ()):
                return Evidence(found)
        return None

    def hop(self, operation: Operation, _kind: str, _axes: Axes) -> Evidence | None:
        found = tuple(self._unmatched(operation, tuple(self.subject.jitted.axes)))
        return Evidence(found) if found else None


class Evidence(NamedTuple):
    """The dims that a test found, the place of a result, a constraint; the operation and cause if they are others."""

    dims: tuple[Found, ...]
    place: str = ""
    constraint: Constrained | None = None
    operation: Operation | None = None
    name: str = ""


_Test = Callable[[Causes, Operation, str, Axes], Evidence | None]
_AT_IT: tuple[tuple[str, _Test], ...] = (
    ("summed", Causes.summed),
    ("along", Causes.along),
    ("constrained", Causes.constrained),
    ("stored", Causes.asked),
    ("otherwise", Causes.otherwise),
    ("along", Causes.cut),
)
_TESTS: tuple[tuple[str, _Test], ...] = (
    *_AT_IT,
    ("stored", Causes.stored),
    ("", Causes.as_read),
    ("made", Causes.read_whole),
    ("read", Causes.read),
    ("made", Causes.made),
    ("hop", Causes.hop),
)
