"""Finds the first value in time that is wrong, without looking at all values at once.

    first(program, values, look)          # the first of these values that `look` finds wrong

A look compiles the step with what it looks at, so it takes as long to compile as it looks at. So the search looks at
the values that have a name first: places, and what lines of the forward pass make. What made the first wrong one of
these wrong is among the values that lead to it, up to named ones that are right: it looks at them next, a few at a
time. A move that makes a wrong copy of a right value is found at once.

In time: in a loop an earlier iteration comes before a later one, whatever the order of the operations.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Collection, Iterable, Sequence

import jax.numpy as jnp

from ..code.loops import carried
from ..code.operations import Block, Operation, walk
from ..planning.steps import move_of
from ..programs.lines import lines
from ..programs.program import Program, analysis
from .names import original, places
from .probing import Tap

# The most values that are looked at in one compiled program, beside the results.
MOST = 128


@dataclasses.dataclass(frozen=True)
class Hit:
    """A value that is wrong.

    Attributes:
        tap: the value, in the spec in which it is wrong first.
        iterations: that of each loop around it, outermost first.
        devices: which devices have it wrong; none where that is not known.
        moved: whether it was right before the move that made this copy of it.
    """

    tap: Tap
    iterations: tuple[int, ...]
    devices: tuple[int, ...] = ()
    moved: bool = False

    @property
    def when(self) -> tuple[tuple[int, float], ...]:
        """What sorts hits by time."""
        return self.tap.when(self.iterations)


# Looks at values of some numbers, and returns those that are wrong, each where it is so first.
Look = Callable[[frozenset[int]], Sequence[Hit]]


def first(program: Program, values: Collection[int], look: Look) -> Hit | None:
    """Returns the first value in time that is wrong; None where none of those with a name is.

    Args:
        program: whose values.
        values: the numbers of those that can be looked at.
        look: what looks at them.
    """
    by_name = sorted(named(program).intersection(values))
    results = outputs(program).intersection(values)
    looked = frozenset(values if len(values) <= MOST else results.union(spread(by_name, MOST)))
    hit = _earliest(look(looked))
    while hit is not None and not hit.moved:
        inside = leading(program, hit.tap.number, looked).intersection(values)
        if not inside:
            break
        picked = {hit.tap.number, *spread(sorted(inside), MOST)}
        looked |= picked
        hit = _earliest(look(frozenset(picked))) or hit
    return hit


def _earliest(hits: Iterable[Hit]) -> Hit | None:
    """Returns the first in time; where a move made it, the value was right before, or that would come first."""
    hit = min(hits, key=lambda hit: hit.when, default=None)
    return hit and dataclasses.replace(hit, moved=hit.tap.step is not None and move_of(hit.tap.step) is not None)


def spread(values: Sequence[int], most: int) -> Sequence[int]:
    """Returns at most so many of some values, evenly; the last one is among them."""
    if len(values) <= most:
        return values
    return [values[(i + 1) * len(values) // most - 1] for i in range(most)]


def outputs(program: Program) -> frozenset[int]:
    """Returns the values that are a program's results."""
    results = program.code.block.outputs
    return frozenset(original(program, number) for number in results if isinstance(number, int))


@analysis
def named(program: Program) -> frozenset[int]:
    """Returns the values that have a name: places, and what lines make."""
    by_name = (*places(program).values(), *lines(program).lines.values())
    return frozenset(number for numbers in by_name for number in numbers)


def leading(program: Program, number: int, known: Collection[int]) -> frozenset[int]:
    """Returns the values that lead to one, up to known ones: those from which it is computed in some iteration."""
    before, waiting, found = _before(program), [number], set[int]()
    while waiting:
        for each in before.get(waiting.pop(), ()):
            if each not in found and each not in known:
                found.add(each)
                waiting.append(each)
    return frozenset(found - {number})


@analysis
def _before(program: Program) -> dict[int, tuple[int, ...]]:
    """Returns for each value those that it is computed from, by one operation; of a loop's carry its last value too."""
    before: dict[int, tuple[int, ...]] = {}
    for operation in walk(program.code.block):
        for position, output in enumerate(operation.outputs):
            inside = (_returned(block, position) for block in operation.blocks)
            before[output] = (*operation.reads, *(n for numbers in inside for n in numbers))
        for block in operation.blocks:
            _feed(before, operation, block)
    return {n: tuple(dict.fromkeys(original(program, v) for v in values)) for n, values in before.items()}


def _returned(block: Block, position: int) -> tuple[int, ...]:
    outputs = block.outputs[position : position + 1] or block.outputs
    return tuple(value for value in outputs if isinstance(value, int))


def _feed(before: dict[int, tuple[int, ...]], operation: Operation, block: Block):
    """Notes where the inputs of a block come from: from around it, and, of what a loop carries, from itself."""
    if operation.name == "cond":
        return
    count = carried(operation) if operation.name in ("scan", "while") else 0
    for position, (inside, outside) in enumerate(zip(block.inputs, operation.inputs, strict=True)):
        again = operation.blocks[0].outputs[position : position + 1] if position < count else ()
        before[inside] = tuple(value for value in (outside, *again) if isinstance(value, int))


@analysis
def of_floats(program: Program) -> frozenset[int]:
    """Returns the values that follow from floats: rounding may change them, whole numbers and truth values too."""
    after: dict[int, list[int]] = {}
    for number, values in _before(program).items():
        for value in values:
            after.setdefault(value, []).append(original(program, number))
    found = {n for n, dtype in enumerate(program.code.dtypes) if jnp.issubdtype(dtype, jnp.inexact)}
    waiting = list(found)
    while waiting:
        new = [each for each in after.get(waiting.pop(), ()) if each not in found]
        found.update(new)
        waiting += new
    return frozenset(found)
