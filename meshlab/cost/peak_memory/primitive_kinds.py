"""The kind of node of each primitive, and the order in which matmuls and convolutions read axes.

A primitive without traits is `opaque`: it reads memory and writes memory.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ...engine.rules import TRAITS

# Kinds of primitives that are nodes of another kind (`graph`).
_OTHERS = {"mark": "bitcast", "matmul": "opaque"}
KINDS: dict[str, str] = {name: _OTHERS.get(traits.kind, traits.kind) for name, traits in TRAITS.items()}


def ascends(order: Sequence[int], shape: Sequence[int]) -> bool:
    """Returns whether axes of more than one element keep their order."""
    axes = [a for a in order if shape[a] != 1]
    return axes == sorted(axes)


def orders(numbers: Any) -> tuple[list[int], list[int], list[int]]:
    """Returns the orders of axes in which a convolution reads its operands and writes its result."""
    left, right, out = numbers.lhs_spec, numbers.rhs_spec, numbers.out_spec
    return [left[0], *left[2:], left[1]], [*right[2:], right[1], right[0]], [out[0], *out[2:], out[1]]
