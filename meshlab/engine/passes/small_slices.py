"""Pieces: slices that take so little of an array that it had better stay where it is.

    h[:, -1]                          the last of many positions: whoever holds it sends it, not all of h
    qkv[:n], qkv[n : 2 * n], qkv[2 * n :]   all of it, piece by piece: it is gathered once, if it must be

A device that holds none of a piece answers zeros, so that the piece is a partial sum. To add it up sends twice what the
piece is, which is less than gathering as long as all pieces of an array together are at most half of it.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection

from ..code.operations import Code, Operation, walk


def little_slices(code: Code, free: Collection[int]) -> frozenset[Operation]:
    """Returns the slices of arrays of which all slices together take at most half.

    Args:
        code: the program's.
        free: values that any device can make in any spec; nothing of them need be sent.
    """
    slices = [
        operation
        for operation in walk(code.block)
        if operation.name == "slice" and isinstance(operation.inputs[0], int) and operation.inputs[0] not in free
    ]
    taken: Counter[int] = Counter()
    for operation in slices:
        taken[operation.reads[0]] += math.prod(code.shapes[operation.outputs[0]])
    return frozenset(o for o in slices if 2 * taken[o.reads[0]] <= math.prod(code.shapes[o.reads[0]]))
