"""Identical layers share one list of steps: this reads such lists; `unfolded()` writes all of them out.

Copies that are planned alike are `Part`s with the same steps, in the numbers of the first copy. Written out they are
what runs. `each_once` yields each kind of part once, and how often it comes, which is what is counted and shown: the
rows of a model of 80 layers are as many as those of one of 8.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator

from ..programs.outline import Copy
from .steps import Cause, Compute, Fill, Move, Nested, Part, Step


def unfolded(steps: Iterable[Step]) -> tuple[Step, ...]:
    """Returns steps with all parts written out, in the program's own numbers."""
    written: list[Step] = []
    for step in steps:
        if isinstance(step, Part):
            written += written_out(step)
        elif isinstance(step, Nested):
            blocks = (dataclasses.replace(block, steps=unfolded(block.steps)) for block in step.blocks)
            written.append(dataclasses.replace(step, blocks=tuple(blocks)))
        else:
            written.append(step)
    return tuple(written)


def written_out(part: Part) -> tuple[Step, ...]:
    """Returns the steps of a part in its copy's own numbers."""
    return part.steps if part.copy.first is None else tuple([_renumbered(step, part.copy) for step in part.steps])


def each_once(
    steps: Iterable[Step], times: int = 1, copies: tuple[Copy, ...] = ()
) -> Iterator[tuple[Step, int, tuple[Copy, ...]]]:
    """Yields every step, those inside loops too, with how often it runs, and the copies that it stands for.

    Of parts alike the first one stands for all. Of branches each counts as if it ran.
    """
    alike: dict[int, list[Copy]] = {}
    steps = tuple(steps)
    for step in steps:
        if isinstance(step, Part):
            alike.setdefault(id(step.steps), []).append(step.copy)
    for step in steps:
        if isinstance(step, Part):
            group = tuple(alike.pop(id(step.steps), ()))
            yield from each_once(written_out(step), times * len(group), group) if group else ()
            continue
        yield step, times, copies
        if isinstance(step, Nested):
            for position, block in enumerate(step.blocks):
                # A loop is tested once more than its trip count.
                more = step.operation.name == "while" and position == 1
                yield from each_once(block.steps, times * (step.times + more), copies)


def counted(steps: Iterable[Step]) -> Iterator[tuple[Step, int]]:
    """Yields every step with how often it runs; see `each_once`."""
    return ((step, times) for step, times, _ in each_once(steps))


def stand_ins(steps: Iterable[Step]) -> dict[Copy, Copy]:
    """Returns for each copy the one that `each_once` yields in its place."""
    first: dict[int, Copy] = {}
    stand_in_of: dict[Copy, Copy] = {}
    for step in steps:
        if isinstance(step, Part):
            stand_in_of[step.copy] = first.setdefault(id(step.steps), step.copy)
        elif isinstance(step, Nested):
            # The steps of a copy in its own block come after those that it asked for in the blocks around.
            stand_in_of |= {copy: other for block in step.blocks for copy, other in stand_ins(block.steps).items()}
    return stand_in_of


def _renumbered(step: Step, copy: Copy) -> Step:
    """Renumbers a step for a copy; there are no parts in parts."""
    values, operations = copy.values, copy.renamed
    if isinstance(step, Move):
        value, name = values[step.value], values[step.name]
        return Move(value, step.start, step.hop, _renumbered_cause(step.cause, copy), name, step.chain)
    assert not isinstance(step, Part)
    operation = operations[step.operation]
    if isinstance(step, Compute):
        return Compute(operation, step.operands, step.results, step.per_shard, step.known)
    if isinstance(step, Fill):
        return Fill(operation, step.spec)
    blocks = tuple(
        dataclasses.replace(block, steps=tuple([_renumbered(inside, copy) for inside in block.steps]))
        for block in step.blocks
    )
    return dataclasses.replace(step, operation=operation, blocks=blocks)


def _renumbered_cause(cause: Cause, copy: Copy) -> Cause:
    operation = cause.operation
    if operation is None:
        return cause
    return dataclasses.replace(cause, operation=copy.renamed[operation])
