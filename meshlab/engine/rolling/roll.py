"""Rolls up a program whose layers are a Python loop: its equations as loops over layers, as groups, and the others.

    forward pass       Loop      what repeats, multiplies, and carries something from layer to layer
    backward pass      Loop      the same, from the last layer to the first
    optimizer          Group     one equation for each layer, of values of that layer: computed for all layers at once
    embedding, loss    Single

Repeats are found by what their equations do (`equation_kinds.py`, `programs/repeats.py`). Of the ways to cut a repeat
into iterations the one counts that carries least: of `norm, attend, norm, attend, norm` the first four.
"""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from jax.extend.core import Literal

from ..code.operations import nbytes
from ..programs.repeats import Repeat, repeats
from .completed import completed
from .equation_kinds import adds, equal_literals, multiplies, numbers_of
from .loops import Family, Loop, loop_of, numbers_in
from .sums_from_zero import sums_from_zero

# A repeat saves so many equations.
_LEAST_SAVED = 2


@dataclasses.dataclass(frozen=True, eq=False)
class Single:
    """An equation that is computed as it is."""

    first: Any

    def reads_around(self) -> Iterator[Any]:
        yield from self.first.invars


@dataclasses.dataclass(frozen=True, eq=False)
class Group:
    """One equation of each layer, which are computed at once.

    Attributes:
        equations: in order of layers.
        operands: for each operand the family that it is, or what all read; None for a literal.
    """

    equations: tuple[Any, ...]
    operands: tuple[Any, ...]

    @property
    def first(self) -> Any:
        """The equation where it stands."""
        return self.equations[0]

    def reads_around(self) -> Iterator[Any]:
        """Yields the values and families that it reads."""
        yield from (read for read in self.operands if read is not None)

    def made(self) -> Iterator[Family]:
        """Yields the family of each result."""
        yield from zip(*(each.outvars for each in self.equations), strict=True)


@dataclasses.dataclass(frozen=True, eq=False)
class Total:
    """The sum of a chain of additions, among whose terms are whole families.

    Attributes:
        first: the last addition, where the sum stands.
        families: those of which all members are terms.
        others: the other terms.
    """

    first: Any
    families: tuple[Family, ...]
    others: tuple[Any, ...]

    def reads_around(self) -> Iterator[Any]:
        """Yields the values and families that it reads."""
        yield from (*self.families, *self.others)


Unit = Single | Group | Total | Loop


@dataclasses.dataclass(frozen=True, eq=False)
class Rolled:
    """A program whose layers are rolled up.

    Attributes:
        units: in an order in which they can be computed.
        families: those that units make, with the unit; of arguments with None.
        same: values that are others: what every iteration computes alike is computed once.
    """

    units: tuple[Unit, ...]
    families: Mapping[Family, Unit | None]
    same: Mapping[Any, Any]

    @property
    def loops(self) -> tuple[Loop, ...]:
        return tuple(unit for unit in self.units if isinstance(unit, Loop))


def roll(equations: Sequence[Any], outputs: Sequence[Any], arguments: Sequence[Family]) -> Rolled:
    """Rolls up a program.

    Args:
        equations: of the program, in order.
        outputs: its results.
        arguments: the families of its arguments.
    """
    results = {v for v in outputs if not isinstance(v, Literal)}
    return _Roller(sums_from_zero(equations, results, arguments), results, arguments).rolled()


