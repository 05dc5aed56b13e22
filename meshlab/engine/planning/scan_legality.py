"""Refuses to shard what a scan steps through, with what to do instead: store it so, or put micro-batches in time.

Micro-batches that a function makes itself, by a reshape and a scan, are recognised:

    parts = x.reshape(4, batch // 4, …)            batch.0 batch.1 …
    scan(gradients of one part, …, parts)          the scan steps through `batch.0`, the major part of the batch

The batch cannot be sharded then: each iteration has a contiguous part, which is on few of the devices. What is meant is
data parallelism over a serial axis, of the step without its loop: there each device runs micro-batches of its own.
"""

from __future__ import annotations

import math
import os
from collections.abc import Mapping

from ..code.loops import carried
from ..code.operations import Operation
from ..programs.axis_conflicts import Scans
from ..programs.data import Program
from ..programs.trained import trained
from ..specs.mesh import Mesh
from ..specs.spec import Axes
from .refusal import Refusal

AxesByDim = Mapping[str, Axes]


def scanned_problems(program: Program, mesh: Mesh, rules: AxesByDim, scans: Scans) -> list[Refusal]:
    """Returns the problems of dims that rules shard and scans step through."""
    return [
        Refusal(
            "pipeline",
            f"`{dim}` is the dim of a scan, whose iterations are sequential: "
            + ("each reads a part that few devices hold." if serial else "sharding it needs a pipeline schedule."),
            serial or _stored_instead(program, dim, axes[0]),
            scan.source,
        )
        for dim, axes in rules.items()
        if axes and (scan := scans.get(dim))
        for serial in (_in_time(program, mesh, dim, axes, scan),)
    ]


def _stored_instead(program: Program, dim: str, axis: str) -> str:
    """Writes the rule for a dim that may only be stored sharded: where it is stored first, and its like."""
    places = [place for place in program.places if dim in program.place_dims[place]]
    if not places:
        return ""
    alike = [place for place in places if place.split("/")[0] == places[0].split("/")[0]]
    glob = os.path.commonpath(alike) + "/*" if len(alike) > 1 else places[0]
    return f'To store it sharded, write {{"{glob}": {{"{dim}": "{axis}"}}}}.'


def _in_time(program: Program, mesh: Mesh, dim: str, axes: Axes, scan: Operation) -> str:
    """Says how micro-batches of a dim that a scan steps through are put in time; "" where there are none.

    Args:
        program: the program.
        mesh: the mesh.
        dim: the dim.
        axes: the mesh axes that a layout puts it on.
        scan: the scan that steps through its major part.

    Returns:
        "" too where the devices do not divide a micro-batch: then the axis in time would be refused.
    """
    stacks = [v for v in scan.inputs[carried(scan) :] if isinstance(v, int) and program.dims_of(v)[:1] == (dim,)]
    parts = [v for v in stacks if program.names[v][0] != dim]
    of_parameters = {d for i in trained(program).parameters for d in program.dims_of(program.arguments[i].value)}
    if not parts or dim in of_parameters:
        return ""
    count = program.code.shapes[parts[0]][0]
    if program.dims[dim] % (count * math.prod(mesh.axes[axis] for axis in axes)):
        return ""
    maker = program.makers.get(parts[0])
    where = f" at {maker.source}" if maker is not None and maker.source else ""
    sizes = ", ".join([*(f"{axis}={size}" for axis, size in mesh.axes.items()), f"micro=ml.serial({count})"])
    return (
        f"The scan runs {count:,} micro-batches, which `{maker.name if maker else 'reshape'}`{where} makes of `{dim}`."
        f" Trace the step without this loop, and put them in time:"
        f' program.plan(ml.mesh({sizes}), "{dim}:{"+".join((*axes, "micro"))}").'
    )
