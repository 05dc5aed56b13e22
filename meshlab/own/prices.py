"""Prices the collectives of the user's program on a machine, as `plan.time` prices those of a plan.

    price = on_machine(ml.mesh("h100:1x8", data=2, model=4))
    price("all-gather", ("data",), 4096, "bfloat16", "float32")      seconds of one, alone on its links

XLA for CPUs widens bfloat16 and float8; what is sent on the machine has the value's own dtype.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import jax.numpy as jnp

from ..cost.machines.collective_time import seconds
from ..cost.machines.meshes import machine_of
from ..engine.collectives.kinds import KINDS
from ..engine.specs.mesh import Mesh
from ..engine.specs.spec import Axes

# Of a kind, mesh axes, the bytes of its operand on one device, the value's dtype, and that in which it is executed.
Price = Callable[[str, Axes, int, str, str], float]


def on_machine(mesh: Mesh) -> Price:
    """Returns what one collective costs on a mesh's machine, in seconds.

    Raises:
        HardwareError: the mesh is on no machine.
    """
    placement = machine_of(mesh, "ml.explain")

    def price(kind: str, axes: Axes, operand: int, dtype: str, executed: str) -> float:
        parts = math.prod(mesh.devices.axes[axis] for axis in axes) if KINDS[kind].shard else 1
        return seconds(kind, operand * parts * _narrowed(dtype, executed), placement, axes)

    return price


def _narrowed(dtype: str, executed: str) -> float:
    is_float = all(jnp.issubdtype(jnp.dtype(one), jnp.floating) for one in (dtype, executed))
    return min(1.0, jnp.dtype(dtype).itemsize / jnp.dtype(executed).itemsize) if is_float else 1.0
