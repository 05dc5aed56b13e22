"""Finds constants, iotas and broadcasts, which are computed where they are read and have no spec of their own.

jnp.zeros((8, 4))      iota      zeros + 1         any device computes any shard
mean[:, None] → [8, 4]                             the mean is resharded, if it must be, and broadcast there
"""

from __future__ import annotations

import math
from collections.abc import Collection

from ..code.operations import Code, Literal, walk
from ..rules import ELEMENTWISE


def uniform_values(code: Code) -> tuple[frozenset[int], frozenset[int]]:
    """Finds the values that hold one number everywhere, and those of them that are zero.

    Returns:
        The numbers of the values that are a broadcast scalar, or elementwise functions of such, and of those that are
        the constant zero.
    """
    uniform: set[int] = set()
    zeros: set[int] = set()
    for operation in walk(code.block):
        if operation.name in ELEMENTWISE or operation.name == "broadcast_in_dim":
            known = [isinstance(i, Literal) or i in uniform for i in operation.inputs]
            uniform.update(operation.outputs if all(known) and code.shapes[operation.outputs[0]] else ())
        if operation.name == "broadcast_in_dim" and code.shape_of(operation.inputs[0]) == ():
            uniform.update(operation.outputs)
            source = operation.inputs[0]
            if isinstance(source, Literal) and source.is_zero:
                zeros.update(operation.outputs)
    return frozenset(uniform), frozenset(zeros)


def constant_values(code: Code, uniform: Collection[int]) -> frozenset[int]:
    """Finds the values that any device can compute in any spec: broadcast scalars, iotas, functions of these alone."""
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
