"""Trees of tensors and arrays, with a place for each leaf.

    placed_leaves("params", {"w1": Tensor, "w2": Tensor})    →    [("params/w1", Tensor), ("params/w2", Tensor)]

A tensor is one leaf: the array inside has no place of its own.
"""

from __future__ import annotations

from typing import Any

import jax

from .errors import TraceError
from .tensor import Tensor


def is_tensor(node: Any) -> bool:
    """Says whether a node of a tree is a tensor, and so a leaf."""
    return isinstance(node, Tensor)


def placed_leaves(name: str, tree: Any) -> list[tuple[str, Any]]:
    """Returns the leaves of a tree, each with its place under a name.

    Raises:
        TraceError: JAX finds no order in it.
    """
    found = []
    try:
        leaves = jax.tree_util.tree_leaves_with_path(tree, is_leaf=is_tensor)
    except ValueError as error:  # keys that do not compare
        raise TraceError(
            f"{f'`{name}`' if name else 'The tree'} has a dict whose keys have no order ({error}): use texts alone, or"
            " integers alone."
        ) from error
    for path, leaf in leaves:
        inner = jax.tree_util.keystr(path, simple=True, separator="/")
        found.append((f"{name}/{inner}" if inner else name, leaf))
    return found
