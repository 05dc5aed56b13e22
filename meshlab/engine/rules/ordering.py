"""Rules of operations that compare elements: argmax, top-k, sort.

    argmax  logits[batch, vocab] over vocab, split over model
            each device takes its maximum; two all-reduces find the greatest of these, and the first index that has it
    top_k   scores[batch, expert] over expert, split over model
            each device sends its k greatest, if that is less than its shard; the k greatest of these are the result

Ties go to the lower index, as in JAX: the shards are in order, and so are the candidates. A sorted axis is gathered.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax.numpy as jnp
from jax import lax

from ..code.operations import Operation
from ..collectives.device import Device
from .per_shard import ShardedOperation, per_shard
from .rank import to_rank
from .table import Factors, Facts, rule
from .traits import NOWHERE, opaque


@rule("argmax", traits=opaque(linear=NOWHERE, multiplies=None, joins="max"))
@rule("argmin", traits=opaque(linear=NOWHERE, multiplies=None, joins="min"))
def _argmax(operation: Operation, facts: Facts) -> Factors:
    rank = len(facts.operands[0])
    reduced = frozenset(operation.params["axes"])
    return Factors((tuple(range(rank)),), (tuple(i for i in range(rank) if i not in reduced),), per_shard=reduced)


@per_shard("argmax", summary="the position of the greatest value over {dims} is searched", padded=True)
@per_shard("argmin", summary="the position of the least value over {dims} is searched", padded=True)
def _first_of_shards(device: Device, sharded: ShardedOperation, operands: Sequence[Any]) -> list[Any]:
    """Finds the index of the greatest of the devices' maxima; of several the first."""
    ((axis,), (block,)) = sharded.params["axes"], operands
    split, size = sharded.split(axis), block.shape[axis]
    kind, over = sharded.operation.name[-3:], tuple(sorted(split))
    (place,) = sharded.run([block], device.sizes)
    # The same collective as of `reduce_max`: where a program takes both, it runs once.
    rank = to_rank({"max": lax.reduce_max, "min": lax.reduce_min}[kind](block, (axis,)), kind)
    best = device.all_reduce(rank, over, kind)
    wide = jnp.promote_types(place.dtype, jnp.int32) if jnp.issubdtype(place.dtype, jnp.signedinteger) else jnp.uint32
    index = place.astype(wide) + (device.index(split) * size).astype(wide)
    index = jnp.where(rank == best, index, jnp.asarray(sharded.operand_shapes[0][axis], wide))
    return [device.all_reduce(index, over, "min").astype(place.dtype)]


@rule("top_k", traits=opaque(linear=NOWHERE, multiplies=None, joins="max"))
def _top_k(operation: Operation, facts: Facts) -> Factors:
    shape = facts.operands[0]
    rank, along = len(shape), operation.params["axis"] % len(shape)
    axes = tuple(rank if i == along else i for i in range(rank))
    # Candidates are sent with their indices. Unless they are smaller than a shard of two, the axis is gathered.
    value, place = (v.aval.dtype.itemsize for v in operation.equation.outvars)
    few = 0 < 2 * operation.params["k"] * (value + place) < shape[along] * value
    unsharded = frozenset((rank,) if few else (rank, along))
    return Factors((tuple(range(rank)),), (axes, axes), per_shard=frozenset((along,)) - unsharded, unsharded=unsharded)


@per_shard("top_k", summary="the greatest values over {dims} are searched", padded=True, gathers=True)
def _top_of_shards(device: Device, sharded: ShardedOperation, operands: Sequence[Any]) -> list[Any]:
    """Takes the k greatest of each device's k greatest, or of its shard if that is smaller."""
    axis = sharded.params["axis"] % operands[0].ndim
    (block,) = operands
    split, size = sharded.split(axis), block.shape[axis]
    values, places = sharded.run([block], device.sizes, k=min(sharded.params["k"], size))
    places += (device.index(split) * size).astype(places.dtype)
    candidates = device.all_gather(values, split, axis)
    indices = device.all_gather(places, split, axis)
    best, which = sharded.run([candidates], device.sizes)
    return [best, jnp.take_along_axis(indices, which, axis)]


@rule("approx_top_k", traits=opaque(linear=NOWHERE, multiplies=None))
def _approx_top_k(operation: Operation, facts: Facts) -> Factors:
    rank = len(facts.operands[0])
    along = operation.params["reduction_dimension"] % rank
    axes = tuple(rank if i == along else i for i in range(rank))
    return Factors((tuple(range(rank)),), (axes, axes), unsharded=frozenset((along, rank)))


@rule("sort", traits=opaque(linear=NOWHERE, multiplies=None))
def _sort(operation: Operation, facts: Facts) -> Factors:
    axes = tuple(range(len(facts.operands[0])))
    along = operation.params["dimension"] % len(axes)
    return Factors((axes,) * len(facts.operands), (axes,) * len(facts.results), unsharded=frozenset((along,)))
