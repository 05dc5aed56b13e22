"""The rule of shifts sends elements that cross an edge into the neighbouring shard.

    shift([0 1 2 3 4 5 6 7], 3), in blocks of 2 on 4 devices: device 2 holds [1 2], of which 1 comes from the device
    two before it and 2 from the one before

Where the axis is split into blocks of b, an offset k = q·b + r sends the first b - r elements of each block to the
device q further on, and the last r elements to that q + 1 further on: two collective-permutes at most.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from jax import lax

from ..code.operations import Operation
from ..collectives.device import Device
from .per_shard import ShardedOperation, per_shard
from .table import NONE, Factors, Facts, rule
from .traits import FIRST, opaque


@rule("shift", traits=opaque(linear=FIRST, multiplies=None))
def _shift(operation: Operation, facts: Facts) -> Factors:
    axes, along, through = tuple(range(len(facts.operands[0]))), frozenset((operation.params["axis"],)), frozenset((0,))
    if not facts.uniform[0]:
        return Factors((axes,), (axes,), per_shard=along, through=through)
    # A uniform array shifted around the end is unchanged; one that zeros shift into is computed where it is read.
    return Factors((axes,), (axes,), unsharded=NONE if operation.params["wrap"] else along, through=through)


@per_shard("shift", summary="{dims} {are} shifted")
def _shift_blocks(device: Device, sharded: ShardedOperation, operands: Sequence[Any]) -> list[Any]:
    (block,), axis, wrap = operands, sharded.params["axis"], sharded.params["wrap"]
    size, split = block.shape[axis], sharded.split(axis)
    devices, rest = divmod(sharded.params["offset"], size)
    parts = [
        device.shift(lax.slice_in_dim(block, start, stop, axis=axis), split, distance, wrap)
        for start, stop, distance in ((size - rest, size, devices + 1), (0, size - rest, devices))
        if start < stop
    ]
    return [lax.concatenate(parts, axis)]
