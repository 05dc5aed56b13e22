"""Finds a plan that would cut positions anew while they are in zig-zag order, where all shards would be others.

Between the borders of attention (`programs/zigzagged.py`) a shard is no range of positions, and may be moved only as it
is. Legality sees to that for queries and keys; this looks at what was planned.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from ..code.operations import walk
from ..errors import LayoutError
from ..planning.step import Step, only
from ..planning.steps import Move
from ..programs.program import Program


def refuse_zigzag_moves(program: Program, steps: Iterable[Step]):
    """Refuses a plan that moves positions which are in zig-zag order."""
    along: dict[int, set[int]] = {}
    for operation in walk(program.code.block):
        if operation.name == "zigzag":
            (inside,) = operation.reads if operation.params["back"] else operation.outputs
            along.setdefault(inside, set()).add(operation.params["axis"])
    for move in only(Move, _every(steps)):
        both = zip(move.start.splits, move.via.result.splits, strict=True)
        cut = {axis for axis, (before, after) in enumerate(both) if before != after}
        if cut & along.get(move.value, set()):
            value = program.value(move.value)
            raise LayoutError(
                f"`{value.label}` {value.dims} would go from {move.start} to {move.via.result} while its positions are"
                " in zig-zag order. Leave `zigzag(…)` out, or split its dims alike in all scopes of attention."
            )


def _every(steps: Iterable[Step]) -> Iterator[Step]:
    for step in steps:
        yield step
        for part in step.parts:
            yield from _every(part.steps)
