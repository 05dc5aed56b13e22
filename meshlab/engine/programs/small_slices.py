"""Finds slices so small that their operand stays sharded, and the slice is a partial sum.

    h[:, -1]                                the last of many positions: only that one is sent, not all of h
    qkv[:n], qkv[n : 2 * n], qkv[2 * n :]   the slices cover the array: it is gathered once, if it must be

A device that holds no element of a slice contributes zeros. To reduce the partial sum sends twice the slice's bytes,
which is less than gathering as long as all slices of an array together are at most half of it.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection

from ..code.operations import Code, Operation, walk


def small_slices(code: Code, materialisable: Collection[int]) -> frozenset[Operation]:
    """Returns the slices of arrays of which all slices together take at most half.

    Args:
        code: the program's.
        materialisable: the values that any device can compute in any spec (`constants`): nothing of them is ever sent.
    """
    slices = [
        operation
        for operation in walk(code.block)
        if operation.name == "slice" and operation.reads and operation.inputs[0] not in materialisable
    ]
    taken: Counter[int] = Counter()
    for operation in slices:
        taken[operation.reads[0]] += math.prod(code.shapes[operation.outputs[0]])
    return frozenset(o for o in slices if 2 * taken[o.reads[0]] <= math.prod(code.shapes[o.reads[0]]))
