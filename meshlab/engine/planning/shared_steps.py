"""Identical layers share one list of steps: this reads such lists; `unfolded()` writes all of them out.

Repetitions that are planned alike are `Repeated` steps that share one list, in the numbers of the representative.
Written out they are what runs. `each_once` yields each list once, and how often it comes, which is what is counted and
shown: the rows of a model of 80 layers are as many as those of one of 8.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator

from ..programs.outline import Repetition
from .steps import Cause, Compute, Iterated, Materialise, Move, Nested, Repeated, Step


def unfolded(steps: Iterable[Step]) -> tuple[Step, ...]:
    """Returns steps with all repetitions written out, in the program's own numbers."""
    written: list[Step] = []
    for step in steps:
        if isinstance(step, Repeated):
            written += written_out(step)
        elif isinstance(step, Iterated):
            written.append(dataclasses.replace(step, steps=unfolded(step.steps)))
        elif isinstance(step, Nested):
            blocks = (dataclasses.replace(block, steps=unfolded(block.steps)) for block in step.blocks)
            written.append(dataclasses.replace(step, blocks=tuple(blocks)))
        else:
            written.append(step)
    return tuple(written)


def written_out(repeated: Repeated) -> tuple[Step, ...]:
    """Returns the steps of a repetition in its own numbers."""
    steps, repetition = repeated.steps, repeated.repetition
    return steps if repetition.first is None else tuple([_renumbered(step, repetition) for step in steps])


def each_once(
    steps: Iterable[Step], times: int = 1, repetitions: tuple[Repetition, ...] = ()
) -> Iterator[tuple[Step, int, tuple[Repetition, ...]]]:
    """Yields every step, those inside loops too, with how often it runs, and the repetitions that it stands for.

    Of repetitions alike the first one stands for all. Of branches each counts as if it ran.
    """
    alike: dict[int, list[Repetition]] = {}
    steps = tuple(steps)
    for step in steps:
        if isinstance(step, Repeated):
            alike.setdefault(id(step.steps), []).append(step.repetition)
    for step in steps:
        if isinstance(step, Repeated):
            group = tuple(alike.pop(id(step.steps), ()))
            yield from each_once(written_out(step), times * len(group), group) if group else ()
            continue
        yield step, times, repetitions
        if isinstance(step, Iterated):
            yield from each_once(step.steps, times * step.times, repetitions)
        if isinstance(step, Nested):
            for position, block in enumerate(step.blocks):
                # A loop is tested once more than its trip count.
                more = step.operation.name == "while" and position == 1
                yield from each_once(block.steps, times * (step.times + more), repetitions)


def counted(steps: Iterable[Step]) -> Iterator[tuple[Step, int]]:
    """Yields every step with how often it runs; see `each_once`."""
    return ((step, times) for step, times, _ in each_once(steps))


def stand_ins(steps: Iterable[Step]) -> dict[Repetition, Repetition]:
    """Returns for each repetition the one that `each_once` yields in its place."""
    first: dict[int, Repetition] = {}
    stand_in_of: dict[Repetition, Repetition] = {}
    for step in steps:
        if isinstance(step, Repeated):
            stand_in_of[step.repetition] = first.setdefault(id(step.steps), step.repetition)
        elif isinstance(step, Iterated):
            stand_in_of |= stand_ins(step.steps)
        elif isinstance(step, Nested):
            # The steps of a repetition in its own block come after those that it asked for in the blocks around.
            stand_in_of |= {one: other for block in step.blocks for one, other in stand_ins(block.steps).items()}
    return stand_in_of


def _renumbered(step: Step, repetition: Repetition) -> Step:
    """Renumbers a step for a repetition; none stands in another."""
    values, operations = repetition.from_representative, repetition.counterparts
    if isinstance(step, Move):
        value, name = values[step.value], values[step.name]
        return Move(value, step.start, step.via, _renumbered_cause(step.cause, repetition), name, step.reshard)
    assert not isinstance(step, Repeated | Iterated)
    operation = operations[step.operation]
    if isinstance(step, Compute):
        return Compute(operation, step.operands, step.results, step.per_shard, step.known)
    if isinstance(step, Materialise):
        return Materialise(operation, step.spec)
    blocks = tuple(
        dataclasses.replace(block, steps=tuple([_renumbered(inside, repetition) for inside in block.steps]))
        for block in step.blocks
    )
    return dataclasses.replace(step, operation=operation, blocks=blocks)


def _renumbered_cause(cause: Cause, repetition: Repetition) -> Cause:
    operation = cause.operation
    if operation is None:
        return cause
    return dataclasses.replace(cause, operation=repetition.counterparts[operation])
