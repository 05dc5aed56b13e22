"""Models that Mesh TensorFlow was measured on: meshlab is compared with what it counted for them.

- `two_layer`: y = relu(x w) v, no biases, the sum of squared errors.
- `block`: attention and a feed-forward network with residuals, no norms, the mean square of the result as its loss.
- `autoencoder`: linear layers whose outputs are called `hidden_odd` and `hidden_even` in turn, so that a layer's input
  and output differ. The README commands for it lay out a dim `hidden`, which does not exist: Mesh TensorFlow silently
  splits nothing; meshlab refuses.

For each there is a loss, of the parameters and the inputs, and `train(loss)` makes of it a function that returns the
loss and the gradients, which is what Mesh TensorFlow's counters were read from.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Callable
from typing import Any

import jax

import meshlab as ml

from ..parts.initial import normals
from ..parts.sizes import Sizes
from ..parts.weights import Params, draw


def train(loss: Callable[..., Any]) -> Callable[..., tuple[Any, Params]]:
    """Makes (params, ...) -> (loss, gradients) of a loss."""

    def gradients(params, *inputs):
        return jax.value_and_grad(loss)(params, *inputs)

    return gradients


@dataclasses.dataclass(frozen=True)
class TwoLayer(Sizes):
    batch: int = 8
    io: int = 16
    hidden: int = 32


def init_two_layer(key: jax.Array, config: TwoLayer) -> Params:
    """Draws w: [io, hidden] and v: [hidden, io]."""
    return draw(key, config, {"w": ("io hidden", ("io",)), "v": ("hidden io", ("hidden",))})


def two_layer(params: Params, x: ml.Tensor) -> ml.Tensor:
    """Returns y: [batch, io] of x: [batch, io]."""
    return ml.dot(ml.relu(ml.dot(x, params["w"], "io")), params["v"], "hidden")


def two_layer_loss(params: Params, x: ml.Tensor, targets: ml.Tensor) -> Any:
    """Returns the sum of squared errors; x and targets: [batch, io]."""
    return ml.square(two_layer(params, x) - targets).sum()


@dataclasses.dataclass(frozen=True)
class Block(Sizes):
    """Sizes of the transformer block."""

    batch: int = 8
    length: int = 16
    d_model: int = 32
    d_ff: int = 64
    heads: int = 4
    d_kv: int = 8


def init_block(key: jax.Array, config: Block) -> Params:
    """Draws q, k, v: [d_model, heads, d_kv], o: [heads, d_kv, d_model], wi: [d_model, d_ff], wo: [d_ff, d_model]."""
    inward = ("d_model heads d_kv", ("d_model",))
    table = {
        "q": inward,
        "k": inward,
        "v": inward,
        "o": ("heads d_kv d_model", ("heads", "d_kv")),
        "wi": ("d_model d_ff", ("d_model",)),
        "wo": ("d_ff d_model", ("d_ff",)),
    }
    return draw(key, config, table)


def block(params: Params, x: ml.Tensor) -> ml.Tensor:
    """Returns [batch, length, d_model] of x: [batch, length, d_model]."""
    memory = x.rename(length="memory_length")
    query = ml.dot(x, params["q"], "d_model")
    key = ml.dot(memory, params["k"], "d_model")
    value = ml.dot(memory, params["v"], "d_model")
    weights = ml.softmax(ml.dot(query, key, "d_kv"), "memory_length")
    x = x + ml.dot(ml.dot(weights, value, "memory_length"), params["o"], "heads", "d_kv")
    return x + ml.dot(ml.relu(ml.dot(x, params["wi"], "d_model")), params["wo"], "d_ff")


def block_loss(params: Params, x: ml.Tensor) -> Any:
    """Returns the mean square of what `block` makes of x: [batch, length, d_model]."""
    return ml.square(block(params, x)).mean()


@dataclasses.dataclass(frozen=True)
class Autoencoder(Sizes):
    batch: int = 64
    io: int = 8
    hidden: int = 8
    layers: int = 2

    @property
    def widths(self) -> tuple[ml.Dim, ...]:
        """What goes into and comes out of each layer: io, hidden_odd, hidden_even, ..., io."""
        Io, Odd, Even = ml.dims(io=self.io, hidden_odd=self.hidden, hidden_even=self.hidden)
        return (Io, *(Odd if layer % 2 else Even for layer in range(1, self.layers + 1)), Io)


def init_autoencoder(key: jax.Array, config: Autoencoder) -> Params:
    """Draws w0, w1, ...: one weight from each width to the next."""
    widths = config.widths
    pairs = enumerate(itertools.pairwise(widths))
    return normals(key, {f"w{layer}": ((before, after), (before.name,)) for layer, (before, after) in pairs})


def autoencoder_loss(params: Params, x: ml.Tensor) -> Any:
    """Returns the mean squared difference of x: [batch, io] and what comes out for it."""
    y = x
    for weight in params.values():
        y = ml.dot(y, weight, weight.dims[0])
    return ml.square(y - x).mean()
