"""Says why XLA's partitioner inserted a collective, from the shardings of what the operation reads and makes.

    looked_up     an axis that the operation looks up along is split over the collective's mesh axes: parts add up
    summed        an axis that the operation adds up is split over them
    along         an axis is split along which the operation cuts, orders, looks up or loops
    constrained   an operand is split over them where a constraint on the result is not
    uneven        an axis that the operation cuts or joins does not divide by the mesh axes that split it
    otherwise     an operand or the result is split over them where the others are not
    stored        a result must come out otherwise than it is made, or comes in
    made          a value, or what it is computed of, is split, and read whole
    read          a value is read where another array is split, and is not made so
    hop           part of a move that goes over other mesh axes too
    manual        the user's own, inside a `shard_map`
    whole         all arrays of the operation are split alike, and the partitioner gathers one all the same
    own           none of these: the partitioner's own way to run the primitive

Each is asked in this order, of the operations that the collective's `op_name` names; a size that does not divide only
after what the user asks for, which would be sent all the same if it did.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Collection, Iterator, Sequence

from ..engine.code.loops import LOOPS, carried
from ..engine.code.operations import Literal, Operation
from ..engine.code.source import Source
from ..engine.collectives.kinds import KINDS
from ..engine.rules.traits import names_where
from ..engine.specs.spec import Axes
from .known import Evidence, Found, Known
from .subject import Constrained
from .uneven import uneven, uneven_before
from .wanted import comes_out, constrained, left, passed, stored

# Primitives by which the user says what each device does.
MANUAL = ("shard_map",)
_LOOKUPS = names_where(lambda traits: traits.kind == "gather")


@dataclasses.dataclass(frozen=True)
class Cause:
    """Why a collective is there.

    Attributes:
        name: one of those above.
        operation: that it belongs to; None of what comes in and goes out.
        dims: the axes concerned.
        place: of a result that is stored otherwise.
        size: that does not divide.
        cuts: the operation that cuts an axis into as many parts, or joins as many.
        constraint: that asks for it.
        others: of an operation's arrays those that are not split as one of them is.
    """

    name: str
    operation: Operation | None
    dims: tuple[Found, ...] = ()
    place: str = ""
    size: int = 0
    cuts: Operation | None = None
    constraint: Constrained | None = None
    others: tuple[int, ...] = ()

    @property
    def made(self) -> tuple[int, ...]:
        """What the operation makes."""
        return self.operation.outputs if self.operation else ()

    @property
    def source(self) -> Source | None:
        """The user's line."""
        constraint = self.constraint.source if self.constraint else None
        return constraint or (self.operation.source if self.operation else None)


def _cause(name: str, operation: Operation | None, found: Evidence) -> Cause:
    dims, place, size, cuts, constraint, other, another, others = found
    return Cause(another or name, other or operation, dims, place, size, cuts, constraint, others)