class _Roller:
    """Rolls up one program, in one walk over its equations.

    Attributes:
        families: those that are known, with the unit that makes them.
        members: by value, the families that it is in, and of which layer.
        same: values that are others.
        repeated: the same as `numbers`, but for the index at which rows of arrays are taken.
        units: those of the program, by where they stand.
        taken: the rows of equations that are in a loop or a group.
        readers: by value, which equations read it, and as which operand.
        chains: of additions, by the row of the last.
    """

    def __init__(self, equations: Sequence[Any], outputs: Collection[Any], arguments: Sequence[Family]):
        self.equations, self.numbers = equations, numbers_of(equations)
        self.repeated = numbers_of(equations, any_index=True)
        self.families: dict[Family, Unit | None] = dict.fromkeys(arguments)
        self.members: dict[Any, list[tuple[Family, int]]] = {}
        for family in arguments:
            self.register(family)
        self.layer_of = np.array([self.layer(each) for each in equations])
        self.same: dict[Any, Any] = {}
        self.units: dict[tuple[int, int], Unit] = {}
        self.taken: set[int] = set()
        self.readers: dict[Any, list[tuple[int, int]]] = {}
        for row, each in enumerate(equations):
            for column, value in enumerate(each.invars):
                if not isinstance(value, Literal):
                    self.readers.setdefault(value, []).append((row, column))
        self.makers = {v: row for row, each in enumerate(equations) for v in each.outvars}
        self.chains = self.additions(outputs)

    def additions(self, outputs: Collection[Any]) -> dict[int, tuple[list[int], list[Any]]]:
        """Returns chains of additions by the last one's row: the rows of all, and what they add up."""
        chains: dict[int, tuple[list[int], list[Any]]] = {}
        for row, each in enumerate(self.equations):
            if not adds(each):
                continue
            rows, terms = [row], []
            for value in each.invars:
                before = None if isinstance(value, Literal) or value in outputs else self.makers.get(value)
                if before in chains and len(self.readers[value]) == 1:
                    others, inner = chains.pop(before)
                    rows, terms = [*others, *rows], [*terms, *inner]
                else:
                    terms.append(value)
            chains[row] = rows, terms
        return chains

    def total(self, row: int) -> Total | None:
        """Returns the sum that a chain of additions is; None where it adds up no family."""
        rows, terms = self.chains[row]
        if self.taken.intersection(rows):
            return None
        left, families = Counter(each for each in terms if not isinstance(each, Literal)), []
        for value in list(left):
            for family, index in self.members.get(value, ()):
                if index == 0 and not Counter(family) - left:
                    families.append(family)
                    left -= Counter(family)
        if not families:
            return None
        for each in rows:
            self.units.pop((each, 0), None)
        literals = [each for each in terms if isinstance(each, Literal)]
        return Total(self.equations[row], tuple(families), (*literals, *left.elements()))

    def register(self, family: Family):
        for index, value in enumerate(family):
            self.members.setdefault(value, []).append((family, index))

    def layer(self, equation: Any) -> int:
        """Returns of which layer's arguments an equation reads: -1 of none, -2 of several."""
        read = {self.members[v][0][1] for v in equation.invars if not isinstance(v, Literal) and v in self.members}
        return -1 if not read else read.pop() if len(read) == 1 else -2

    def rolled(self) -> Rolled:
        candidates = {r.start: r for r in repeats(self.repeated, _LEAST_SAVED)}
        for row in range(len(self.equations)):
            if row in candidates and (rest := self.take_loop(candidates[row])):
                candidates[rest.start] = rest
            if row in self.chains and (total := self.total(row)):
                self.units[row, 0] = total
            elif row not in self.taken:
                self.units[row, 0] = self.group(row) or Single(self.equations[row])
        units = (unit for _, unit in sorted(self.units.items(), key=lambda pair: pair[0]))
        return Rolled(tuple(unit for unit in units if not self.is_another(unit)), self.families, self.same)

    def is_another(self, unit: Unit) -> bool:
        """Says whether a unit makes what another one makes too."""
        return isinstance(unit, Single) and self.same.keys() >= set(unit.first.outvars)

    def take_loop(self, repeat: Repeat) -> Repeat | None:
        """Takes a repeat for a loop, where it is one; returns what is left of it, where layers are passed twice."""
        best = min(self.loops(repeat), key=lambda found: found[0], default=None)
        if best is None:
            return None
        (_, start, rows), loop = best
        for position, unit in enumerate((*map(Single, loop.shared), loop)):
            self.units[start, position] = unit
        self.taken.update(range(start, start + rows))
        self.same.update(loop.same)
        made = [*loop.rows, *(family for family, _ in (*loop.made(), *loop.carried_in()))]
        for family in made:
            self.families.setdefault(family, loop)
            self.register(family)
        left = (repeat.stop - start - rows) // repeat.period
        return Repeat(start + rows, repeat.period, left) if left > 1 else None

    def loops(self, repeat: Repeat) -> Iterator[tuple[tuple[float, int, int], Loop]]:
        """Yields the loops that a repeat can be, each with the bytes that it carries, where it starts, and its rows."""
        stop = repeat.stop
        while stop < len(self.repeated) and self.repeated[stop] == self.repeated[stop - repeat.period]:
            stop += 1
        counts = sorted({len(family) for family in self.families}, reverse=True)
        # The last iteration may be in parts only, where there is no whole one.
        for missing, count in itertools.product((0, 1), counts):
            there, found = count - missing, False
            for times in range(1, repeat.repetitions // there + 1) if there > 1 else ():
                rows = repeat.period * times
                for start in range(repeat.start, stop - rows * there + 1):
                    for loop, end in self.loops_at(start, rows, count, there):
                        found = True
                        yield (_carried(loop), start, end - start), loop
            if found:
                return

    def loops_at(self, start: int, rows: int, count: int, there: int) -> Iterator[tuple[Loop, int]]:
        """Yields the loop whose iterations start at a row, with the row after its last equation."""
        end = start + rows * there
        if not self.is_in_order(start, rows, count, there):
            return
        cut = [self.equations[at : at + rows] for at in range(start, end, rows)]
        if not any(map(multiplies, cut[0])):
            return
        if there < count:
            numbers = self.numbers[end - rows : end].tolist(), self.numbers[end : end + rows].tolist()
            last = completed(cut, self.equations[end : end + rows], self.members, self.same, numbers)
            if last is None:
                return
            cut, end = [*cut, last.equations], end + last.there
        if (loop := loop_of(cut, self.families, self.same)) is not None:
            yield loop, end

    def is_in_order(self, start: int, rows: int, count: int, there: int) -> bool:
        """Says whether each iteration reads arguments of one layer, the first or the last one first."""
        layers = self.layer_of[start : start + rows * there].reshape(there, rows)
        read, order = layers != -1, np.arange(count)[:, None]
        return any(bool((~read | (layers == each[:there])).all()) for each in (order, order[::-1]))

    def group(self, row: int) -> Group | None:
        """Returns the group of which an equation is the first to be computed; None where there is none."""
        for column, value in enumerate(self.equations[row].invars):
            for family, index in () if isinstance(value, Literal) else self.members.get(value, ()):
                if group := self.grouped(row, column, family, index):
                    return group
        return None

    def grouped(self, row: int, column: int, family: Family, index: int) -> Group | None:
        """Returns the group of those that read a family as the equation at a row does."""
        alike = [self.alike(value, column, row) for value in family]
        if len(set(map(len, alike))) > 1:
            return None
        rows = [each[alike[index].index(row)] for each in alike]
        equations = tuple(self.equations[each] for each in rows)
        if len(set(rows)) < len(rows):
            return None
        operands = []
        for values in zip(*(each.invars for each in equations), strict=True):
            literals = [isinstance(value, Literal) for value in values]
            if all(literals):
                operands.append(None if equal_literals(values) else numbers_in(values))
                continue
            if any(literals):
                return None
            read = tuple(self.same.get(value, value) for value in values)
            if read not in self.families and not self.are_one(read):
                return None
            operands.append(read if read in self.families else self.same.get(read[0], read[0]))
        group = Group(equations, tuple(operands))
        self.taken.update(rows)
        for made in group.made():
            self.families.setdefault(made, group)
            self.register(made)
        return group

    def are_one(self, values: Sequence[Any]) -> bool:
        """Says whether values are the same, or made alike of the same; these are one value from then on."""
        first = values[0]
        if all(value is first for value in values):
            return True
        rows = [self.makers.get(value, -1) for value in values]
        if -1 in rows or self.taken.intersection(rows) or len({self.numbers[row] for row in rows}) > 1:
            return False
        made = [self.equations[row] for row in rows]
        columns = {each.outvars.index(value) for each, value in zip(made, values, strict=True)}
        for read in zip(*(each.invars for each in made), strict=True):
            literals = [isinstance(value, Literal) for value in read]
            if all(literals) and equal_literals(read):
                continue
            if any(literals) or not self.are_one([self.same.get(v, v) for v in read]):
                return False
        if len(columns) > 1:
            return False
        earliest = values[rows.index(min(rows))]
        self.same.update((value, earliest) for value in values if value is not earliest)
        return True

    def alike(self, value: Any, column: int, row: int) -> list[int]:
        """Returns the rows from one on that read a value as one operand, do what that one does, and are not taken."""
        return [
            other
            for other, at in self.readers.get(value, ())
            if at == column and other >= row and self.numbers[other] == self.numbers[row] and other not in self.taken
        ]


def _carried(loop: Loop) -> float:
    return sum(nbytes(math.prod(carry[0].aval.shape), carry[0].aval.dtype) for carry in loop.carries)
