"""Lists what the stages of a pipeline send each other in each tick, as rows of a plan's collectives.

A tick ends with one collective-permute for each value that goes on, and one for each that comes back, in which all
stages take part: so many are compiled, and executed, whoever has something to send.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

from ..code.operations import nbytes
from ..collectives.kinds import COLLECTIVE_PERMUTE, Sending
from ..collectives.routes import Permuted
from ..planning.staged import Staged
from ..programs.program import Program
from ..specs.spec import Grid, local_shape


def stage_hops(program: Program, grid: Grid, step: Staged) -> Iterator[dict[str, Any]]:
    """Yields the facts of each collective-permute of a pipeline."""
    ticks = step.schedule.ticks
    ways = zip(step.messages(program.original_of), step.routes, ("the next", "the one before"), strict=True)
    scans = step.forward_scan, step.backward_scan
    for (keys, route, other), scan in zip(ways, scans, strict=True):
        for value, spec in keys:
            shape = local_shape(program.code.shapes[value], spec, grid)
            because = f"Each stage of `{step.axis}` sends it to {other}, after each of {ticks} ticks."
            yield _hop(program, grid, step, value, shape, times=ticks, route=route, because=because) | {
                "source": scan.operation.source
            }
    yield from _dealt(program, grid, step)


def _dealt(program: Program, grid: Grid, step: Staged) -> Iterator[dict[str, Any]]:
    """Yields what deals layers to stages that have several chunks, and back."""
    stored, results, rounds = step.dealt
    chunks = step.schedule.chunks
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
) -> dict[str, Any]:
    shown, dtype = program.value(value), program.code.dtypes[value]
    count = nbytes(math.prod(shape), dtype)
    return {
        "kind": COLLECTIVE_PERMUTE.name,
        "axes": (step.axis,),
        "payload_bytes": count,
        "wire_bytes": COLLECTIVE_PERMUTE.wire_bytes(count, (step.axis,), grid),
        "times": times,
        "dtype": str(dtype),
        "shape": shape,
        "value": shown.label,
        "dims": tuple(dim or "1" for dim in shown.dims),
        "source": shown.source,
        "because": because,
        "proposed": (),
        "asked": Sending((step.axis,), route=Permuted((step.axis,), tuple(route))),
        "cause": "stage",
    }
