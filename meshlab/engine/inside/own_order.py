"""Finds the values whose rows stand in an order of the devices' own: those of tokens that are sent to experts.

    rows[experts rows embed]        each device sorts what it gets: the same rows under every layout, in another order
    ids[experts rows]               the number of each row's expert among those of its device: other numbers too

Which axes these are is said by the factors of what sends them: experts are `homes`, places are `slots`. Rows as a
whole may be compared between layouts, whatever their order; what is computed from the devices' own numbers may not.

None stands in a place of padding. Whatever sends tokens gathers experts or places that the mesh does not divide, and so
do the matmuls that follow it: all rows are in one order then, of as many places as there are without padding.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

import jax.numpy as jnp

from ..code.loops import LOOPS, carried
from ..code.operations import Operation, walk
from ..programs.program import Program, analysis
from ..specs.spec import Spec


class Order(NamedTuple):
    """How a value is that has an order of the devices' own.

    Attributes:
        axes: those along which it has it.
        alike: whether its elements are the same under every layout, in whichever order.
    """

    axes: tuple[int, ...]
    alike: bool


@analysis
def own_order(program: Program) -> Mapping[int, Order]:
    """Returns how the values are that have an order of the devices' own, by number."""
    homes, slots, numbers = _places(program)
    lost, waiting, after = set(numbers), list[int](), _after(program)

    def along(value: int, names: set[str]) -> tuple[int, ...]:
        return tuple(axis for axis, name in enumerate(program.names[value]) if names & set((name or "").split("*")))

    ordered = {value for value in range(len(program.names)) if slots and along(value, slots)}
    waiting += ordered | lost
    while waiting:
        value = waiting.pop()
        for made in after.get(value, ()):
            # Without the places, whose number follows from the order, no expert's elements are its own.
            follows = along(made, homes | slots) if value in lost else made not in ordered and along(made, homes)
            if follows and made not in lost:
                lost.add(made)
                waiting.append(made)
    return {value: Order(along(value, homes | slots), value not in lost) for value in ordered | lost}


def split_dims(program: Program, number: int, spec: Spec) -> tuple[str, ...]:
    """Returns the dims along which devices have a value each in its own order under a spec; none if one has it all."""
    order = own_order(program).get(number)
    if order is None or not any(spec.splits[axis] for axis in order.axes):
        return ()
    return tuple(program.names[number][axis] or "_" for axis in order.axes)


def _places(program: Program) -> tuple[set[str], set[str], set[int]]:
    """Returns the names of homes, those of slots, and the values that hold the devices' own numbers."""
    homes, slots, numbers = set[str](), set[str](), set[int]()
    for operation in walk(program.code.block):
        factors = None if operation.blocks else program.factors[operation]
        if factors is None or factors.routed is None:
            continue
        for value, axes in zip(operation.outputs, factors.results, strict=True):
            if not factors.routed.slots & set(axes):
                continue
            for names, of in ((homes, factors.routed.homes), (slots, factors.routed.slots)):
                names |= {name for name, axis in zip(program.names[value], axes, strict=True) if name and axis in of}
            if not jnp.issubdtype(program.code.dtypes[value], jnp.inexact):
                numbers.add(value)
    return homes, slots, numbers


def _after(program: Program) -> dict[int, list[int]]:
    """Returns for each value those that one operation makes of it, or that it is inside or outside of a block.

    What sends rows, or brings them back, makes an order, or undoes it, by itself.
    """
    after: dict[int, list[int]] = {}
    for operation in walk(program.code.block):
        if operation.blocks:
            pairs = _through(operation)
        elif program.factors[operation].routed is None:
            pairs = ((read, made) for read in operation.reads for made in operation.outputs)
        else:
            pairs = ()
        for read, made in pairs:
            if isinstance(read, int):
                after.setdefault(read, []).append(made)
    return after


def _through(operation: Operation) -> Iterator[tuple[object, int]]:
    """Yields what goes into the blocks of an operation, out of them, and round."""
    loops = operation.name in LOOPS
    # The test of a loop hands nothing on.
    for block in operation.blocks[:1] if loops else operation.blocks:
        if operation.name != "cond":
            yield from zip(operation.inputs, block.inputs, strict=True)
        yield from zip(block.outputs, operation.outputs, strict=True)
        if loops:
            count = carried(operation)
            yield from zip(block.outputs[:count], block.inputs[:count], strict=True)
