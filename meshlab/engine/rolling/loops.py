"""Finds the loop that repeated equations are: what its iterations carry, what they read of each layer, what is shared.

    a = f(x, w0)    b = f(a, w1)    c = f(b, w2)        carry, y = scan(f, x, stack(w0, w1, w2))

A literal that differs from layer to layer is a family too, and so are the rows of an array, `keys[i]`.

The iterations are in order of time, and each is of one layer: the first or, as in a backward pass, the last one comes
first. A *family* is one value of each layer, in order of layers, such as (w0, w1, w2): what a loop makes in each
iteration is one, and so is what it carries into each, (x, a, b), which the backward pass reads.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from jax.extend.core import Literal

from .equation_kinds import equal_literals, index_of

Family = tuple[Any, ...]
# Which result of which equation of an iteration.
Result = tuple[int, int]


@dataclasses.dataclass(frozen=True, eq=False)
class Number:
    """A literal that is carried into the first iteration, or read by one layer."""

    literal: Any

    @property
    def aval(self) -> Any:
        return self.literal.aval


def numbers_in(literals: Sequence[Any]) -> Family:
    """Returns the family of literals."""
    return tuple(map(Number, literals))


@dataclasses.dataclass(frozen=True)
class Rows:
    """Rows of an array, one of each layer: `array[start], array[start + step], …`."""

    array: Any
    start: int
    step: int


@dataclasses.dataclass(frozen=True, eq=False)
class Loop:
    """A loop over layers.

    Attributes:
        iterations: the equations of each, in order of time, without those that every iteration computes alike.
        shared: the equations of the first iteration that every one computes alike.
        same: the results of those in the other iterations, by those of the first.
        reverse: whether the last layer comes first.
        constants: what every iteration reads.
        carries: by what each iteration reads, in order of time, the result of the one before.
        slices: the families of which each iteration reads its layer's value.
        rows: of these, those that are rows of arrays.
        reads: by equation and operand, which of these is read; None for a result of the iteration itself.
    """

    iterations: tuple[tuple[Any, ...], ...]
    shared: tuple[Any, ...]
    same: Mapping[Any, Any]
    reverse: bool
    constants: tuple[Any, ...]
    carries: Mapping[Family, Result]
    slices: tuple[Family, ...]
    rows: Mapping[Family, Rows]
    reads: Mapping[tuple[int, int], Any]

    @property
    def first(self) -> Any:
        """The equation where it stands."""
        return self.iterations[0][0]

    def reads_around(self) -> Iterator[Any]:
        """Yields the values and families that it reads."""
        arrays = (rows.array for rows in self.rows.values())
        yield from (*self.constants, *arrays, *self.slices, *(carry[0] for carry in self.carries))

    def in_layers(self, by_time: Sequence[Any]) -> Family:
        """Returns one value of each iteration as one of each layer."""
        return tuple(reversed(by_time)) if self.reverse else tuple(by_time)

    def made(self) -> Iterator[tuple[Family, Result]]:
        """Yields the family of each result of an iteration."""
        for row, equations in enumerate(zip(*self.iterations, strict=True)):
            for column, results in enumerate(zip(*(each.outvars for each in equations), strict=True)):
                yield self.in_layers(results), (row, column)

    def carried_in(self) -> Iterator[tuple[Family, Family]]:
        """Yields the family of what comes into each iteration, with the carry that it is."""
        for carry in self.carries:
            yield self.in_layers(carry), carry


def loop_of(
    iterations: Sequence[Sequence[Any]], families: Mapping[Family, Any], same: Mapping[Any, Any]
) -> Loop | None:
    """Returns the loop that iterations are, all of the same equations; None where they are none.

    Args:
        iterations: the equations of each, in order of time.
        families: those that are known.
        same: the values that are known to be others.
    """
    for reverse in (False, True):
        found = _Reading(iterations, families, same, reverse).loop()
        if found is not None:
            return found
    return None


class _Reading:
    """Reads what iterations read."""

    def __init__(self, iterations: Sequence[Sequence[Any]], families: Any, same: Any, reverse: bool):
        self.iterations, self.families, self.same, self.reverse = iterations, families, same, reverse
        self.places: list[dict[Any, Result]] = [
            {v: (row, column) for row, each in enumerate(equations) for column, v in enumerate(each.outvars)}
            for equations in iterations
        ]
        self.anywhere = {v: None for places in self.places for v in places}
        self.alike: set[int] = set()
        self.rows: dict[int, tuple[Family, Rows]] = {}
        self.reads: dict[tuple[int, int], Any] = {}
        self.carries: dict[Family, Result] = {}
        self.constants: dict[Any, None] = {}
        self.slices: dict[Family, None] = {}

    def loop(self) -> Loop | None:
        for row, equations in enumerate(zip(*self.iterations, strict=True)):
            indices = list(map(index_of, equations))
            if len(set(indices)) > 1:
                if not self.note_rows(row, equations, indices):
                    return None
                continue
            alike = True
            for column in range(len(equations[0].invars)):
                read = tuple(each.invars[column] for each in equations)
                first, *later = (isinstance(v, Literal) for v in read)
                if first and all(later):
                    if equal_literals(read):
                        continue
                    self.note_slice(row, column, numbers_in(self.in_layers(read)))
                # A literal alone can be what is carried into the first iteration.
                elif any(later) or not self.note(row, column, (Number(read[0]), *read[1:]) if first else read):
                    return None
                alike = alike and self.is_alike(row, column)
            if alike:
                self.alike.add(row)
        return self.found() if self.carries else None

    def in_layers(self, read: Sequence[Any]) -> Sequence[Any]:
        return tuple(reversed(read)) if self.reverse else tuple(read)

    def note_slice(self, row: int, column: int, family: Family):
        self.reads[row, column] = family
        self.slices[family] = None

    def note_rows(self, row: int, equations: Sequence[Any], indices: Sequence[int | None]) -> bool:
        """Notes that each iteration takes a row of an array; returns whether these are rows of the layers in order."""
        arrays = {self.same.get(v, v) for v in (each.invars[0] for each in equations) if not isinstance(v, Literal)}
        start, *others = self.in_layers(indices)
        if len(arrays) != 1 or start is None or None in others or arrays & self.anywhere.keys():
            return False
        step = others[0] - start
        if step < 1 or list(others) != [start + step * i for i in range(1, len(indices))]:
            return False
        family = self.in_layers([each.outvars[0] for each in equations])
        self.rows[row] = tuple(family), Rows(arrays.pop(), start, step)
        self.slices[self.rows[row][0]] = None
        return True

    def note(self, row: int, column: int, read: Family) -> bool:
        """Notes what an operand is in each iteration; returns whether a loop has such."""
        inside = {places.get(v) for places, v in zip(self.places, read, strict=True)}
        if inside != {None}:
            place = inside.pop()
            self.reads[row, column] = None
            return not inside and place is not None
        read = tuple(self.same.get(v, v) for v in read)
        if len(set(read)) == 1:
            if read[0] in self.anywhere:
                return False
            self.reads[row, column] = read[0]
            self.constants[read[0]] = None
            return True
        in_layers = tuple(self.in_layers(read))
        if in_layers in self.families:
            self.note_slice(row, column, in_layers)
            return True
        before = {places.get(v) for places, v in zip(self.places, read[1:], strict=False)}
        place = before.pop()
        if before or place is None or read[0] in self.anywhere:
            return False
        self.reads[row, column] = read
        self.carries[read] = place
        return True

    def is_alike(self, row: int, column: int) -> bool:
        """Says whether an operand is the same in every iteration."""
        read = self.reads[row, column]
        if read is None:
            return self.places[0][self.iterations[0][row].invars[column]][0] in self.alike
        return not isinstance(read, tuple)

    def found(self) -> Loop | None:
        if any(place[0] in self.alike or place[0] in self.rows for place in self.carries.values()):
            return None
        own = [row for row in range(len(self.iterations[0])) if row not in self.alike and row not in self.rows]
        rank = {row: position for position, row in enumerate(own)}
        first, *others = self.iterations
        same = {
            v: self.same.get(w, w)
            for row in self.alike
            for each in others
            for v, w in zip(each[row].outvars, first[row].outvars, strict=True)
        }
        reads: dict[tuple[int, int], Any] = {}
        constants: dict[Any, None] = {}
        for (row, column), value in self.reads.items():
            if row in rank:
                operand = first[row].invars[column]
                maker = self.places[0][operand][0] if value is None else -1
                read = self.same.get(operand, operand) if maker in self.alike else value
                read = reads[rank[row], column] = self.rows[maker][0] if maker in self.rows else read
                if read is not None and not isinstance(read, tuple):
                    constants[read] = None
        used = {read for read in reads.values() if isinstance(read, tuple)}
        return Loop(
            tuple(tuple(equations[row] for row in own) for equations in self.iterations),
            tuple(first[row] for row in sorted(self.alike)),
            same,
            self.reverse,
            tuple(constants),
            {carry: (rank[row], column) for carry, (row, column) in self.carries.items()},
            tuple(family for family in self.slices if family in used),
            dict(self.rows.values()),
            reads,
        )
