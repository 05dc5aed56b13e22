"""The rule of gather: an embedding, the label's logit, single elements, windows at a position of each row's own.

    gather  table[vocab, embed] at ids[batch, seq, 1]  → [batch, seq, embed]

Where an axis that is looked up is split, every device answers what lies in its part, and zero for everything else: the
result is a partial sum. So the table is never gathered, however large. A window that is more than half of what it is
cut out of is the exception: the array is gathered, which moves less.

What the indices say of elements that do not exist is JAX's: clipped, or filled by the first device alone.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import jax.numpy as jnp
from jax import dtypes, lax

from ..code.operations import Operation
from .indices import Own, Windows, own_windows, window_factors
from .local_forms import Device, Local, local_form
from .table import NONE, Factors, Facts, Shape, local_params, rule
from .traits import FIRST, Groups, gathering


def gathered_windows(params: dict[str, Any], slices: int) -> Windows:
    """The windows of a gather whose result has `slices` axes."""
    numbers, sizes = params["dimension_numbers"], params["slice_sizes"]
    gone = (*numbers.collapsed_slice_dims, *numbers.operand_batching_dims)
    kept = [d for d in range(len(sizes)) if d not in gone]
    return Windows(
        tuple(int(d) for d in numbers.start_index_map),
        tuple(zip(numbers.operand_batching_dims, numbers.start_indices_batching_dims, strict=True)),
        {d: int(place) for d, place in zip(kept, numbers.offset_dims, strict=True)},
        tuple(sizes),
        tuple(i for i in range(slices) if i not in numbers.offset_dims),
    )


def _is_linear(operation: Operation) -> Groups:
    """What is looked up beyond the end must be zero, or no number, if anything else is put there."""
    fill = operation.params["fill_value"]
    filled = operation.params["mode"] == lax.GatherScatterMode.FILL_OR_DROP and not _is_bool(operation)
    inexact = jnp.issubdtype(operation.equation.outvars[0].aval.dtype, jnp.inexact)
    told = inexact if fill is None else bool(fill == 0 or fill != fill)  # noqa: PLR0124 - no number equals itself not
    return () if filled and not told else FIRST(operation)


def _chosen(operation: Operation, operands: Sequence[Shape]) -> tuple[int, int]:
    return 1, min((operands[0][d] for d in operation.params["dimension_numbers"].start_index_map), default=1)


@rule("gather", traits=gathering(linear=_is_linear, indexes=_chosen))
def _gather(operation: Operation, facts: Facts) -> Factors:
    (table, indices), (slices,) = facts.operands, facts.results
    windows = gathered_windows(operation.params, len(slices))
    axes = window_factors(windows, table, indices, slices)
    found = addable(operation, axes.looked_up, 2 * math.prod(slices) <= math.prod(table))
    # Single elements are looked up wherever they lie; a long window is not worth it.
    single = frozenset(d for d in axes.looked_up if d not in windows.places or windows.sizes[d] == 1)
    found |= addable(operation, single, True)
    return Factors(
        (axes.array, axes.indices),
        (axes.slices,),
        summed=NONE if _is_bool(operation) else found,
        exchanged=found,
        whole=axes.whole | (axes.looked_up - found),
        survivors=NONE,
    )


def addable(operation: Operation, axes: frozenset[int], cheap: bool) -> frozenset[int]:
    """Those axes, if what is found along them is a sum of what devices find, and that is the cheaper way."""
    dtype = operation.equation.invars[0].aval.dtype
    return axes if cheap and not jnp.issubdtype(dtype, dtypes.extended) else NONE


def _is_bool(operation: Operation) -> bool:
    return operation.equation.invars[0].aval.dtype == bool


@local_params("gather")
def _gather_local(params: dict[str, Any], _operands: tuple[Shape, ...], results: tuple[Shape, ...]):
    places = gathered_windows(params, len(results[0])).places
    sizes = (results[0][places[d]] if d in places else size for d, size in enumerate(params["slice_sizes"]))
    return params | {"slice_sizes": tuple(sizes)}


@local_form("gather", told="{dims} is looked up", padded=True)
def _look_up(device: Device, local: Local, operands: Sequence[Any]) -> list[Any]:
    table, indices = operands
    filled = local.params["mode"] == lax.GatherScatterMode.FILL_OR_DROP
    windows = gathered_windows(local.params, len(local.result_shapes[0]))
    own = own_windows(device, local, windows, table.shape, indices, clipped=not filled)
    found = _windows_of(table, own, local)
    split = tuple(a for axis in own.block for a in local.split(axis))
    found = combined(device, found, _spread(own.mine, own, found), split)
    if not filled:
        return [found]
    # Of the addends of a window that is not there, the first device's is what stands for it.
    filler = _filler(local.params["fill_value"], found.dtype)
    first = (device.index(split) == 0) | (found.dtype == bool)
    filler = jnp.where(first, filler, jnp.zeros_like(filler))
    return [jnp.where(_spread(own.inside, own, found), found, filler)]


def combined(device: Device, found: Any, mine: Any, split: tuple[str, ...]) -> Any:
    """What this device found, as an addend of what all have found; truth values, of which there is no sum, whole."""
    kept = jnp.where(mine, found, jnp.zeros_like(found))
    return device.all_reduce(kept, tuple(sorted(split)), "max") if found.dtype == bool else kept


def _windows_of(table: Any, own: Own, local: Local) -> Any:
    """The windows as if all began in this device's part."""
    windows, params = own.windows, local.params
    numbers = lax.GatherDimensionNumbers(
        tuple(sorted(windows.places.values())),
        windows.dropped,
        windows.indexed,
        tuple(d for d, _ in windows.batching),
        tuple(i for _, i in windows.batching),
    )
    full = [d for d, size in enumerate(local.operand_shapes[0]) if d in windows.places and windows.sizes[d] == size]
    sizes = tuple(table.shape[d] if d in full else size for d, size in enumerate(windows.sizes))
    return lax.gather(
        table, own.indices, numbers, sizes, unique_indices=params["unique_indices"], mode=lax.GatherScatterMode.CLIP
    )


def _spread(rows: Any, own: Own, found: Any) -> Any:
    """What is known of each window, for each element of it."""
    size = tuple(found.shape[i] for i in own.windows.positions)
    return lax.broadcast_in_dim(jnp.broadcast_to(rows, size), found.shape, own.windows.positions)


def _filler(given: Any, dtype: Any) -> Any:
    """What JAX's gather answers for elements that are not there."""
    if given is not None:
        return jnp.asarray(given, dtype)
    if jnp.issubdtype(dtype, jnp.inexact):
        return jnp.asarray(jnp.nan, dtype)
    if jnp.issubdtype(dtype, jnp.bool_):
        return jnp.asarray(True)
    limits = jnp.iinfo(dtype)
    return jnp.asarray(limits.min if jnp.issubdtype(dtype, jnp.signedinteger) else limits.max, dtype)
