"""Rules of scatters let each device write its own shard: gradients of embeddings, caches, histograms.

    scatter-add  zeros[vocab, embed] at ids[batch, seq, 1] += updates[batch, seq, embed]  → [vocab, embed]

Where an axis that is written to is sharded, each device writes the updates of its own shard and drops the rest: nothing
is sent, but all devices need all updates. Sums are the exception. Where the array is zero, or small beside the updates,
the updates may be sharded: each device adds its own, only one of them to the array, and the result is a partial sum.
Updates that are partial sums already stay so.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import jax.numpy as jnp
from jax import lax

from ..code.operations import Operation
from ..collectives.device import Device
from .indices import Windows, local_windows, window_factors
from .per_shard import ShardedOperation, bind, per_shard
from .table import NONE, Factors, Facts, Shape, rule
from .traits import FIRST, NOWHERE, Groups, Linear, Traits, linear_in, scattering

_SCATTERS = ("scatter", "scatter-add", "scatter-sub", "scatter-mul", "scatter-min", "scatter-max")
_SUMS = ("scatter-add", "scatter-sub")
_WITH_UPDATES = linear_in({0, 2})


def _indexed(operation: Operation, operands: Sequence[Shape]) -> tuple[int, int]:
    along = operation.params["dimension_numbers"].scatter_dims_to_operand_dims
    return 1, min((operands[0][d] for d in along), default=1)


def _overwrites(operation: Operation) -> Groups:
    """Returns array and updates, if these replace elements; not where a function is applied to them (`.at[].apply`)."""
    return _WITH_UPDATES(operation) if operation.params["update_jaxpr"] is None else ()


def _traits(linear: Linear) -> Traits:
    return scattering(linear=linear, updates=2, indexes=_indexed)


def scattered_windows(params: dict[str, Any], array: Shape, slices: Shape) -> Windows:
    numbers = params["dimension_numbers"]
    dropped = (*numbers.inserted_window_dims, *numbers.operand_batching_dims)
    remaining = [d for d in range(len(array)) if d not in dropped]
    slice_axes = {d: int(axis) for d, axis in zip(remaining, numbers.update_window_dims, strict=True)}
    return Windows(
        tuple(int(d) for d in numbers.scatter_dims_to_operand_dims),
        tuple(zip(numbers.operand_batching_dims, numbers.scatter_indices_batching_dims, strict=True)),
        slice_axes,
        tuple(slices[slice_axes[d]] if d in slice_axes else 1 for d in range(len(array))),
        tuple(i for i in range(len(slices)) if i not in numbers.update_window_dims),
    )


@rule("scatter", traits=_traits(_overwrites))
@rule("scatter-add", "scatter-sub", traits=_traits(_WITH_UPDATES))
@rule("scatter-mul", traits=_traits(FIRST))
@rule("scatter-min", "scatter-max", traits=_traits(NOWHERE))
def _scatter(operation: Operation, facts: Facts) -> Factors:
    array, indices, slices = facts.operands
    axes = window_factors(scattered_windows(operation.params, array, slices), array, indices, slices)
    small = 2 * math.prod(array) <= math.prod(slices)
    added = operation.name in _SUMS and (facts.zeros[0] or small)
    summed = axes.positions if added else NONE
    return Factors(
        (axes.array, axes.indices, axes.slices),
        (axes.array,),
        summed=summed,
        per_shard=axes.looked_up if facts.zeros[0] else axes.looked_up | summed,
        unsharded=axes.unsharded | (axes.positions - summed),
        propagating=NONE,
        # Where the array is larger than the updates, these are reduced first.
        through=frozenset((2,) if added and math.prod(array) <= math.prod(slices) and facts.zeros[0] else ()),
    )


@per_shard(*_SCATTERS, summary="{dims} {are} written to where indices say", padded=True)
def _write(device: Device, sharded: ShardedOperation, operands: Sequence[Any]) -> list[Any]:
    array, indices, updates = operands
    windows = scattered_windows(sharded.params, sharded.operand_shapes[0], sharded.operand_shapes[2])
    clipped = sharded.params["mode"] == lax.GatherScatterMode.CLIP
    local = local_windows(device, sharded, windows, array.shape, indices, clipped=clipped)
    for axis, block in local.block.items():
        # Beyond the end nothing is written.
        local.starts[axis] = jnp.where(local.mine & local.inside, local.starts[axis], block)
    numbers = lax.ScatterDimensionNumbers(
        tuple(sorted(local.windows.slice_axes.values())),
        local.windows.dropped,
        local.windows.indexed,
        tuple(d for d, _ in local.windows.batching),
        tuple(i for _, i in local.windows.batching),
    )
    changed = {
        "dimension_numbers": numbers,
        "indices_are_sorted": False,
        "mode": sharded.params["mode"] if not local.block else lax.GatherScatterMode.FILL_OR_DROP,
    }
    start = _once(device, sharded, array)
    if local.block and local.mine.size == 1:
        # XLA makes a slice and an update of a scatter of one window, clamped into the array. Where that is a slice
        # itself, its simplifier joins the two without the clamp, and a window that is dropped is filled from outside.
        start = lax.optimization_barrier(start)
    return bind(sharded.operation, [start, local.indices, updates], sharded.params | changed)


def _once(device: Device, sharded: ShardedOperation, array: Any) -> Any:
    """Returns the array that updates are added to: where these are sharded, one device has it and the others zeros."""
    shared = tuple(sorted(set(sharded.results[0].partial) - set(sharded.operands[0].partial)))
    return jnp.where(device.index(shared) == 0, array, jnp.zeros_like(array)) if shared else array
