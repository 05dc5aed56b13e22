"""The rule of gather lets each device look up its own shard, so that the result is a partial sum.

    gather  table[vocab, embed] at ids[batch, seq, 1]  → [batch, seq, embed]

Where an axis that is looked up is sharded, every device returns the elements of its own shard, and zero for all others.
So an embedding table is never gathered, however large. An array is gathered only where the windows are more than half
of it, which sends less.

Indices out of range are treated as JAX does: clipped, or filled, by the first device alone.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import jax.numpy as jnp
from jax import dtypes, lax

from ..code.operations import Operation
from ..collectives.device import Device
from .indices import LocalWindows, Windows, local_windows, window_factors
from .per_shard import ShardedOperation, per_shard
from .table import NONE, Factors, Facts, Shape, local_params, rule
from .traits import FIRST, Groups, gathering


def gathered_windows(params: dict[str, Any], slices: int) -> Windows:
    """Returns the windows of a gather whose result has `slices` axes."""
    numbers, sizes = params["dimension_numbers"], params["slice_sizes"]
    dropped = (*numbers.collapsed_slice_dims, *numbers.operand_batching_dims)
    remaining = [d for d in range(len(sizes)) if d not in dropped]
    return Windows(
        tuple(int(d) for d in numbers.start_index_map),
        tuple(zip(numbers.operand_batching_dims, numbers.start_indices_batching_dims, strict=True)),
        {d: int(axis) for d, axis in zip(remaining, numbers.offset_dims, strict=True)},
        tuple(sizes),
        tuple(i for i in range(slices) if i not in numbers.offset_dims),
    )


def _is_linear(operation: Operation) -> Groups:
    """Returns the array, if indices out of range are clipped, or filled with zero or NaN."""
    fill = operation.params["fill_value"]
    filled = operation.params["mode"] == lax.GatherScatterMode.FILL_OR_DROP and not _is_bool(operation)
    inexact = jnp.issubdtype(operation.equation.outvars[0].aval.dtype, jnp.inexact)
    zero_or_nan = inexact if fill is None else bool(fill == 0 or fill != fill)  # noqa: PLR0124 - true of NaN alone
    return () if filled and not zero_or_nan else FIRST(operation)


def _indexed(operation: Operation, operands: Sequence[Shape]) -> tuple[int, int]:
    return 1, min((operands[0][d] for d in operation.params["dimension_numbers"].start_index_map), default=1)


@rule("gather", traits=gathering(linear=_is_linear, indexes=_indexed))
def _gather(operation: Operation, facts: Facts) -> Factors:
    (table, indices), (slices,) = facts.operands, facts.results
    windows = gathered_windows(operation.params, len(slices))
    axes = window_factors(windows, table, indices, slices)
    masked = addable(operation, axes.looked_up, 2 * math.prod(slices) <= math.prod(table))
    # Single elements are looked up in any case; a long window is not worth it.
    single = frozenset(d for d in axes.looked_up if d not in windows.slice_axes or windows.sizes[d] == 1)
    masked |= addable(operation, single, True)
    return Factors(
        (axes.array, axes.indices),
        (axes.slices,),
        summed=NONE if _is_bool(operation) else masked,
        per_shard=masked,
        unsharded=axes.unsharded | (axes.looked_up - masked),
        propagating=NONE,
    )


def addable(operation: Operation, axes: frozenset[int], cheap: bool) -> frozenset[int]:
    """Returns those axes, if lookups along them add up over devices, and that is cheaper than to gather."""
    dtype = operation.equation.invars[0].aval.dtype
    return axes if cheap and not jnp.issubdtype(dtype, dtypes.extended) else NONE


def _is_bool(operation: Operation) -> bool:
    return operation.equation.invars[0].aval.dtype == bool


@local_params("gather")
def _gather_local(params: dict[str, Any], _operands: tuple[Shape, ...], results: tuple[Shape, ...]):
    slice_axes = gathered_windows(params, len(results[0])).slice_axes
    sizes = (results[0][slice_axes[d]] if d in slice_axes else size for d, size in enumerate(params["slice_sizes"]))
    return params | {"slice_sizes": tuple(sizes)}


@per_shard("gather", summary="{dims} {are} looked up", padded=True)
def _look_up(device: Device, sharded: ShardedOperation, operands: Sequence[Any]) -> list[Any]:
    table, indices = operands
    filled = sharded.params["mode"] == lax.GatherScatterMode.FILL_OR_DROP
    windows = gathered_windows(sharded.params, len(sharded.result_shapes[0]))
    local = local_windows(device, sharded, windows, table.shape, indices, clipped=not filled)
    slices = _local_slices(table, local, sharded)
    split = tuple(a for axis in local.block for a in sharded.split(axis))
    slices = combined(device, slices, _per_element(local.mine, local, slices), split)
    if not filled:
        return [slices]
    # Of the addends of a window out of range, the first device's is the filler.
    filler = _filler(sharded.params["fill_value"], slices.dtype)
    first = (device.index(split) == 0) | (slices.dtype == bool)
    filler = jnp.where(first, filler, jnp.zeros_like(filler))
    return [jnp.where(_per_element(local.inside, local, slices), slices, filler)]


def combined(device: Device, values: Any, mine: Any, split: tuple[str, ...]) -> Any:
    """Returns this device's values and zeros for the others, a partial sum; of booleans their "or"."""
    local = jnp.where(mine, values, jnp.zeros_like(values))
    return device.all_reduce(local, tuple(sorted(split)), "max") if local.dtype == bool else local


def _local_slices(table: Any, local: LocalWindows, sharded: ShardedOperation) -> Any:
    """Gathers the windows as if all began in this device's shard."""
    windows, params = local.windows, sharded.params
    numbers = lax.GatherDimensionNumbers(
        tuple(sorted(windows.slice_axes.values())),
        windows.dropped,
        windows.indexed,
        tuple(d for d, _ in windows.batching),
        tuple(i for _, i in windows.batching),
    )
    shape = sharded.operand_shapes[0]
    full = [d for d, size in enumerate(shape) if d in windows.slice_axes and windows.sizes[d] == size]
    sizes = tuple(table.shape[d] if d in full else size for d, size in enumerate(windows.sizes))
    return lax.gather(
        table, local.indices, numbers, sizes, unique_indices=params["unique_indices"], mode=lax.GatherScatterMode.CLIP
    )


def _per_element(of_windows: Any, local: LocalWindows, slices: Any) -> Any:
    """Broadcasts an array with one element a window to the elements of all windows."""
    size = tuple(slices.shape[i] for i in local.windows.positions)
    return lax.broadcast_in_dim(jnp.broadcast_to(of_windows, size), slices.shape, local.windows.positions)


def _filler(fill_value: Any, dtype: Any) -> Any:
    """Returns the number that JAX's gather gives for indices out of range."""
    if fill_value is not None:
        return jnp.asarray(fill_value, dtype)
    if jnp.issubdtype(dtype, jnp.inexact):
        return jnp.asarray(jnp.nan, dtype)
    if jnp.issubdtype(dtype, jnp.bool_):
        return jnp.asarray(True)
    limits = jnp.iinfo(dtype)
    return jnp.asarray(limits.min if jnp.issubdtype(dtype, jnp.signedinteger) else limits.max, dtype)
