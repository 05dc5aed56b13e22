"""The values that steps read and write, as keys: a value's number and its spec on one device.

    mul  [data, model] → [data, model]         reads (3, [data, model]), (5, [data, model]); makes (7, [data, model])
    all-gather over model  of 7                reads (7, [data, model]);                     makes (7, [data, ·])

A rename or a tag is the same array under another name, so keys have the number of its original
(`Program.original_of`). A step with blocks also reads the keys that its blocks read from around them.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence

from ...engine.planning.step import Step
from ...engine.planning.step_keys import Key, Originals
from ...engine.programs.program import Program, analysis
from ...engine.specs.spec import Grid, local_shape

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
        read, made = step.keys(original_of)
        step_reads.append(tuple([number(key, len(numbers)) for key in read]))
        step_makes.append(tuple([number(key, len(numbers)) for key in made]))
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
