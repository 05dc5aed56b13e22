"""Which kind of node each primitive is, and in which order products and convolutions read axes.

A primitive that is not named here is `opaque`: it reads memory and writes memory.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..engine.rules import ELEMENTWISE
from .fusion import BITCASTS, REDUCING

KINDS: dict[str, str] = (
    dict.fromkeys(ELEMENTWISE, "map")
    | dict.fromkeys("slice pad rev dynamic_slice transpose".split(), "permute")
    | dict.fromkeys(BITCASTS, "view")
    | dict.fromkeys(REDUCING, "fold")
    | {"broadcast_in_dim": "spread", "iota": "fill", "concatenate": "join", "gather": "lookup"}
    | {"dynamic_update_slice": "update"}
    | dict.fromkeys("scatter scatter-add scatter_add scatter_mul scatter_min scatter_max".split(), "overwrite")
)


def ascends(order: Sequence[int], shape: Sequence[int]) -> bool:
    """Whether axes of more than one element keep their order."""
    axes = [a for a in order if shape[a] != 1]
    return axes == sorted(axes)


def orders(numbers: Any) -> tuple[list[int], list[int], list[int]]:
    """The orders of axes that a convolution reads its operands in, and makes its result in."""
    left, right, out = numbers.lhs_spec, numbers.rhs_spec, numbers.out_spec
    return [left[0], *left[2:], left[1]], [*right[2:], right[1], right[0]], [out[0], *out[2:], out[1]]
