"""The space of a search: which dims may be on which mesh axes.

A layout here puts each dim on at most one mesh axis, and is a set of (dim, axis) pairs, its **splits**. It is legal if
every dim is allowed on its axis and no two dims of one operation or stored value share an axis:

    dims batch, hidden; axes data=2, model=2; in one operation   →   7: none; batch:data; ...; batch:model hidden:data

What `Program.plan` would refuse is never in the space, and what is in it is never refused. Rules at places are no part
of it.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Iterable, Iterator, Mapping

from ...engine.programs.axis_conflicts import axis_conflicts, scanned_dims
from ...engine.programs.program import Program
from ..request.constraints import NONE, Constraints, Splits

Dims = frozenset[str]


@dataclasses.dataclass(frozen=True)
class Space:
    """The layouts that are compared.

    Attributes:
        axes: the mesh axes that split anything, with their sizes.
        choices: for each dim, in documented order, the axes that it may be on; None: it stays whole.
        apart: pairs of dims that may not share an axis.
    """

    axes: Mapping[str, int]
    choices: Mapping[str, tuple[str | None, ...]]
    apart: frozenset[Dims]

    @property
    def pinned(self) -> Splits:
        """The splits that all layouts of the space have."""
        return frozenset((d, c[0]) for d, c in self.choices.items() if len(c) == 1 and c[0] is not None)

    def free(self, dims: Iterable[str]) -> Dims:
        """Those of the dims that may be sharded at all."""
        return frozenset(d for d in dims if any(self.choices.get(d, ())))

    def splits(self, dims: Iterable[str] | None = None) -> Iterator[Splits]:
        """Yields every legal layout of the dims (all, by default), the others left out, in documented order.

        Each is part of some layout of the space: it may stand beside what every layout splits.
        """
        chosen_from = frozenset(self.choices if dims is None else dims)
        order, pinned = [d for d in self.choices if d in chosen_from], self.pinned

        def extended(index: int, chosen: Splits) -> Iterator[Splits]:
            if index == len(order):
                yield chosen
                return
            for axis in self.choices[order[index]]:
                if axis is None:
                    yield from extended(index + 1, chosen)
                elif self.fits(order[index], axis, chosen | pinned):
                    yield from extended(index + 1, chosen | {(order[index], axis)})

        yield from extended(0, frozenset())

    def fits(self, dim: str, axis: str, splits: Iterable[tuple[str, str]]) -> bool:
        return all(other != axis or frozenset((dim, d)) not in self.apart for d, other in splits)

    def count(self) -> int:
        dims = [d for d in self.choices if self.free([d])]
        last = {d: max((i for i, e in enumerate(dims) if frozenset((d, e)) in self.apart), default=-1) for d in dims}

        @functools.cache
        def below(index: int, open_splits: Splits) -> int:
            """Counts the ways for the dims from `index` on, given the splits before them that still matter."""
            if index == len(dims):
                return 1
            dim, total = dims[index], 0
            for axis in self.choices[dim]:
                if axis is None or self.fits(dim, axis, open_splits):
                    after = open_splits if axis is None else open_splits | {(dim, axis)}
                    total += below(index + 1, frozenset((d, a) for d, a in after if last[d] > index))
            return total

        return below(0, frozenset())


def documented_order(program: Program) -> tuple[str, ...]:
    """The dims in the order that decides between equally good layouts: later arguments first, so data, then parameters.

    An early dim is placed on an early mesh axis: `batch` on `data`, where both are the first of their kind.
    """
    last_first = list(dict.fromkeys(a.parameter for a in reversed(program.arguments)))
    arguments = sorted(program.arguments, key=lambda a: last_first.index(a.parameter))
    first = dict.fromkeys(n for a in arguments for n in program.names[a.value] if n is not None and n in program.dims)
    return (*first, *(d for d in program.dims if d not in first))


def restricted(splits: Splits, dims: Dims) -> Splits:
    return frozenset(pair for pair in splits if pair[0] in dims)


def space_of(program: Program, axes: Mapping[str, int], constraints: Constraints = NONE) -> Space:
    """Returns the legal layouts of a program."""
    splitting = {a: n for a, n in axes.items() if n > 1}
    pinned = dict(constraints.splits)

    def choices(dim: str) -> tuple[str | None, ...]:
        if dim in pinned:
            return (pinned[dim] if pinned[dim] in splitting else None,)
        if dim in constraints.whole or dim in scanned_dims(program):
            return (None,)
        size, forbidden = program.dims[dim], constraints.forbidden
        return (*(a for a, n in splitting.items() if size % n == 0 and (dim, a) not in forbidden), None)

    dims = {dim: choices(dim) for dim in documented_order(program)}
    return Space(splitting, dims, frozenset(axis_conflicts(program)))
