"""Refuses to shard what a scan steps through, with what to do instead: store it so, or put micro-batches in time.

Micro-batches that a function makes itself, by a reshape and a scan, are recognised:

    parts = x.reshape(4, batch // 4, …)            batch.0 batch.1 …
    scan(gradients of one part, …, parts)          the scan steps through `batch.0`, the major part of the batch

The batch cannot be sharded then: each iteration has a contiguous part, which is on few of the devices. What is meant is
data parallelism over an axis in time, of the step without its loop: there each device runs micro-batches of its own.
That is proposed where the loop only adds up (a loop over whole training steps does not), and where the axis would be
legal.
"""

from __future__ import annotations

import math
import os
from collections import Counter

from ..code.loops import carried, trip_count
from ..code.operations import Operation, walk
from ..programs.axis_conflicts import Scans
from ..programs.program import Program
from ..programs.trained import trained
from ..specs.mesh import Mesh
from ..specs.spec import AxesByDim
from .refusal import Refusal
from .stage_legality import on_stages
from .time_legality import whole_factors

# What the proposed axis in time is called.
_MICRO = "micro"


def scanned_problems(program: Program, mesh: Mesh, rules: AxesByDim, scans: Scans) -> list[Refusal]:
    """Returns the problems of dims that rules shard and scans step through."""
    return [
        Refusal(
            "pipeline",
            f"`{dim}` is the dim of a scan, whose iterations are sequential: "
            + (
                "each reads a part that few devices hold."
                if instead
                else "sharding it needs a pipeline schedule, on an axis of `ml.stages`."
            ),
            instead or _stored_instead(program, dim, axes[0]),
            scan.source,
        )
        for dim, axes in rules.items()
        if axes and (scan := scans.get(dim)) and not on_stages(mesh, axes)
        for instead in (_in_time(program, mesh, rules, scans, dim),)
    ]


def _stored_instead(program: Program, dim: str, axis: str) -> str:
    """Writes the rule for a dim that may only be stored sharded: where it is stored first, and its like."""
    places = [place for place in program.places if dim in program.place_dims[place]]
    if not places:
        return ""
    alike = [place for place in places if place.split("/")[0] == places[0].split("/")[0]]
    glob = os.path.commonpath(alike) + "/*" if len(alike) > 1 else places[0]
    return f'To store it sharded, write {{"{glob}": {{"{dim}": "{axis}"}}}}.'


def _in_time(program: Program, mesh: Mesh, rules: AxesByDim, scans: Scans, dim: str) -> str:
    """Says how micro-batches of a dim that a scan steps through are put in time; "" where there are none.

    "" too where the axis in time would be refused: where the devices do not divide a micro-batch, or an iteration
    needs all of it at once.
    """
    scan = scans[dim]
    stacks = [v for v in scan.inputs[carried(scan) :] if isinstance(v, int) and program.dims_of(v)[:1] == (dim,)]
    parts = [v for v in stacks if program.names[v][0] != dim]
    of_parameters = {d for i in trained(program).parameters for d in program.dims_of(program.arguments[i].value)}
    if not parts or dim in of_parameters or not _adds_up(scan) or mesh.in_time or _MICRO in mesh.axes:
        return ""
    count = program.code.shapes[parts[0]][0]
    if program.dims[dim] % (count * math.prod(mesh.axes[axis] for axis in rules[dim])):
        return ""
    its = frozenset(name for name in program.names[parts[0]] if name and name.startswith(f"{dim}."))
    if any(_needs_all(program, operation, its) for operation in walk(scan.blocks[0])):
        return ""
    kept = {other: axes for other, axes in rules.items() if axes and other not in scans}
    proposed = kept | {dim: (*rules[dim], _MICRO)}
    maker = program.makers.get(parts[0])
    where = f" at {maker.source}" if maker is not None and maker.source else ""
    sizes = ", ".join([*(f"{axis}={size}" for axis, size in mesh.axes.items()), f"{_MICRO}=ml.serial({count})"])
    layout = " ".join(f"{each}:{'+'.join(on)}" for each, on in sorted(proposed.items()))
    return (
        f"The scan runs {count:,} micro-batches, which `{maker.name if maker else 'reshape'}`{where} makes of `{dim}`."
        f' Trace the step without this loop, and use a serial axis: program.plan(ml.mesh({sizes}), "{layout}").'
    )


def _needs_all(program: Program, operation: Operation, names: frozenset[str]) -> bool:
    """Says whether an operation needs all of a micro-batch at once; its axes have these `names`."""
    if operation.blocks:
        return operation.name == "while" and trip_count(operation) is None
    along = whole_factors(program, operation)
    operands = zip(operation.inputs, program.factors[operation].operands, strict=True)
    pairs = (zip(axes, program.names[value], strict=True) for value, axes in operands if isinstance(value, int))
    return any(factor in along and name in names for pair in pairs for factor, name in pair)


def _adds_up(scan: Operation) -> bool:
    """Says whether a loop does nothing with what it carries but add to it, as one does that accumulates gradients."""
    body, count = scan.blocks[0], carried(scan)
    makers = {value: operation for operation in body.operations for value in operation.outputs}
    reads = Counter(value for operation in walk(body) for value in operation.reads)
    pairs = zip(body.inputs[:count], body.outputs[:count], strict=True)
    return all(
        carry == after or (isinstance(after, int) and _is_sum(makers.get(after), carry, reads[carry]))
        for carry, after in pairs
    )


def _is_sum(maker: Operation | None, carry: int, reads: int) -> bool:
    return maker is not None and maker.name in ("add", "add_any") and carry in maker.inputs and reads == 1
