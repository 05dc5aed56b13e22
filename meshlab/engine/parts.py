"""Parts: reading steps that copies of a stretch share.

A plan is kept as short as it was made: copies that are planned alike are `Part`s with the same steps, in the numbers of
the first copy. `unfolded` writes them out, which is what runs. `counted` tells of each kind of part once, and how often
it comes, which is what is counted and told: the rows of a model of 80 layers are as many as those of one of 8.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator

from .outline import Copy
from .steps import Cause, Compute, Fill, Move, Nested, Part, Step


def unfolded(steps: Iterable[Step]) -> tuple[Step, ...]:
    """Returns steps with all parts written out, in the program's own numbers."""
    found: list[Step] = []
    for step in steps:
        if isinstance(step, Part):
            found += written_out(step)
        elif isinstance(step, Nested):
            blocks = (dataclasses.replace(block, steps=unfolded(block.steps)) for block in step.blocks)
            found.append(dataclasses.replace(step, blocks=tuple(blocks)))
        else:
            found.append(step)
    return tuple(found)


def written_out(part: Part) -> tuple[Step, ...]:
    """Returns the steps of a part in its copy's own numbers."""
    return part.steps if part.copy.first is None else tuple([_renumbered(step, part.copy) for step in part.steps])


def counted(steps: Iterable[Step], times: int = 1) -> Iterator[tuple[Step, int]]:
    """Yields every step, those inside loops too, with how often it runs; of branches each counts as if it ran.

    Of parts alike the first one stands for all.
    """
    alike: dict[int, int] = {}
    steps = tuple(steps)
    for step in steps:
        if isinstance(step, Part):
            alike[id(step.steps)] = alike.get(id(step.steps), 0) + 1
    for step in steps:
        if isinstance(step, Part):
            count = alike.pop(id(step.steps), 0)
            if count:
                yield from counted(written_out(step), times * count)
            continue
        yield step, times
        if isinstance(step, Nested):
            for position, block in enumerate(step.blocks):
                # A loop is tested once more than it turns.
                more = step.operation.name == "while" and position == 1
                yield from counted(block.steps, times * (step.times + more))


def stand_ins(steps: Iterable[Step]) -> dict[Copy, Copy]:
    """Returns for each copy the one that `counted` tells of in its place."""
    first: dict[int, Copy] = {}
    found: dict[Copy, Copy] = {}
    for step in steps:
        if isinstance(step, Part):
            found[step.copy] = first.setdefault(id(step.steps), step.copy)
        elif isinstance(step, Nested):
            # The steps of a copy in its own block come after what it asked for of those around.
            found |= {copy: told for block in step.blocks for copy, told in stand_ins(block.steps).items()}
    return found


def _renumbered(step: Step, copy: Copy) -> Step:
    """A step in the numbers of a copy; there are no parts in parts."""
    values, operations = copy.values, copy.renamed
    if isinstance(step, Move):
        value, name = values[step.value], values[step.name]
        return Move(value, step.start, step.hop, _renumbered_cause(step.cause, copy), name, step.chain)
    assert not isinstance(step, Part)
    operation = operations[step.operation]
    if isinstance(step, Compute):
        return Compute(operation, step.operands, step.results, step.exchanged, step.known)
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
