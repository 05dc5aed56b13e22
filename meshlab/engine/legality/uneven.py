"""Sizes that mesh axes do not divide: what would fit, a mesh whose axis has parts among it.

ml.mesh(model=8), "heads:model" of 4 heads of keys and values, each of which serves a `group` of 2 queries:
`heads` has size 4, which 8 (`model`) does not divide. Sizes that fit: 8; or split the axis,
ml.mesh(model=4, rest=2), with `heads:model group:rest`.

ml.mesh(pipe=ml.stages(4), micro=ml.serial(8)), "batch:micro layers:pipe" of 14 layers:
`layers` has size 14, which 4 (`pipe`) does not divide. Sizes that fit: 12 or 16; or add layers=(3, 4, 4, 3) to the
ml.stages() of `pipe`.

ml.mesh(data=2, micro=ml.serial(3)), "batch:data+micro" of 8 examples:
`batch` has size 8, which 6 (`data`+`micro`) does not divide. Sizes that fit: 6 or 12; or micro=ml.serial(2) or
micro=ml.serial(4).
"""

from __future__ import annotations

import math

from ..axes.stages import Stages
from ..programs.program import Program
from ..specs.mesh import Mesh
from ..specs.spec import Axes
from .refusal import Refusal

# How the fix begins.
FITTING = "Sizes that fit: "


def uneven(dim: str, size: int, axes: Axes, mesh: Mesh, instead: str = "") -> Refusal:
    """Refuses a dim whose size its axes do not divide, with the sizes that they would."""
    count = math.prod(mesh.axes[a] for a in axes)
    down, up = size // count * count, -(-size // count) * count
    fitting = f"{down} or {up}" if down else str(up)
    text = f"{dim} has size {size}, which {count} ({'+'.join(f'`{a}`' for a in axes)}) does not divide."
    if size == 1:
        return Refusal("not_divisible", text, "Leave it replicated.")
    sizes = iterations_fitting(size, axes, mesh)
    others = [f"{axis}={mesh.in_time[axis].resized(n).source}" for axis, n in sizes]
    in_time = f"; or {' or '.join(others)}" if others else ""
    return Refusal("not_divisible", text, f"{FITTING}{fitting}{in_time}{instead}.")


def iterations_fitting(size: int, axes: Axes, mesh: Mesh) -> list[tuple[str, int]]:
    """Returns the sizes of an axis in time with which mesh axes would divide a size: the nearest ones, from 2 on.

    A size of 8 over `data` of 2 and `micro` of 3 micro-batches: 2 of them would do, or 4.
    """
    in_time = [axis for axis in axes if axis in mesh.in_time]
    each, rest = divmod(size, math.prod(mesh.axes[axis] for axis in axes if axis not in mesh.in_time))
    if len(in_time) != 1 or rest:
        return []
    small = [n for n in range(1, math.isqrt(each) + 1) if each % n == 0]
    fitting, asked = sorted({*small, *(each // n for n in small)} - {1}), mesh.axes[in_time[0]]
    nearest = [n for n in fitting if n < asked][-1:] + [n for n in fitting if n > asked][:1]
    return [(in_time[0], n) for n in nearest]


def layers_instead(stages: Stages | None, axis: str, size: int) -> str:
    """Proposes a number of layers for each stage, fewer at the ends; "" where there are chunks, or too few layers."""
    if stages is None or stages.chunk_count > 1 or size < stages.size:
        return ""
    return f"; or add layers={shared_out(size, stages.size)} to the ml.stages() of `{axis}`"


def shared_out(size: int, stages: int) -> tuple[int, ...]:
    """Returns a number of layers for each stage; those at the ends, which have the ends of the model too, have fewer.

    Example:
        >>> shared_out(14, 4)
        (3, 4, 4, 3)
    """
    each, left = divmod(size, stages)
    longer = sorted(range(stages), key=lambda stage: abs(2 * stage - stages + 1))[:left]
    return tuple(each + (stage in longer) for stage in range(stages))


def in_parts(program: Program, dim: str, axes: Axes, mesh: Mesh) -> str:
    """Proposes, for a dim of fewer elements than devices, an axis in two parts, and a dim beside it for the second.

    That dim is one that only values with the first one have, and not all of these: the queries that share a head of
    keys and values, say.

    Returns:
        Text that goes on behind the sizes that fit; "" where there is no such dim, or parts do not divide.
    """
    size, count = program.dims[dim], math.prod(mesh.axes[a] for a in axes)
    if len(axes) != 1 or not 1 < size < count or count % size:
        return ""
    stored = [frozenset(program.dims_of(argument.value)) for argument in program.arguments]
    with_dim = [dims for dims in stored if dim in dims]
    beside = [
        other
        for other, many in program.dims.items()
        if many % (count // size) == 0
        and 0 < sum(other in dims for dims in with_dim) < len(with_dim)
        and not any(other in dims for dims in stored if dim not in dims)
    ]
    if not beside:
        return ""
    axis, rest = axes[0], "rest" if "rest" not in mesh.axes else "group"
    parts = ", ".join(f"{axis}={size}, {rest}={count // size}" if a == axis else f"{a}={n}" for a, n in mesh.shape)
    return f"; or split the axis, ml.mesh({parts}), with `{dim}:{axis} {beside[0]}:{rest}`"
