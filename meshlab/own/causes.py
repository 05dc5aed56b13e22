"""Says why XLA's partitioner inserted a collective, from the shardings of what the operation reads and makes.

    summed        an axis that the operation adds up is split over the collective's mesh axes
    along         an axis is split along which the operation cuts, orders or looks up
    otherwise     an operand or the result is split over them where the others are not
    stored        a result must come out otherwise than it is made
    made          a value, or what it is computed of, is split, and read whole
    read          a value is made whole, and its reader is split
    hop           part of a move that goes over other mesh axes too
    manual        the user's own, inside a `shard_map`
    own           none of these: the partitioner's own way to run the primitive

Each is asked in this order, of the operations that the collective's `op_name` names.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Collection, Iterator, Mapping
from typing import NamedTuple

from ..engine.code.operations import Operation
from ..engine.collectives.kinds import KINDS
from ..engine.rules.table import AxisFactors
from ..engine.specs.spec import Axes
from .decided import Splits
from .subject import Subject

# How far from an operation a cause is looked for, among what it is computed of.
_DEPTH = 6
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
    """

    name: str
    operation: Operation
    dims: tuple[Found, ...] = ()
    place: str = ""


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
        makers = self.subject.makers
        around = [next((makers[n] for n in one if n in makers), None) for one in numbers]
        operations = [operation for operation in around if operation is not None]
        for operation in operations:
            if operation.name in MANUAL:
                return Cause("manual", operation)
            for name, test in _TESTS:
                if found := test(self, operation, kind, axes):
                    return Cause(name, operation, found.dims, found.place)
        return Cause("own", operations[0]) if operations else None

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

    def read(self, operation: Operation, _kind: str, axes: Axes) -> Evidence | None:
        return self._at_a_reader(operation, axes, lambda found: found.value not in operation.outputs)

    def read_whole(self, operation: Operation, _kind: str, axes: Axes) -> Evidence | None:
        return self._at_a_reader(operation, axes, lambda found: found.value in operation.outputs)

    def _at_a_reader(self, operation: Operation, axes: Axes, wanted: Callable[[Found], bool]) -> Evidence | None:
        """What is split at the first reader of an operation's results where another array is not."""
        values = (*operation.outputs, *(value for block in operation.blocks for value in block.inputs))
        readers = (reader for value in values for reader in self.subject.readers.get(value, ()))
        each = (tuple(filter(wanted, self._unmatched(reader, axes))) for reader in readers)
        found = next(filter(None, each), ())
        return Evidence(found) if found else None

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
    """The dims that a test found, and the place of a result."""

    dims: tuple[Found, ...]
    place: str = ""


_Test = Callable[[Causes, Operation, str, Axes], Evidence | None]
_TESTS: tuple[tuple[str, _Test], ...] = (
    ("summed", Causes.summed),
    ("along", Causes.along),
    ("otherwise", Causes.otherwise),
    ("along", Causes.cut),
    ("stored", Causes.stored),
    ("made", Causes.read_whole),
    ("read", Causes.read),
    ("made", Causes.made),
    ("hop", Causes.hop),
)
