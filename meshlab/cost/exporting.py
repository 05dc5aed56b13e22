"""A plan as bytes that another process can compile, for a platform that is not attached.

    data = exported(plan, "tpu")        # StableHLO and shardings, as `jax.export` writes them

The plan is lowered as it is for running, over a mesh without devices, so that the program, its shardings and the one
`shard_map` around it are the very same; what is decided per platform is decided for the one that is named. Which
arguments may be overwritten is not part of it: `donated` tells.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import jax
from jax import export
from jax.sharding import AbstractMesh, AxisType

from ..engine.lower import lowered
from ..engine.run import abstract_arguments

if TYPE_CHECKING:
    from ..engine.plan import Plan


def exported(plan: Plan, platform: str) -> bytes:
    """Returns a plan's lowered program.

    Args:
        plan: the plan.
        platform: "tpu" or "cuda".
    """
    axes = mesh_axes(plan)
    mesh = AbstractMesh(
        tuple(size for _, size in axes), tuple(name for name, _ in axes), axis_types=(AxisType.Auto,) * len(axes)
    )
    function = jax.jit(lowered(plan, mesh), keep_unused=True)
    return bytes(export.export(function, platforms=[platform])(*abstract_arguments(plan, mesh)).serialize())


def mesh_axes(plan: Plan) -> tuple[tuple[str, int], ...]:
    """The mesh's axes and sizes, major first; one of size 1 where there are none."""
    return plan.mesh.shape or (("device", 1),)