class Causes(Known):
    """Finds causes in one program."""

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
                    return _cause(name, operation, found)
        for operation in operations:
            if found := self.whole(operation, kind, axes):
                return _cause("whole", operation, found)
        return Cause("own", operations[0]) if operations else None

    def of_passed(self, argument: int, results: Sequence[int], axes: Axes) -> Cause | None:
        """Returns the cause of what is sent between an argument and results; see `passed`."""
        found = passed(self, argument, results, axes)
        return _cause("stored", None, found) if found else None

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
        dims = left(self, constraint, axes) if constraint else ()
        return Cause("constrained", reader, dims, constraint=constraint) if reader and dims else None

    def looked_up(self, operation: Operation, kind: str, axes: Axes) -> Evidence | None:
        return self.summed(operation, kind, axes) if operation.name in _LOOKUPS else None

    def summed(self, operation: Operation, kind: str, axes: Axes) -> Evidence | None:
        factors = self.subject.factors.get(operation)
        if factors is None or not KINDS[kind].sums:
            return None
        made = {factor for row in factors.results for factor in row}
        found = [
            self.found(value, axis)
            for value, row in zip(operation.inputs, factors.operands, strict=True)
            if isinstance(value, int) and (splits := self.split(value))
            for axis, factor in enumerate(row)
            if factor >= 0 and factor not in made and not set(axes).isdisjoint(splits[axis])
        ]
        return Evidence(tuple(found)) if found else None

    def otherwise(self, operation: Operation, _kind: str, axes: Axes) -> Evidence | None:
        found = tuple(self._unmatched(operation, axes))
        return Evidence(found, others=self._others(operation, found, axes)) if found else None

    def _others(self, operation: Operation, found: Collection[Found], axes: Axes) -> tuple[int, ...]:
        """The arrays of an operation that have otherwise what another has split over mesh axes."""
        arrays, values = self.arrays(operation), {one.value for one in found}
        split = {
            row[axis]: set(axes).intersection(splits[axis])
            for value, row, splits in arrays
            if value in values and splits
            for axis in range(len(row))
            if not set(axes).isdisjoint(splits[axis])
        }
        return tuple(
            value
            for value, row, splits in arrays
            if value not in values and splits is not None
            if any(factor in split and split[factor] - set(splits[axis]) for axis, factor in enumerate(row))
        )

    def _unmatched(self, operation: Operation, axes: Axes) -> Iterator[Found]:
        """Yields the axes of an operation's arrays that are split over mesh axes where another array's are not."""
        arrays = self.arrays(operation)
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
                    yield self.found(value, axis)

    def along(self, operation: Operation, _kind: str, axes: Axes) -> Evidence | None:
        factors = self.subject.factors.get(operation)
        if factors is None:
            return self._looped(operation, axes)
        whole = factors.unsharded | factors.per_shard
        found = tuple(
            self.found(value, axis)
            for value, row, splits in self.arrays(operation)
            for axis, factor in enumerate(row)
            if splits and factor in whole and not set(axes).isdisjoint(splits[axis])
        )
        return Evidence(found) if found else None

    def _looped(self, operation: Operation, axes: Axes) -> Evidence | None:
        """What a scan reads or makes slice by slice, split along that; unless it carries something otherwise."""
        if operation.name not in LOOPS or operation.body is None:
            return None
        count = carried(operation)
        pairs = zip(operation.inputs[:count], operation.body.inputs, strict=False)
        if any(self._differ(before, inside, axes) for before, inside in pairs):
            return None
        stacks = [v for v in (*operation.inputs[count:], *operation.outputs[count:]) if isinstance(v, int)]
        found = [self.found(value, 0) for value in stacks if self.subject.code.shapes[value]]
        found = tuple(one for one in found if not set(axes).isdisjoint(one.axes))
        return Evidence(found) if found else None

    def _differ(self, one: int | Literal, other: int, axes: Axes) -> bool:
        """Whether two values of equal axes are split otherwise over mesh axes, as far as that is known."""
        mine, theirs = self.split(one) if isinstance(one, int) else None, self.split(other)
        if mine is None or theirs is None:
            return False
        return any(set(axes).intersection(set(a) ^ set(b)) for a, b in zip(mine, theirs, strict=True))

    def cut(self, operation: Operation, _kind: str, axes: Axes) -> Evidence | None:
        factors, shapes = self.subject.factors.get(operation), self.subject.code.shapes
        arrays = self.arrays(operation)
        if factors is None:
            return None
        sizes: dict[int, set[int]] = {}
        for value, row, _ in arrays:
            for factor, size in zip(row, shapes[value], strict=True):
                sizes.setdefault(factor, set()).add(size)
        found = tuple(
            self.found(value, axis)
            for value, row, splits in arrays
            for axis, factor in enumerate(row)
            if splits and len(sizes[factor]) > 1 and not set(axes).isdisjoint(splits[axis])
        )
        return Evidence(found) if found else None

    def whole(self, operation: Operation, kind: str, axes: Axes) -> Evidence | None:
        """What an operand and a result have split alike: nothing asks for a gather."""
        if KINDS[kind].sums:
            return None
        arrays = self.arrays(operation)
        made = [(row, splits) for value, row, splits in arrays if value in operation.outputs and splits is not None]
        found = tuple(
            self.found(value, axis)
            for value, row, splits in arrays
            if value not in operation.outputs and splits is not None
            for axis, factor in enumerate(row)
            if (here := set(axes).intersection(splits[axis]))
            if any(factor in theirs and here.issubset(of[theirs.index(factor)]) for theirs, of in made)
        )
        return Evidence(found) if found else None

    def as_read(self, operation: Operation, kind: str, axes: Axes) -> Evidence | None:
        """What holds at a reader of the results: XLA may call a collective after what makes the value that is sent."""
        values = self._handed(operation)
        for reader in (reader for value in values for reader in self.subject.readers.get(value, ())):
            for name, test in (*_FIRST, *_THEN):
                found = test(self, reader, kind, axes)
                if found and (found.cuts or any(one.value in values for one in found.dims)):
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
        for level in self.computed_of(operation):
            if found := next((f for one in level if (f := tuple(self._unmatched(one, axes)))), ()):
                return Evidence(found)
        return None

    def hop(self, operation: Operation, _kind: str, _axes: Axes) -> Evidence | None:
        found = tuple(self._unmatched(operation, tuple(self.subject.jitted.axes)))
        return Evidence(found) if found else None


_Test = Callable[[Causes, Operation, str, Axes], Evidence | None]
_Tests = tuple[tuple[str, _Test], ...]
_FIRST: _Tests = (
    ("looked_up", Causes.looked_up),
    ("summed", Causes.summed),
    ("along", Causes.along),
    ("constrained", constrained),
    ("stored", comes_out),
    ("uneven", uneven),
)
_THEN: _Tests = (("otherwise", Causes.otherwise), ("along", Causes.cut))
_TESTS: _Tests = (
    *_FIRST,
    ("uneven", uneven_before),
    *_THEN,
    ("stored", stored),
    ("", Causes.as_read),
    ("made", Causes.read_whole),
    ("read", Causes.read),
    ("made", Causes.made),
    ("hop", Causes.hop),
)
