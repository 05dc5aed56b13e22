"""Lists what the stages of a pipeline send each other in each tick, as rows of a plan's collectives.

A tick ends with one collective-permute for each value that goes on, and one for each that comes back, in which all
stages take part: so many are compiled, and executed, whoever has something to send.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable, Iterator
from typing import Any

from ..code.operations import nbytes
from ..code.source import Source
from ..collectives.kinds import COLLECTIVE_PERMUTE, Sending
from ..collectives.routes import Permuted
from ..planning.shared_steps import each_once
from ..planning.staged import Staged
from ..planning.step import Step, only
from ..planning.step_keys import Key
from ..programs.program import Program
from ..specs.spec import Grid, local_shape
from .collective import Collective


def stage_hops(program: Program, grid: Grid, step: Staged) -> Iterator[Collective]:
    """Yields the collective-permutes of a pipeline."""
    ticks = step.schedule.ticks
    ways = zip(step.messages(program.original_of), step.routes, ("the next", "the one before"), strict=True)
    sources = _sources(program, step)
    for (keys, route, other), found in zip(ways, sources, strict=True):
        for value, spec in keys:
            shape = local_shape(program.code.shapes[value], spec, grid)
            because = f"Each stage of `{step.axis}` sends it to {other}, after each of {ticks} ticks."
            hop = _hop(program, grid, step, value, shape, times=ticks, route=route, because=because)
            yield dataclasses.replace(hop, source=found[value, spec])
    yield from _dealt(program, grid, step)


def runs_in_branches(steps: Iterable[Step]) -> dict[int, tuple[int, int]]:
    """Returns by the id of each step in a pipeline's branches how often a stage runs it, and how often that counts.

    A step that several pieces run is told by the one that runs it most often.
    """
    found: dict[int, tuple[int, int]] = {}
    for pipeline in only(Staged, steps):
        for name in sorted(pipeline.pieces, key=pipeline.runs_of):
            runs = pipeline.runs_of(name), pipeline.schedule.ticks
            found.update((id(step), runs) for step, *_ in each_once(pipeline.pieces[name].every))
    return found


def in_truth(row: Collective, branch: tuple[int, int] | None) -> Collective:
    """Returns the row of a collective with how often it is sent, where the compiled program counts more."""
    if branch is None or row.times % branch[1]:  # what is sent in front of the loop
        return row
    runs, ticks = branch
    return dataclasses.replace(row, times=row.times * runs // ticks, compiled=row.times)


def _sources(program: Program, step: Staged) -> tuple[dict[Key, Source | None], dict[Key, Source | None]]:
    """Returns by what is sent on, and by what is sent back, where the scan is that carries it first."""
    on: dict[Key, Source | None] = {}
    back: dict[Key, Source | None] = {}
    for stack in step.stacks:
        ways = zip((on, back), stack.messages(program.original_of), (stack.forward, stack.backward), strict=True)
        for found, keys, scan in ways:
            found.update({key: scan.operation.source for key in keys if key not in found})
    return on, back


def _dealt(program: Program, grid: Grid, step: Staged) -> Iterator[Collective]:
    """Yields what deals layers to stages that have several chunks, and back."""
    stored, results, rounds = step.dealt
    chunks = step.chunks
    for keys, back in ((stored, False), (results, True)):
        for value, spec in keys:
            along = next(i for i, split in enumerate(spec.splits) if step.axis in split)
            shape = list(local_shape(program.code.shapes[value], spec, grid))
            shape[along] //= chunks
            way = "back to where they are stored" if back else "to the stages in turn"
            because = f"Each stage of `{step.axis}` has {chunks} chunks of layers, which are dealt {way}."
            for each in rounds:
                if not each.stays:
                    route = (each.back if back else each).pairs
                    yield _hop(program, grid, step, value, tuple(shape), times=1, route=route, because=because)


def _hop(
    program: Program,
    grid: Grid,
    step: Staged,
    value: int,
    shape: tuple[int, ...],
    *,
    times: int,
    route: Any,
    because: str,
) -> Collective:
    shown, dtype = program.value(value), program.code.dtypes[value]
    count = nbytes(math.prod(shape), dtype)
    return Collective(
        kind=COLLECTIVE_PERMUTE.name,
        axes=(step.axis,),
        payload_bytes=count,
        wire_bytes=COLLECTIVE_PERMUTE.wire_bytes(count, (step.axis,), grid),
        times=times,
        dtype=str(dtype),
        shape=shape,
        value=shown.label,
        dims=tuple(dim or "1" for dim in shown.dims),
        source=shown.source,
        because=because,
        proposed=(),
        asked=Sending((step.axis,), route=Permuted((step.axis,), tuple(route))),
        cause="stage",
    )
