"""Rules of gather and scatter-add: the embedding, and its gradient.

    gather       table[vocab, embed] at ids[batch, seq]      → [batch, seq, embed]
    scatter-add  zeros[vocab, embed] at ids[batch, seq] += updates[batch, seq, embed]  → [vocab, embed]

Where the indexed axis is split, every device looks up the ids that lie in its part and answers zero for the others: the
result is a partial sum. Its transpose adds only what lies in the device's part; the axes of the ids are summed away.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax.numpy as jnp
from jax import lax

from ..code import Operation
from .local import Device, Local, local_form
from .table import NONE, Factors, Facts, Shape, local_params, rule, run_whole


def looked_up_axis(dimension_numbers: Any) -> int | None:
    """The operand's axis that a gather or scatter of whole rows indexes, or None for any other form."""
    rows = getattr(dimension_numbers, "collapsed_slice_dims", None)
    if rows is None:
        rows = dimension_numbers.inserted_window_dims
    mapped = getattr(dimension_numbers, "start_index_map", None)
    if mapped is None:
        mapped = dimension_numbers.scatter_dims_to_operand_dims
    batching = dimension_numbers.operand_batching_dims
    return rows[0] if len(rows) == 1 and tuple(mapped) == tuple(rows) and not batching else None


@rule("gather")
def _gather(operation: Operation, facts: Facts) -> Factors:
    numbers, sizes = operation.params["dimension_numbers"], operation.params["slice_sizes"]
    axis = looked_up_axis(numbers)
    table, ids = facts.operands
    full = all(size == whole for i, (size, whole) in enumerate(zip(sizes, table, strict=True)) if i != axis)
    if axis is None or not full:
        return run_whole(facts, known=True)
    rank = len(table)
    positions = tuple(range(rank, rank + len(ids) - 1))
    kept, looked = iter([i for i in range(rank) if i != axis]), iter(positions)
    result = tuple(next(kept) if i in numbers.offset_dims else next(looked) for i in range(len(facts.results[0])))
    return Factors(
        (tuple(range(rank)), (*positions, -1)),
        (result,),
        summed=frozenset((axis,)),
        exchanged=frozenset((axis,)),
        survivors=NONE,
    )


@local_params("gather")
def _gather_local(params: dict[str, Any], operands: tuple[Shape, ...], _results: tuple[Shape, ...]):
    sizes = tuple(1 if size == 1 else local for size, local in zip(params["slice_sizes"], operands[0], strict=True))
    axis = looked_up_axis(params["dimension_numbers"])
    if axis is None:
        return params
    return params | {"slice_sizes": tuple(1 if i == axis else size for i, size in enumerate(sizes))}


@rule("scatter-add")
def _scatter_add(operation: Operation, facts: Facts) -> Factors:
    numbers = operation.params["dimension_numbers"]
    axis = looked_up_axis(numbers)
    table, ids, updates = facts.operands
    windows = [i for i in range(len(table)) if i != axis]
    update_windows = numbers.update_window_dims
    full = len(windows) == len(update_windows) and all(
        table[i] == updates[j] for i, j in zip(windows, update_windows, strict=False)
    )
    if axis is None or not full:
        return run_whole(facts, known=True)
    rank = len(table)
    positions = tuple(range(rank, rank + len(ids) - 1))
    kept, looked = iter(windows), iter(positions)
    update = tuple(next(kept) if i in update_windows else next(looked) for i in range(len(updates)))
    axes = tuple(range(rank))
    # Only a table of zeros is the same as a partial sum of itself; else the ids must be whole.
    summed = frozenset(positions) if facts.zeros[0] else frozenset()
    whole = frozenset() if facts.zeros[0] else frozenset(positions)
    index = frozenset((axis,))
    return Factors(
        (axes, (*positions, -1), update), (axes,), summed=summed, exchanged=index, whole=whole, survivors=NONE
    )


def _own_rows(device: Device, local: Local, ids: Any) -> tuple[Any, Any, Any, int]:
    """The ids as they were asked for, and counted from this device's first row; which of them lie here; all rows."""
    axis = looked_up_axis(local.params["dimension_numbers"])
    assert axis is not None
    total, split = local.operand_shapes[0][axis], local.split(axis)
    rows = total
    for mesh_axis in split:
        rows //= device.sizes[mesh_axis]
    # Small integers would overflow when the start of a part is taken off.
    ids = ids.astype(jnp.promote_types(ids.dtype, jnp.int32))
    if local.params["mode"] == lax.GatherScatterMode.CLIP:
        ids = jnp.clip(ids, 0, total - 1)
    here = ids - (device.index(split) * rows).astype(ids.dtype)
    return ids, here, (here >= 0) & (here < rows), total


@local_form("scatter-add", told="{dims} is added to row by row")
def _add_own_rows(device: Device, local: Local, operands: Sequence[Any]) -> list[Any]:
    table, ids, updates = operands
    axis = looked_up_axis(local.params["dimension_numbers"])
    assert axis is not None
    _, here, mine, _ = _own_rows(device, local, ids)
    # Ids out of range are dropped.
    elsewhere = jnp.where(mine, here, table.shape[axis])
    return local.run([table, elsewhere, updates], device.sizes, mode=lax.GatherScatterMode.FILL_OR_DROP)


@local_form("gather", told="{dims} is looked up")
def _look_up_own_rows(device: Device, local: Local, operands: Sequence[Any]) -> list[Any]:
    table, ids = operands
    asked, here, mine, total = _own_rows(device, local, ids)
    numbers, mode = local.params["dimension_numbers"], local.params["mode"]
    (found,) = local.run([table, jnp.where(mine, here, 0)], device.sizes, mode=lax.GatherScatterMode.CLIP)

    def spread(rows: Any) -> Any:
        places = tuple(i for i in range(found.ndim) if i not in numbers.offset_dims)
        return lax.broadcast_in_dim(rows[..., 0], found.shape, places)

    looked = jnp.where(spread(mine), found, jnp.zeros_like(found))
    if mode != lax.GatherScatterMode.FILL_OR_DROP:
        return [looked]
    # Of the addends of a row that is not there, the first device's is what stands for it.
    axis = looked_up_axis(numbers)
    assert axis is not None
    missing = ((asked < 0) | (asked >= total)) & (device.index(local.split(axis)) == 0)
    return [jnp.where(spread(missing), _filler(local.params["fill_value"], found.dtype), looked)]


def _filler(given: Any, dtype: Any) -> Any:
    """What JAX's gather answers for rows that are not there."""
    if given is not None:
        return jnp.asarray(given, dtype)
    if jnp.issubdtype(dtype, jnp.inexact):
        return jnp.asarray(jnp.nan, dtype)
    if jnp.issubdtype(dtype, jnp.bool_):
        return jnp.asarray(True)
    limits = jnp.iinfo(dtype)
    return jnp.asarray(limits.min if jnp.issubdtype(dtype, jnp.signedinteger) else limits.max, dtype)
