"""What the pieces of a collective are of the tensor that it moves: slices of it, equal as `holdings` numbers them.

    all-gather of params/w1     the slices of w1 as it is stored: each device has one at first
    reduce-scatter              those of the result: each device has one at last
    all-to-all                  finer than either end: cut along both dims
    all-reduce                  no slices: equal parts of what a device has, in the order in which it has its numbers

What an operation sends inside it is a tensor that no layout knows: what the devices of the group have of it, together.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from ....engine.collectives.hops import Course
from ....engine.collectives.kinds import KINDS, PAIRS
from ....engine.plans.collective import Collective
from ....engine.specs.spec import Axes
from .holdings import MOST_EDGES, SlicesView
from .sites import indices_of


class Cut(NamedTuple):
    """How the tensor that the devices of a group hold between them is cut into pieces.

    Attributes:
        dims: the names of its axes.
        shape: its size along each.
        step: that of a piece.
        start: the mesh axes that cut it before.
        result: those that cut it afterwards.
        equal: whether the pieces are no slices of a layout, but equal parts of what a device has.
    """

    dims: tuple[str, ...]
    shape: tuple[int, ...]
    step: tuple[int, ...]
    start: tuple[Axes, ...]
    result: tuple[Axes, ...]
    equal: bool = False


def cut_of(found: Collective, course: Course, size: int) -> Cut:
    """Returns how what the devices of a group hold between them is cut.

    Args:
        found: the collective.
        course: how it goes among the devices of the group.
        size: how many they are.
    """
    kind, asked, local = KINDS[found.kind], found.asked, found.shape
    if not (kind.cuts or kind.shard) or (kind.way == PAIRS and found.moved is None):
        dim, count = ("number", math.prod(local)) if course.cut > 1 else ("part", size)
        return Cut((dim,), (count,), (-(-count // size),), (found.axes,), (found.axes,), True)
    step = tuple(n // size if kind.cuts and axis == asked.axis else n for axis, n in enumerate(local))
    if found.moved is not None:
        start = found.moved.start.splits
        return Cut(
            found.dims, found.moved.shape, step, start, start if kind.way == PAIRS else found.moved.result.splits
        )
    joined, rank = asked.other if kind.cuts else asked.axis, len(local)
    start = tuple(found.axes if kind.shard and axis == joined else () for axis in range(rank))
    result = tuple(found.axes if kind.cuts and axis == asked.axis else () for axis in range(rank))
    dims = found.dims if len(found.dims) == rank else tuple(f"axis {axis}" for axis in range(rank))
    shape = tuple(n * size if axes else n for n, axes in zip(local, start, strict=True))
    return Cut(dims, shape, step, start, result)


def slice_numbers(
    mesh: Any, cut: Cut, members: Sequence[int], ends: Mapping[int, tuple[int, int]]
) -> Mapping[int, int]:
    """Returns the number of the slice that each piece is.

    Args:
        mesh: the mesh.
        cut: how the tensor is cut.
        members: the devices of the group.
        ends: of each piece the member that has it before, and the one that has it afterwards.
    """
    if cut.equal:
        return {piece: piece for piece in ends}
    indices, sizes, numbers = indices_of(mesh), mesh.axes, {}
    for piece, (owner, taker) in ends.items():
        number = 0
        for before, after in zip(cut.start, cut.result, strict=True):
            who = members[owner if len(before) >= len(after) else taker]
            for axis in max(before, after, key=len):
                number = number * sizes[axis] + int(indices[axis][who])
        numbers[piece] = number
    return numbers


def slices_view(mesh: Any, found: Collective, cut: Cut) -> SlicesView:
    """Describes the pieces as slices: along each axis they are those of the finer of both ends."""
    splits = [max(ends, key=len) for ends in zip(cut.start, cut.result, strict=True)]
    parts = [math.prod(mesh.axes[axis] for axis in axes) for axes in splits]
    edges = [
        [min(index * step, n) for index in range(count + 1)] if count <= MOST_EDGES else []
        for count, step, n in zip(parts, cut.step, cut.shape, strict=True)
    ]
    return {
        "place": found.value,
        "dims": list(cut.dims),
        "shape": list(cut.shape),
        "dtype": found.dtype,
        "splits": [list(axes) for axes in splits],
        "partial": [],
        "parts": parts,
        "edges": edges,
        "step": list(cut.step),
        "slices": math.prod(parts),
    }
