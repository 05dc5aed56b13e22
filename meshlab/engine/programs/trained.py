"""Finds what a program trains: arguments that it carries to the next call, and those whose gradient it takes.

    trained(program).parameters     positions of the arguments that the backward pass needs, or makes a gradient of
    trained(program).state          positions of what else is carried: moments, master copies, counts

Both follow from dataflow, not from names. A carried argument that the backward pass depends on is a parameter; one that
it does not depend on is the optimizer's state. An argument that is not carried is a parameter where besides the
backward pass ends in its gradient (`gradients.py`), or in a value of its dims and sizes. Without a backward pass
nothing is trained, and a carried argument (a KV cache, say) is neither.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable

import jax.numpy as jnp

from ..code.operations import Operation, walk
from .program import Program, analysis
from .spread_names import Names


@dataclasses.dataclass(frozen=True)
class Trained:
    """The arguments that a program trains, by position.

    Attributes:
        parameters: those that the loss depends on.
        state: what else is carried to the next call.
    """

    parameters: frozenset[int] = frozenset()
    state: frozenset[int] = frozenset()


@analysis
def trained(program: Program) -> Trained:
    backward = backward_operations(program)
    if not backward:
        return Trained()
    read = needed(program, (value for operation in backward for value in operation.reads))
    carried, with_gradient = set(donors(program).values()), set(program.gradients.values())
    ends = _ends(program, backward)
    parameters = set()
    for position, argument in enumerate(program.arguments):
        differentiable = jnp.issubdtype(program.code.dtypes[argument.value], jnp.inexact)
        updated = position in carried or argument.place in with_gradient or _kind(program, argument.value) in ends
        if differentiable and updated and argument.value in read:
            parameters.add(position)
    return Trained(frozenset(parameters), frozenset(carried - parameters))


def backward_operations(program: Program) -> list[Operation]:
    return [operation for operation in walk(program.code.block) if operation.backward]


def needed(program: Program, values: Iterable[int]) -> set[int]:
    """Returns values, and all values that they depend on."""
    sources: dict[int, list[int]] = {}
    for operation in walk(program.code.block):
        inner: list[int] = []
        for block in operation.blocks:
            inner += [v for v in block.outputs if isinstance(v, int)]
            for value in block.inputs:
                sources.setdefault(value, []).extend(operation.reads)
        for value in operation.outputs:
            sources.setdefault(value, []).extend((*operation.reads, *inner))
    reached, waiting = set(), list(values)
    while waiting:
        value = waiting.pop()
        if value not in reached:
            reached.add(value)
            waiting += sources.get(value, ())
    return reached


@analysis
def output_names(program: Program) -> tuple[Names, ...]:
    """Returns the names by which each output is stored: of a carried one its argument's, whatever its own are."""
    sources, stored = donors(program), []
    for position, value in enumerate(program.code.block.outputs):
        source = program.arguments[sources[position]].value if position in sources else value
        stored.append(program.names[source] if isinstance(source, int) else ())
    return tuple(stored)


def donors(program: Program) -> dict[int, int]:
    """Returns for each output that is carried to the next call, by position, the position of the argument."""
    places = {place: position for position, place in enumerate(program.outputs)}
    positions = {}
    for carry in program.carries:
        for position, argument in enumerate(program.arguments):
            if argument.parameter == carry.parameter:
                output = places.get(carry.place + argument.place[len(carry.parameter) :])
                if output is not None:
                    positions[output] = position
    return positions


def _ends(program: Program, backward: Iterable[Operation]) -> set[tuple]:
    """Returns the kinds of the values in which the backward pass ends: it makes them, and others read them."""
    operations = tuple(backward)
    read = {value for operation in operations for value in operation.reads}
    read |= {v for operation in operations for b in operation.blocks for v in b.outputs if isinstance(v, int)}
    outputs = {value for operation in operations for value in operation.outputs}
    return {_kind(program, value) for value in outputs - read if program.uses[value]}


def _kind(program: Program, value: int) -> tuple:
    """Returns the dims and sizes of a value, in whatever order its axes are."""
    axes = zip(program.names[value], program.code.shapes[value], strict=True)
    return tuple(sorted((name or "", size) for name, size in axes))
