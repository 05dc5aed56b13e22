"""Exports a plan as bytes that another process can compile, for a platform that is not attached.

    data = exported(plan, "tpu")        # StableHLO and shardings, as `jax.export` writes them

The plan is lowered as it is for running, over a mesh without devices: the program, its shardings and the `shard_map`
around it are the same. Platform-dependent rules are lowered for the named platform. Donated arguments are not part of
it (`engine.running.run.donated`).
"""

from __future__ import annotations

import jax

from ...engine.plans.plan_data import Plan
from ...engine.running.compile_worker import written
from ...engine.running.lower import lowered
from ...engine.running.run import abstract_arguments, abstract_mesh


def exported(plan: Plan, platform: str) -> bytes:
    """Returns a plan's program, lowered for "tpu" or "cuda"."""
    mesh = abstract_mesh(plan.mesh)
    return written(
        jax.jit(lowered(plan, mesh, platform=platform), keep_unused=True), abstract_arguments(plan, mesh), platform
    )
