"""Weights of layers that are repeated: tables of their dims, drawn for all layers at once, or a list of them.

    layers = draw(key, config, gated_table())          # gate and up: [layers, embed, ffn], down: [layers, ffn, embed]
    unstack(layers)                                    # a list with, for each layer, gate: [embed, ffn], and so on

A table says for each weight its dims by name, and which of them a contraction with it sums over; so a model's
parameters are written down in a line each, and the same table serves every size.
"""

from __future__ import annotations

from typing import Any

import jax
import numpy as np

import meshlab as ml

from .initial import normals
from .sizes import Sizes

Params = dict[str, Any]
Table = dict[str, tuple[str, tuple[str, ...]]]


def draw(key: jax.Array, config: Sizes, table: Table) -> Params:
    """Draws the weights of a table.

    Args:
        key: a PRNG key.
        config: the sizes of the dims.
        table: name -> dims, and which of them are summed over; without any, they are embeddings.
    """
    return dict(normals(key, {name: (config.dims(dims), over) for name, (dims, over) in table.items()}))


def attention_table(dim: str = "layers", heads: str = "heads group head") -> Table:
    """The weights of attention; `dim` counts the layers, and `heads` are the dims of queries: grouped by default."""
    return {
        "query": (f"{dim} embed {heads}", ("embed",)),
        "key": (f"{dim} embed heads head", ("embed",)),
        "value": (f"{dim} embed heads head", ("embed",)),
        "output": (f"{dim} {heads} embed", tuple(heads.split())),
    }


def hidden_table(dim: str = "layers") -> Table:
    """The weights of a feed-forward network of one hidden layer; `dim` counts the layers."""
    return {"up": (f"{dim} embed ffn", ("embed",)), "down": (f"{dim} ffn embed", ("ffn",))}


def gated_table(dim: str = "layers") -> Table:
    """The weights of a gated feed-forward network; `dim` counts the layers, or layers and experts."""
    return {"gate": (f"{dim} embed ffn", ("embed",))} | hidden_table(dim)


def biased(key: jax.Array, config: Sizes) -> Params:
    """Draws the layers of GPT-2 and of ViT: attention, one hidden layer and two layer norms; the biases are zero."""
    table = attention_table(heads="heads head") | hidden_table()
    biases = dict.fromkeys(("query_bias", "key_bias", "value_bias"), "layers heads head")
    biases |= {"up_bias": "layers ffn"} | dict.fromkeys(("output_bias", "down_bias"), "layers embed")
    norms = {name: scale_and_bias(config.dims("layers embed")) for name in ("attention_norm", "ffn_norm")}
    return draw(key, config, table) | {name: zeros(config.dims(dims)) for name, dims in biases.items()} | norms


def normed(key: jax.Array, config: Sizes, tables: Table, layers: Table) -> Params:
    """Draws the parameters of a decoder with RMS norms: its tables, its `norm`, and its `layers` with two norms each.

    Args:
        key: a PRNG key.
        config: the sizes of the dims, and whether the layers are a list.
        tables: the weights before and after the layers.
        layers: those of all layers, but for the norms.
    """
    tables_key, layers_key = jax.random.split(key)
    weights = draw(layers_key, config, layers)
    weights |= {name: ones(config.dims("layers embed")) for name in ("attention_norm", "ffn_norm")}
    return {
        **draw(tables_key, config, tables),
        "layers": unstack(weights) if config.unrolled else weights,
        "norm": ones(config.dims("embed")),
    }


def ones(dims: tuple[ml.Dim, ...]) -> ml.Tensor:
    """Returns scales that change nothing yet."""
    return ml.tensor(np.ones([dim.size for dim in dims], np.float32), *dims)


def zeros(dims: tuple[ml.Dim, ...]) -> ml.Tensor:
    """Returns biases that change nothing yet."""
    return ml.tensor(np.zeros([dim.size for dim in dims], np.float32), *dims)


def scale_and_bias(dims: tuple[ml.Dim, ...]) -> tuple[ml.Tensor, ml.Tensor]:
    """Returns the parameters of a layer norm."""
    return ones(dims), zeros(dims)


def unstack(weights: Any, dim: str = "layers") -> list[Any]:
    """Returns the weights of each layer by itself, for `layers.repeated` to loop over.

    Args:
        weights: a tree of tensors that have `dim`.
        dim: what the layers are counted by.
    """
    leaves, tree = jax.tree.flatten(weights, is_leaf=lambda x: isinstance(x, ml.Tensor))
    layers = zip(*(ml.unstack(leaf, dim) for leaf in leaves), strict=True)
    return [jax.tree.unflatten(tree, layer) for layer in layers]


def one_of(weights: Any) -> Any:
    """Returns the weights of one layer of a list, or the stacked weights of all: what sizes are read off."""
    return weights[0] if isinstance(weights, list) else weights
