"""Finds what the user asks for otherwise than it is: by a constraint, or of a result by `out_shardings`.

with_sharding_constraint(x @ w, P())        `x` is split over data, and the constraint wants what is made of it whole
"""

from __future__ import annotations

from collections.abc import Sequence

from ..engine.code.operations import Operation
from ..engine.specs.spec import Axes
from .known import Evidence, Found, Known
from .subject import Asked, Constrained


def constrained(known: Known, operation: Operation, _kind: str, axes: Axes) -> Evidence | None:
    """By a constraint on a result, or on what comes in and is read behind it."""
    reads = operation.equation.invars
    for constraint in known.subject.constraints:
        found = ()
        if constraint.value in operation.outputs:
            found = _turned(known, operation, axes, constraint.value, constraint.splits)
        elif constraint.value not in known.subject.made_by and constraint.equation.outvars[0] in reads:
            found = left(known, constraint, axes)
        if found:
            return Evidence(found, constraint=constraint)
    return None


def left(known: Known, constraint: Constrained, axes: Axes) -> tuple[Found, ...]:
    """What comes in split over mesh axes, and is not behind a constraint on it."""
    wants = zip(known.split(constraint.value) or (), constraint.splits, strict=False)
    return tuple(
        known.found(constraint.value, axis)
        for axis, (has, asked) in enumerate(wants)
        if asked is not None and set(axes).intersection(has) - set(asked)
    )


def comes_out(known: Known, operation: Operation, _kind: str, axes: Axes) -> Evidence | None:
    """By what `out_shardings` asks of a result, of which an operand is split otherwise."""
    for value in operation.outputs:
        for place, asked in known.results.get(value, ()):
            if found := _turned(known, operation, axes, value, asked):
                return Evidence(found, place)
    return None


def _turned(known: Known, operation: Operation, axes: Axes, value: int, asked: Asked) -> tuple[Found, ...]:
    """What operands have split where a result, as it is asked for, has not; then what that has over these axes."""
    factors = known.subject.factors.get(operation)
    if factors is None:
        return ()
    row = factors.results[operation.outputs.index(value)]
    found = tuple(
        known.found(operand, axis)
        for operand, theirs, splits in known.arrays(operation)
        if operand not in operation.outputs and splits is not None
        for axis, factor in enumerate(theirs)
        if factor in row and (wants := asked[row.index(factor)]) is not None
        if set(axes).intersection(splits[axis]) - set(wants)
    )
    dims = known.subject.dims(value)
    wanted = (
        Found(dims[axis] or "", value, wants)
        for axis, wants in enumerate(asked)
        if wants and not set(axes).isdisjoint(wants)
    )
    return (*found, *wanted) if found else ()


def stored(known: Known, operation: Operation, _kind: str, axes: Axes) -> Evidence | None:
    """By what `out_shardings` asks of a result, or of what is read, which is itself otherwise."""
    found = (_stored(known, value, axes) for value in (*operation.outputs, *operation.reads))
    return next(filter(None, found), None)


def _stored(known: Known, value: int, axes: Axes, of: str | None = None) -> Evidence | None:
    """What a result must not be split along, or must be, otherwise than it is; of one place, or any that it has."""
    for place, asked in known.results.get(value, ()):
        if of not in (None, place):
            continue
        splits = known.split(value) or ((),) * len(asked)
        found = tuple(
            known.found(value, axis)
            for axis, (has, wants) in enumerate(zip(splits, asked, strict=True))
            if wants is not None and not set(axes).isdisjoint(set(has) ^ set(wants))
        )
        if found:
            return Evidence(found, place)
    return None


def passed(known: Known, argument: int, results: Sequence[int], axes: Axes) -> Evidence | None:
    """Returns what is asked of results that are one value, made of an argument alone; with the operation that does.

    Args:
        known: of the program.
        argument: its position.
        results: their positions.
        axes: the mesh axes.
    """
    block, made_by = known.subject.code.block, known.subject.made_by
    values = {block.outputs[result] for result in results}
    value = values.pop() if len(values) == 1 else None
    if not isinstance(value, int) or argument >= len(block.inputs):
        return None
    given = value
    while (before := made_by.get(given)) is not None and len(before.reads) == 1:
        given = before.reads[0]
    if given != block.inputs[argument]:
        return None
    place = known.subject.jitted.outputs[results[0]]
    found = _stored(known, value, axes, place) or _brought(known, given, value, axes, place)
    return found._replace(operation=made_by.get(value)) if found else None


def _brought(known: Known, given: int, value: int, axes: Axes, place: str) -> Evidence | None:
    """What an argument is split along, where a result that is made of it must not be split over mesh axes."""
    asked = dict(known.results.get(value, ())).get(place)
    if asked is None or any(split is None or not set(axes).isdisjoint(split) for split in asked):
        return None
    found = [known.found(given, axis) for axis in range(len(known.subject.code.shapes[given]))]
    found = tuple(one for one in found if not set(axes).isdisjoint(one.axes))
    return Evidence(found, place) if found else None
