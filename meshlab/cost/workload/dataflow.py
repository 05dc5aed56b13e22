"""The values that steps read and write, as keys: a value's number and its spec on one device.

    mul  [data, model] → [data, model]         reads (3, [data, model]), (5, [data, model]); makes (7, [data, model])
    all-gather over model  of 7                reads (7, [data, model]);                     makes (7, [data, ·])

A rename or a tag is the same array under another name, so keys have the number of its original
(`Program.original_of`). A step with blocks also reads the keys that its blocks read from around them.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence

from ...engine.code.operations import Block, Input
from ...engine.planning.steps import Compute, Inside, Materialise, Move, Nested, Repeated, Step
from ...engine.programs.data import Program, analysis
from ...engine.specs.spec import Grid, Spec, local_shape

Key = tuple[int, Spec]
Originals = Mapping[int, int]

_SCALAR = Spec(())


# So many shapes are kept: each layout of a program of 15,000 operations has some thousands of new ones.
_SHAPES = 65_536


class LocalShapes(dict[Key, tuple[int, ...]]):
    """The shapes of one device's shards, by key; worked out when they are first asked for."""

    def __init__(self, program: Program, grid: Grid):
        super().__init__()
        self.shapes, self.grid = program.code.shapes, grid

    def __missing__(self, key: Key) -> tuple[int, ...]:
        value, spec = key
        if len(self) >= _SHAPES:
            self.clear()
        shape = self[key] = local_shape(self.shapes[value], spec, self.grid)
        return shape


def local_shapes(program: Program, grid: Grid) -> LocalShapes:
    """Returns the shapes of one device's shards, which all plans of a program on one grid share."""
    known = _shapes_by_grid(program)
    if grid.key not in known:
        known[grid.key] = LocalShapes(program, grid)
    return known[grid.key]


@analysis
def _shapes_by_grid(_program: Program) -> dict[tuple, LocalShapes]:
    return {}


def keys(values: Sequence[Input], specs: Sequence[Spec | None], original_of: Originals) -> tuple[Key, ...]:
    """Returns the keys of values in specs; literals, and values that are not read, have none."""
    return tuple(
        [
            (original_of.get(value, value), spec)
            for value, spec in zip(values, specs, strict=True)
            if spec is not None and isinstance(value, int)
        ]
    )


def reads(step: Step, original_of: Originals) -> tuple[Key, ...]:
    """Returns the keys that a step reads, in order; one may come twice.

    Args:
        step: of a plan, parts written out (`Plan.steps`).
        original_of: the originals of renames and tags, by number (`Program.original_of`).
    """
    if isinstance(step, Compute):
        return keys(step.operation.inputs, step.operands, original_of)
    if isinstance(step, Move):
        return ((original_of.get(step.value, step.value), step.start),)
    if isinstance(step, Materialise):
        inputs = step.operation.inputs
        return keys(inputs, (_SCALAR,) * len(inputs), original_of)
    assert not isinstance(step, Repeated), "repetitions are read written out: plan.steps"
    return (*keys(step.operation.inputs, step.operands, original_of), *outside(step, original_of))


def makes(step: Step, original_of: Originals) -> tuple[Key, ...]:
    """Returns the keys that a step writes, in order; see `reads`."""
    if isinstance(step, Move):
        return ((original_of.get(step.value, step.value), step.via.result),)
    if isinstance(step, Materialise):
        return ((step.operation.outputs[0], step.spec),)
    assert not isinstance(step, Repeated), "repetitions are read written out: plan.steps"
    return keys(step.operation.outputs, step.results, original_of)


def entering(block: Block, inside: Inside, original_of: Originals) -> tuple[Key, ...]:
    """Returns the inputs of a block inside a step."""
    return keys(block.inputs, inside.inputs, original_of)


def leaving(block: Block, inside: Inside, original_of: Originals) -> tuple[Key, ...]:
    """Returns the outputs of a block inside a step; literals have no key."""
    return keys(block.outputs, inside.outputs, original_of)


def outside(step: Nested, original_of: Originals) -> tuple[Key, ...]:
    """Returns the keys that the blocks of a step read from around them, each once."""
    missing: dict[Key, None] = {}
    for block, inside in zip(step.operation.blocks, step.blocks, strict=True):
        defined = set(entering(block, inside, original_of))
        for within in inside.steps:
            missing.update(dict.fromkeys(key for key in reads(within, original_of) if key not in defined))
            defined.update(makes(within, original_of))
        missing.update(dict.fromkeys(key for key in leaving(block, inside, original_of) if key not in defined))
    return tuple(missing)


@dataclasses.dataclass(frozen=True, eq=False)
class Flow:
    """One block of steps with numbered keys, so that analyses work on integers.

    Attributes:
        steps: the steps.
        keys: every key that is read, written or returned, by number.
        numbers: the number of each key.
        reads: for each step the numbers of the keys that it reads.
        makes: for each step the numbers of the keys that it writes.
        outputs: the numbers of the keys that the block returns.
        maker: for each key the position of the step that writes it; -1 for one from around the block.
        users: for each key the positions of the steps that read it, in order, each once.
    """

    steps: Sequence[Step]
    keys: tuple[Key, ...]
    numbers: Mapping[Key, int]
    reads: Sequence[tuple[int, ...]]
    makes: Sequence[tuple[int, ...]]
    outputs: tuple[int, ...]
    maker: Sequence[int]
    users: Sequence[Sequence[int]]


def flow(steps: Sequence[Step], outputs: Sequence[Key], original_of: Originals) -> Flow:
    """Numbers the keys of one block of steps.

    Args:
        steps: of one block, parts written out.
        outputs: the keys that the block returns.
        original_of: the originals of renames and tags, by number.
    """
    numbers: dict[Key, int] = {}
    number = numbers.setdefault
    step_reads, step_makes = [], []
    for step in steps:
        step_reads.append(tuple([number(key, len(numbers)) for key in reads(step, original_of)]))
        step_makes.append(tuple([number(key, len(numbers)) for key in makes(step, original_of)]))
    returned = tuple([number(key, len(numbers)) for key in outputs])
    maker = [-1] * len(numbers)
    users: list[list[int]] = [[] for _ in numbers]
    for position in range(len(steps)):
        for key in step_reads[position]:
            if not users[key] or users[key][-1] != position:
                users[key].append(position)
        for key in step_makes[position]:
            if maker[key] < 0:
                maker[key] = position
    return Flow(steps, tuple(numbers), numbers, step_reads, step_makes, returned, maker, users)
