"""Finds sizes that do not divide: parts that an axis is cut into, or made of, of which each device should have some.

    (x @ w).reshape(8, 6, 8)      `w` is split over model=4, of which none has a whole number of the 6

It is said only where nothing that is computed of the parts needs all of them, and the user asks for none of that: for
then they would be gathered all the same.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

from ..engine.code.operations import Operation
from ..engine.collectives.kinds import KINDS
from ..engine.rules.table import Factors
from ..engine.specs.spec import Axes
from .known import DEPTH, Evidence, Found, Known
from .subject import Asked


def uneven(known: Known, operation: Operation, _kind: str, axes: Axes) -> Evidence | None:
    """Sizes that do not divide, of what an operation cuts or joins."""
    return next(_uneven(known, operation, axes, across=False), None)


def uneven_before(known: Known, operation: Operation, kind: str, axes: Axes) -> Evidence | None:
    """The same of what an operation is computed of, where an array here was cut by parts of mesh axes because of it."""
    values = (*operation.reads, *operation.outputs)
    if KINDS[kind].sums or not any(known.shardings.get(value, ()) is None for value in values):
        return None
    near = (one for level in known.computed_of(operation) for one in level)
    return next((found for one in near for found in _uneven(known, one, axes, across=True)), None)


def _uneven(known: Known, operation: Operation, axes: Axes, across: bool) -> Iterator[Evidence]:
    """Yields the axes of which a part does not divide by the mesh axes that split it; the part is in `limits`.

    Args:
        known: of the program.
        operation: cuts or joins axes.
        axes: the mesh axes asked about.
        across: also those where the mesh axes go on across the part, into the next one.
    """
    factors, arrays, sizes = known.subject.factors.get(operation), known.arrays(operation), known.subject.jitted.axes
    if factors is None:
        return
    for factor, limit in factors.limits.items():
        has = [(value, row.index(factor), splits) for value, row, splits in arrays if factor in row]
        parts = [known.found(v, axis) for v, axis, _ in has if known.subject.code.shapes[v][axis] == limit]
        over = (splits[axis] for _, axis, splits in has if splits and not set(axes).isdisjoint(splits[axis]))
        for split in over if parts and not _is_wanted_whole(known, parts[0], axes) else ():
            count = math.prod(sizes[name] for name in split)
            if limit % count and (across or not _goes_on(factors, factor, count)):
                yield Evidence((parts[0]._replace(axes=split),), size=limit, cuts=operation)


def _is_wanted_whole(known: Known, part: Found, axes: Axes) -> bool:
    """Whether what is computed of a value needs a dim of it whole, or the user asks for that; as far as looked."""
    level = [part.value]
    for _ in range(DEPTH):
        here = [(v, i) for v in level for i, name in enumerate(known.subject.dims(v)) if name == part.dim]
        asked = (split[i] for v, i in here for split in _asked(known, v))
        if any(split is not None and set(axes).isdisjoint(split) for split in asked):
            return True
        readers = {id(r): r for v in level for r in known.subject.readers.get(v, ())}.values()
        if any(_goes_along(known, reader, v, i) for reader in readers for v, i in here):
            return True
        level = [value for reader in readers for value in reader.outputs]
    return False


def _asked(known: Known, value: int) -> Iterator[Asked]:
    """Yields how the user asks for a value to be split."""
    yield from (asked for _, asked in known.results.get(value, ()))
    yield from (one.splits for one in known.subject.constraints if one.value == value)


def _goes_along(known: Known, operation: Operation, value: int, axis: int) -> bool:
    factors = known.subject.factors.get(operation)
    if factors is None:
        return False
    rows = [row for v, row in zip(operation.inputs, factors.operands, strict=True) if v == value]
    return any(row[axis] in factors.unsharded | factors.per_shard for row in rows)


def _goes_on(factors: Factors, factor: int, count: int) -> bool:
    """Whether mesh axes split a part of an axis as far as it goes, and the next part evenly."""
    limit, minor = factors.limits.get(factor, 1), factors.minors.get(factor)
    if minor is None or count % limit:
        return False
    return factors.limits.get(minor, 1) % (count // limit) == 0 or _goes_on(factors, minor, count // limit)
