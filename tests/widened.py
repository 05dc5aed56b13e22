"""Shapes and data in float64, in which only the order of additions differs."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np


def widened(tree: Any) -> Any:
    """Every float32 of a tree with 64 bits; under `jax.enable_x64`."""
    return jax.tree.map(_leaf, tree)


def _leaf(leaf: Any) -> Any:
    if getattr(leaf, "dtype", None) != jnp.float32:
        return leaf
    return jax.ShapeDtypeStruct(leaf.shape, jnp.float64) if isinstance(leaf, jax.ShapeDtypeStruct) else np.float64(leaf)
