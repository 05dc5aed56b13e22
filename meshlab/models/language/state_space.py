"""Mamba: no attention; a state that each position changes and reads, computed for all positions at once.

    config = Config.mamba_130m()                       # 129,135,360 parameters
    loss(params, tokens, targets)                      # both [batch, seq]

Each channel of `inner` has a state of `state` numbers: h = decay * h + drive at every position, where decay and drive
depend on the token. Since (decay, drive) pairs combine associatively, the states of all positions are found in
log2(seq) rounds (`recurrence`), not in seq steps.

Before that, each position mixes in the `taps - 1` positions before it: a short convolution, written as shifts along
`seq`, so that with `seq` on an axis of the mesh neighbours exchange what crosses an edge. The rounds of the recurrence
pair positions ever further apart; there a split sequence is gathered.

What is split where: `inner` runs through the whole layer and is what tensor parallelism splits, with one all-reduce for
the small projection to `rank` and `state` and one at the end.

Sizes and formula: Gu and Dao 2023, "Mamba: Linear-Time Sequence Modeling with Selective State Spaces", section 3 and
the published checkpoints (`state-spaces/mamba-130m` and its siblings).
"""

from __future__ import annotations

import dataclasses

import jax
import numpy as np

import meshlab as ml

from ..parts.layers import looked_up, narrow, repeated, rms_norm, to_logits, wide
from ..parts.sizes import Sizes
from ..parts.tasks import next_token_loss, token_inputs
from ..parts.weights import Params, draw, ones, unstack, zeros

EPSILON = 1e-5
# What softplus makes 0.01 of: how far a state moves towards a new value at first.
_SLOW = -4.6
_TABLE = {
    "into": ("layers embed inner", ("embed",)),
    "gate": ("layers embed inner", ("embed",)),
    "taps": ("layers taps inner", ("taps",)),
    "pace_down": ("layers inner rank", ("inner",)),
    "pace_up": ("layers rank inner", ("rank",)),
    "write": ("layers inner state", ("inner",)),
    "read": ("layers inner state", ("inner",)),
    "output": ("layers inner embed", ("inner",)),
}


@dataclasses.dataclass(frozen=True)
class Config(Sizes):
    """Sizes of Mamba.

    Attributes:
        inner: channels, each with a state.
        state: numbers of a state.
        rank: of the projection that says how fast a state changes.
        taps: positions that the short convolution sees, the last of them its own.
        unrolled: whether the layers are a Python loop over a list of weights, not a scan.
    """

    batch: int = 8
    seq: int = 16
    vocab: int = 64
    embed: int = 16
    inner: int = 32
    state: int = 4
    rank: int = 2
    taps: int = 4
    layers: int = 2
    unrolled: bool = False

    @classmethod
    def mamba_130m(cls, batch: int = 8, seq: int = 2048) -> Config:
        """Mamba 130M: 129,135,360 parameters."""
        return cls(batch, seq, 50_280, 768, inner=1536, state=16, rank=48, layers=24)

    @classmethod
    def mamba_2_8b(cls, batch: int = 8, seq: int = 2048) -> Config:
        """Mamba 2.8B: 2,768,345,600 parameters."""
        return cls(batch, seq, 50_280, 2560, inner=5120, state=16, rank=160, layers=64)


def init(key: jax.Array, config: Config) -> Params:
    """Draws the parameters: `embedding`, `norm` and `layers`; states decay at the rates 1 to `state`."""
    table_key, layers_key = jax.random.split(key)
    rates = np.broadcast_to(np.log(np.arange(1.0, config.state + 1.0)), (config.layers, config.inner, config.state))
    layers = draw(layers_key, config, _TABLE) | {
        "log_rate": ml.tensor(rates.astype(np.float32), *config.dims("layers inner state")),
        "taps_bias": zeros(config.dims("layers inner")),
        "pace_bias": zeros(config.dims("layers inner")) + _SLOW,
        "skip": ones(config.dims("layers inner")),
        "norm": ones(config.dims("layers embed")),
    }
    return {
        **draw(table_key, config, {"embedding": ("vocab embed", ())}),
        "layers": unstack(layers) if config.unrolled else layers,
        "norm": ones(config.dims("embed")),
    }


inputs = token_inputs()


def predict(params: Params, tokens: ml.Tensor) -> ml.Tensor:
    """Returns the logits of the next token at each position.

    Args:
        params: as `init` makes them.
        tokens: [batch, seq].

    Returns:
        [batch, seq, vocab].
    """

    def layer(x, weights):
        return ml.tag(x + mixer(rms_norm(x, weights["norm"], EPSILON), weights), "residual")

    x = ml.tag(looked_up(params["embedding"], tokens), "residual")
    x = repeated(layer, x, params["layers"])
    return to_logits(rms_norm(x, params["norm"], EPSILON), params["embedding"])


loss = next_token_loss(predict)


def mixer(x: ml.Tensor, weights: Params) -> ml.Tensor:
    """Lets each position read from itself and those before it, through the states.

    Args:
        x: [batch, seq, embed], normalised.
        weights: of the layer.

    Returns:
        [batch, seq, embed].
    """
    channels = ml.silu(convolve(ml.dot(x, weights["into"], "embed"), weights["taps"]) + weights["taps_bias"])
    pace = ml.dot(ml.dot(channels, weights["pace_down"], "inner"), weights["pace_up"], "rank") + weights["pace_bias"]
    write, read = (wide(ml.dot(channels, weights[name], "inner")) for name in ("write", "read"))
    step = ml.softplus(wide(pace))
    decay = ml.exp(step * -ml.exp(wide(weights["log_rate"])))
    states = recurrence(decay, step * wide(channels) * write, "seq")
    y = narrow(ml.dot(states, read, "state"), x.dtype) + channels * weights["skip"]
    return ml.dot(y * ml.silu(ml.dot(x, weights["gate"], "embed")), weights["output"], "inner")


def recurrence(decay: ml.Tensor, drive: ml.Tensor, dim: str) -> ml.Tensor:
    """Returns h with h[t] = decay[t] * h[t - 1] + drive[t] along a dim, and h[-1] = 0.

    Args:
        decay: [..., dim, ...].
        drive: the dims of `decay`, in the same order.
        dim: the time.

    Returns:
        The dims of `decay`.
    """

    def combine(before, after):
        return before[0] * after[0], after[0] * before[1] + after[1]

    axis = [other.name for other in decay.dims].index(dim)
    _, states = jax.lax.associative_scan(combine, (decay.array, drive.array), axis=axis)
    # What is inside knew no names; from here on its axes have them again.
    return ml.tensor(states, *decay.dims)


def convolve(x: ml.Tensor, taps: ml.Tensor) -> ml.Tensor:
    """Returns for each position the weighted sum of those before it and, by the last tap, of itself.

    Args:
        x: [batch, seq, inner].
        taps: [taps, inner].

    Returns:
        The dims of `x`.
    """
    *earlier, own = ml.unstack(taps, "taps")
    y = x * own
    for back, tap in enumerate(reversed(earlier), start=1):
        y = y + ml.shift(x, "seq", back) * tap
    return y
