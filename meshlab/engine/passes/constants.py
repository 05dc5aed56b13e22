"""Finds constants, iotas and broadcasts, which are computed where they are read and have no spec of their own.

jnp.zeros((8, 4))      iota      zeros + 1         any device computes any shard
mean[:, None] → [8, 4]                             the mean is resharded, if it must be, and broadcast there
"""

from __future__ import annotations

import math
from collections.abc import Collection

from ..code.operations import Code, walk
from ..rules import ELEMENTWISE


def constant_values(code: Code, uniform: Collection[int]) -> frozenset[int]:
    """Finds the values that any device can compute in any spec: broadcast scalars, iotas, and functions of these alone.

    Args:
        code: the program's.
        uniform: the values that hold one number everywhere.
    """
    constant: set[int] = set()
    for operation in walk(code.block):
        if operation.name == "iota" or (operation.outputs[:1] and operation.outputs[0] in uniform):
            constant.update(operation.outputs)
        elif operation.name in ELEMENTWISE or operation.name == "broadcast_in_dim":
            constant.update(operation.outputs if operation.reads and constant.issuperset(operation.reads) else ())
    return frozenset(constant)


def broadcast_values(code: Code) -> frozenset[int]:
    """Finds the values that broadcast a smaller one, which is resharded instead, before the broadcast."""
    shape_of = code.shape_of
    return frozenset(
        operation.outputs[0]
        for operation in walk(code.block)
        if operation.name == "broadcast_in_dim"
        and operation.reads
        and 1 < math.prod(shape_of(operation.inputs[0])) < math.prod(shape_of(operation.outputs[0]))
    )
