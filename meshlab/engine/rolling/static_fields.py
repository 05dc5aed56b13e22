"""In which static field two layers differ that have the same arrays: then JAX takes them for trees of different types.

    Block(w0, act=lambda x: x)      Block(w1, act=lambda x: x)      `act` of `Block`: two lambdas are never equal

An Equinox or Flax module, or any dataclass in a tree, has fields that are no children of its node. They must be equal
in all layers of a scan, which has one function for all of them.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import jax

from ..errors import shown


def static_difference(one: Any, other: Any) -> str:
    """Returns the first static field in which two trees differ, with both values; "" where none does."""
    if type(one) is not type(other):
        return ""
    children, others = _children(one), _children(other)
    if dataclasses.is_dataclass(one):
        for field in dataclasses.fields(one):
            here, there = (getattr(node, field.name, None) for node in (one, other))
            is_static = not any(here is child for child in children)
            if is_static and _differ(here, there):
                return f"`{field.name}` of `{type(one).__name__}`: {shown(here)} and {shown(there)}"
    pairs = zip(children, others, strict=False)
    return next(filter(None, (static_difference(*pair) for pair in pairs if pair[0] is not one)), "")


def _children(node: Any) -> list[Any]:
    return jax.tree.leaves(node, is_leaf=lambda each: each is not node)


def _differ(one: Any, other: Any) -> bool:
    """Says whether two values are unequal as JAX compares them; such as are trees themselves are compared as trees."""
    if jax.tree.structure(one) != jax.tree.structure(other):
        return True
    try:
        return bool(one != other)
    except ValueError:  # arrays, of which JAX would not say so either
        return False
