"""Which kind of node each primitive is, and in which order products and convolutions read axes.

A primitive without traits is `opaque`: it reads memory and writes memory.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ...engine.rules import TRAITS

# The kinds of nodes (`nodes`), by kinds of primitives.
_OF_KIND = {
    "elementwise": "map",
    "constant": "fill",
    "broadcast": "spread",
    "bitcast": "view",
    "mark": "view",
    "move": "permute",
    "concatenate": "join",
    "reduce": "fold",
    "gather": "lookup",
    "update": "update",
    "scatter": "overwrite",
    "matmul": "opaque",
    "opaque": "opaque",
}
KINDS: dict[str, str] = {name: _OF_KIND[traits.kind] for name, traits in TRAITS.items()}


def ascends(order: Sequence[int], shape: Sequence[int]) -> bool:
    """Whether axes of more than one element keep their order."""
    axes = [a for a in order if shape[a] != 1]
    return axes == sorted(axes)


def orders(numbers: Any) -> tuple[list[int], list[int], list[int]]:
    """The orders of axes that a convolution reads its operands in, and makes its result in."""
    left, right, out = numbers.lhs_spec, numbers.rhs_spec, numbers.out_spec
    return [left[0], *left[2:], left[1]], [*right[2:], right[1], right[0]], [out[0], *out[2:], out[1]]
