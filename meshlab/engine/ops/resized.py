"""Names a result whose axes are those of the operand, one by one, some of another size.

    height=16 → height_2=8      another size: another dim, of which nothing is known
    height=16 → rows=16         the same positions under another name: a rename

Cutting, padding, pooling and convolving all make such results. An axis that keeps its size is the same axis to every
rule, so that a new name for it has to be said as a rename; two names on one axis would be a mistake of the user's.
"""

from __future__ import annotations

from typing import Any

from ..tensors import dim_lists
from ..tensors import tensor as named
from ..tensors.dim_lists import Dims
from ..tensors.marks import mark_rename


def resized(what: str, array: Any, before: Dims, after: Dims) -> Any:
    """Returns the tensor of a result; refuses a name that would appear twice or have two sizes.

    Args:
        what: the operation.
        array: the result, of the dims `after`.
        before: the dims of the operand, axis by axis.
        after: what they have become.
    """
    for old, new in zip(before, after, strict=True):
        dim_lists.agree(what, [old], [new])
    dim_lists.distinct(f"The result of {what}", after)
    same = tuple(old if old.size == new.size else new for old, new in zip(before, after, strict=True))
    if same != after:
        array = mark_rename(array, dim_lists.names(same), dim_lists.names(after))
    return named.result(array, after)
