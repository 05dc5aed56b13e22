"""What costs nothing, or next to nothing, to make where it is needed: it has no spec of its own.

jnp.zeros((8, 4))      iota      zeros + 1         any device makes any part of it
mean[:, None] → [8, 4]                             the mean is moved, if it must be, and repeated there
"""

from __future__ import annotations

import math
from collections.abc import Collection

from ..code.operations import Code, walk
from ..rules import ELEMENTWISE


def free_values(code: Code, uniform: Collection[int]) -> frozenset[int]:
    """Values that any device can make in any spec: scalars broadcast, iotas, and what is made of them alone.

    Args:
        code: the program's.
        uniform: the values that hold one number everywhere.
    """
    found: set[int] = set()
    for operation in walk(code.block):
        if operation.name == "iota" or (operation.outputs[:1] and operation.outputs[0] in uniform):
            found.update(operation.outputs)
        elif operation.name in ELEMENTWISE or operation.name == "broadcast_in_dim":
            of_free = all(not isinstance(i, int) or i in found for i in operation.inputs)
            found.update(operation.outputs if operation.reads and of_free else ())
    return frozenset(found)


def repeated_values(code: Code) -> frozenset[int]:
    """Values that repeat a smaller one, which is moved itself before it is repeated."""
    shape_of = code.shape_of
    return frozenset(
        operation.outputs[0]
        for operation in walk(code.block)
        if operation.name == "broadcast_in_dim"
        and operation.reads
        and 1 < math.prod(shape_of(operation.inputs[0])) < math.prod(shape_of(operation.outputs[0]))
    )
