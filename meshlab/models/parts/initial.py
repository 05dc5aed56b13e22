"""Initial parameters and their shapes.

Random numbers depend on the key and the shape alone, never on a layout: they are drawn for whole tensors.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import jax

import meshlab as ml


def normal(key: jax.Array, dims: tuple[ml.Dim, ...], summed: tuple[str, ...]) -> ml.Tensor:
    """Draws a weight so that what it makes of inputs of size 1 has size 1.

    Args:
        key: a PRNG key.
        dims: of the weight.
        summed: which of them a contraction with the weight sums over; without any, they are embeddings, scaled down.
    """
    inputs = math.prod(dim.size for dim in dims if dim.name in summed)
    scale = inputs**-0.5 if summed else 0.02
    return ml.tensor(scale * jax.random.normal(key, tuple(dim.size for dim in dims)), *dims)


def normals(key: jax.Array, weights: Mapping[str, tuple[tuple[ml.Dim, ...], tuple[str, ...]]]) -> dict[str, ml.Tensor]:
    """Draws several weights, each with a key of its own.

    Args:
        key: a PRNG key.
        weights: the dims of each, and which of them are summed over.
    """
    keys = jax.random.split(key, len(weights))
    return {name: normal(each, *weight) for each, (name, weight) in zip(keys, weights.items(), strict=True)}


def shapes(make: Callable[..., Any], *args: Any) -> Any:
    """Returns what `make(key, *args)` would, without data: parameters of any size cost nothing.

    Example:
        params = shapes(transformer.init, transformer.Config(layers=126, embed=16384))
    """
    return jax.eval_shape(lambda: make(jax.random.key(0), *args))
