"""Lists the leaves of a tree of tensors and arrays, each with its place.

    placed_leaves("params", {"w1": Tensor, "w2": Tensor})    →    [("params/w1", Tensor), ("params/w2", Tensor)]

A tensor is one leaf: the array inside has no place of its own.
"""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Callable
from typing import Any

import jax

from ..argument_checks import disordered
from ..errors import TraceError
from .tensor import Tensor

# Types that JAX walks, and that can be made to hold themselves.
_NODES = frozenset((list, tuple, dict))


@dataclasses.dataclass(frozen=True)
class Unplaced:
    """The key of a node's only child, which has the place of the node itself."""


def is_tensor(node: Any) -> bool:
    """Says whether a node of a tree is a tensor, and so a leaf."""
    return isinstance(node, Tensor)


def is_endless(tree: Any) -> bool:
    """Says whether lists, tuples and dicts hold themselves, or are too deep: JAX would break Python's stack."""
    path: list[tuple[int, list[Any]]] = []
    within: set[int] = set()
    waiting = [tree] if type(tree) in _NODES else []
    while True:
        if waiting:
            node = waiting.pop()
            if id(node) in within or len(path) > sys.getrecursionlimit():
                return True
            inner = node.values() if type(node) is dict else node
            below = [one for one in inner if type(one) in _NODES]
            if below:
                within.add(id(node))
                path.append((id(node), waiting))
                waiting = below
        elif path:
            number, waiting = path.pop()
            within.remove(number)
        else:
            return False


def placed_leaves(name: str, tree: Any, is_leaf: Callable[[Any], bool] = is_tensor) -> list[tuple[str, Any]]:
    """Returns the leaves of a tree, each with its place under a name; refuses a tree without order or end.

    Args:
        name: of the tree; "" for none.
        tree: the tree.
        is_leaf: says of a node whether it is a leaf, whatever it holds.
    """
    called = f"`{name}`" if name else "The tree"
    endless = (
        f"{called} has no end: it contains itself, or is nested too deeply. Give a tree without cycles, and stack"
        " repeated parts."
    )
    if is_endless(tree):
        raise TraceError(endless)
    try:
        leaves = jax.tree_util.tree_leaves_with_path(tree, is_leaf=is_leaf)
    except ValueError as error:  # keys that do not compare
        raise TraceError(disordered(called, error)) from error
    except RecursionError:  # through nodes of types of their own
        raise TraceError(endless) from None
    paths = (tuple(key for key in path if not isinstance(key, Unplaced)) for path, _ in leaves)
    inner = (jax.tree_util.keystr(path, simple=True, separator="/") for path in paths)
    return [(f"{name}/{path}" if path else name, leaf) for path, (_, leaf) in zip(inner, leaves, strict=True)]
