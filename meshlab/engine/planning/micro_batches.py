"""Recognises micro-batches that a function makes itself, by a reshape and a scan, and answers with an axis in time.

    parts = x.reshape(4, batch // 4, …)            batch.0 batch.1 …
    scan(gradients of one part, …, parts)          the scan steps through `batch.0`, the major part of the batch

The batch cannot be sharded then: each iteration has a contiguous part, which is on few of the devices. What is meant is
data parallelism over a serial axis, of the step without its loop: there each device runs micro-batches of its own.
"""

from __future__ import annotations

import math

from ..code.loops import carried
from ..code.operations import Operation
from ..programs.data import Program
from ..programs.trained import trained
from ..specs.mesh import Mesh
from ..specs.spec import Axes


def in_time(program: Program, mesh: Mesh, dim: str, axes: Axes, scan: Operation) -> str:
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
