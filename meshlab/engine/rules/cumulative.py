"""Rules of cumulative operations (sums, products, extremes) send one slice of each shard.

    cumsum  [1 1 1 1 | 1 1 1 1]  each shard by itself: [1 2 3 4 | 1 2 3 4], whose last elements are gathered: [4 4]
            the shards before are joined to it:        [1 2 3 4 | 5 6 7 8]

The last elements are joined by the very same operation.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax.numpy as jnp
from jax import lax

from ..code.operations import Operation
from ..collectives.device import Device
from .per_shard import ShardedOperation, per_shard
from .table import Factors, Facts, rule
from .traits import FIRST, NOWHERE, opaque

_JOIN = {
    "cumsum": lax.add,
    "cumprod": lax.mul,
    "cummax": lax.max,
    "cummin": lax.min,
    "cumlogsumexp": jnp.logaddexp,
}


@rule("cumsum", traits=opaque(linear=FIRST, multiplies=None, joins="sum"))
@rule("cumprod", traits=opaque(linear=NOWHERE, multiplies=None, joins="product"))
# A sum of exponentials has the neutral element of a maximum.
@rule("cummax", "cumlogsumexp", traits=opaque(linear=NOWHERE, multiplies=None, joins="max"))
@rule("cummin", traits=opaque(linear=NOWHERE, multiplies=None, joins="min"))
def _cumulative(operation: Operation, facts: Facts) -> Factors:
    axes = tuple(range(len(facts.operands[0])))
    return Factors((axes,), (axes,), per_shard=frozenset((operation.params["axis"],)))


@per_shard(
    *_JOIN, summary="{dims} {are} scanned, and each part continues from the parts before it", padded=True, gathers=True
)
def _continue_from_before(device: Device, sharded: ShardedOperation, operands: Sequence[Any]) -> list[Any]:
    axis, reverse = sharded.params["axis"], sharded.params["reverse"]
    split = sharded.split(axis)
    # A shard of one element is its own result, which other operations may send as well.
    (own,) = sharded.run(operands, device.sizes) if operands[0].shape[axis] != 1 else operands
    last = lax.slice_in_dim(own, 0, 1, axis=axis) if reverse else lax.slice_in_dim(own, -1, None, axis=axis)
    ends = device.all_gather(last, split, axis)
    (so_far,) = sharded.run([ends], device.sizes)
    part = device.index(split)
    before = part + 1 if reverse else part - 1
    first = (before < 0) | (before >= ends.shape[axis])
    initial = jnp.broadcast_to(lax.dynamic_slice_in_dim(so_far, jnp.maximum(before, 0), 1, axis), own.shape)
    return [jnp.where(first, own, _JOIN[sharded.operation.name](own, initial))]
