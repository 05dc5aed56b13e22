"""A mixture of experts: each token is sent to a few of many feed-forward networks.

    config = Config.mixtral_8x7b()                     # 46,702,792,704 parameters
    loss(params, tokens, targets)                      # two experts a token, each with room for so many: GShard
    switch_loss(params, tokens, targets)               # one expert a token: Switch Transformer
    dropless_loss(params, tokens, targets)             # two experts a token, and room for all: Mixtral
    sorted_loss(params, tokens, targets, factor=2)     # the same, rows sorted by expert: MegaBlocks

They are one model with another routing. What to know of its dims:

- `experts` are the networks. As long as tokens are where their sequence is, the same experts are called `routes`: the
  ways that a token may go. So `batch` and `experts` never meet in one contraction, and both may be on one axis.
- Tokens are sent by a contraction with a tensor of ones and zeros, [batch, seq, routes, capacity], and then renamed:
  `batch` to `groups` and `routes` to `experts`, in one reshard. With `batch` and `experts` on the same axis of the
  mesh that is an all-to-all; on the way back it is another. With `batch` and `groups` on one axis tokens stay where
  they are, and every device has all experts.
- Each sequence is a group of its own: an expert has room for `capacity` tokens of each, and what does not fit is
  dropped, the later tokens first. No device and no layout has a say in it: results are the same on every mesh.

The loss contains a hundredth of the load-balancing loss, which is least when all experts are asked equally.

`sorted_loss` sends tokens by `ml.dispatch`, which needs no `groups` and no capacity, but a factor.

Formula: Lepikhin et al. 2020, "GShard" (algorithm 1, without its random choice of second experts); Fedus et al. 2021,
"Switch Transformers"; Gale et al. 2022, "MegaBlocks"; Jiang et al. 2024, "Mixtral of Experts", whose sizes and
attention these are.
"""

from __future__ import annotations

import dataclasses
import functools
import math
import operator
from collections.abc import Callable

import jax

import meshlab as ml

from ..parts.layers import attention, looked_up, narrow, repeated, rms_norm, rotary, size, to_logits, token_loss, wide
from ..parts.sizes import Sizes
from ..parts.tasks import token_inputs
from ..parts.weights import Params, attention_table, gated_table, normed, one_of

THETA = 1_000_000.0
# How many times the even share of tokens an expert has room for.
ROOM = 1.25
BALANCE = 0.01


@dataclasses.dataclass(frozen=True)
class Config(Sizes):
    """Sizes of a mixture of experts.

    Attributes:
        batch: sequences, each of which is a group.
        heads: of keys and values.
        group: query heads for each of them.
        experts: feed-forward networks in each layer.
        unrolled: whether the layers are a Python loop over a list of weights, not a scan.
    """

    batch: int = 8
    seq: int = 16
    vocab: int = 64
    embed: int = 16
    heads: int = 4
    group: int = 2
    head: int = 4
    ffn: int = 32
    experts: int = 4
    layers: int = 2
    unrolled: bool = False

    @property
    def routes(self) -> int:
        """As many as there are experts."""
        return self.experts

    @classmethod
    def mixtral_8x7b(cls, batch: int = 8, seq: int = 4096) -> Config:
        """Mixtral 8x7B: 46,702,792,704 parameters."""
        return cls(batch, seq, 32_000, 4096, heads=8, group=4, head=128, ffn=14_336, experts=8, layers=32)


def init(key: jax.Array, config: Config) -> Params:
    """Draws the parameters: `embedding`, `head`, `norm`, and the `layers` with `router` and experts."""
    tables = {"embedding": ("vocab embed", ()), "head": ("embed vocab", ("embed",))}
    router = {"router": ("layers embed routes", ("embed",))}
    return normed(key, config, tables, attention_table() | router | gated_table("layers experts"))


inputs = token_inputs()


def loss(params: Params, tokens: ml.Tensor, targets: ml.Tensor, saved: tuple[str, ...] = ()) -> jax.Array:
    """Returns the mean cross entropy of the next tokens and the balance loss; two experts a token, with capacity.

    Args:
        params: as `init` makes them.
        tokens: [batch, seq].
        targets: [batch, seq], for each position the token that follows.
        saved: as for `layers.repeated`.
    """
    return _loss(functools.partial(sent, choices=2), params, tokens, targets, saved)


def switch_loss(params: Params, tokens: ml.Tensor, targets: ml.Tensor, saved: tuple[str, ...] = ()) -> jax.Array:
    """Returns the same for one expert a token, with capacity; the arguments are those of `loss`."""
    return _loss(functools.partial(sent, choices=1), params, tokens, targets, saved)


def dropless_loss(params: Params, tokens: ml.Tensor, targets: ml.Tensor, saved: tuple[str, ...] = ()) -> jax.Array:
    """Returns the same for two experts a token, of which none is dropped; the arguments are those of `loss`."""
    return _loss(functools.partial(everywhere, choices=2), params, tokens, targets, saved)


def sorted_loss(
    params: Params, tokens: ml.Tensor, targets: ml.Tensor, saved: tuple[str, ...] = (), factor: float = 2.0
) -> jax.Array:
    """Returns the same, for tokens that are sorted by expert; with places for `factor` of all choices."""
    return _loss(functools.partial(by_expert, choices=2, factor=factor), params, tokens, targets, saved)


Experts = Callable[[ml.Tensor, ml.Tensor, Params], ml.Tensor]


def _loss(experts: Experts, params: Params, tokens: ml.Tensor, targets: ml.Tensor, saved: tuple[str, ...]) -> jax.Array:
    logits, balance = predict(params, tokens, experts, saved)
    return token_loss(logits, targets) + BALANCE * balance


def predict(
    params: Params, tokens: ml.Tensor, experts: Experts, saved: tuple[str, ...] = ()
) -> tuple[ml.Tensor, jax.Array]:
    """Returns the logits of the next token at each position, and the balance loss, a mean over the layers.

    Args:
        params: as `init` makes them.
        tokens: [batch, seq].
        experts: `sent` or `everywhere`, with a number of choices.
        saved: as for `layers.repeated`.

    Returns:
        [batch, seq, vocab], and a number.
    """
    x = ml.tag(looked_up(params["embedding"], tokens), "residual")
    rotation = rotary(x, one_of(params["layers"])["query"], THETA)

    def layer(carry, weights):
        x, total = carry
        x = ml.tag(x + attention(rms_norm(x, weights["attention_norm"], 1e-5), rotation, weights), "residual")
        y = rms_norm(x, weights["ffn_norm"], 1e-5)
        with jax.named_scope("router"):
            shares = ml.softmax(wide(ml.dot(y, weights["router"], "embed")), "routes")
        return (ml.tag(x + experts(y, shares, weights), "residual"), total + imbalance(shares) / count)

    count = _count(params["layers"])
    x, balance = repeated(layer, (x, 0.0), params["layers"], saved=saved)
    return to_logits(rms_norm(x, params["norm"], 1e-5), params["head"]), balance


def imbalance(shares: ml.Tensor) -> jax.Array:
    """Returns how unevenly tokens choose: 1 where each expert is the first choice of as many.

    Args:
        shares: [batch, seq, routes], sums to 1 over `routes`.
    """
    chosen, _ = choose(shares, 1)[0]
    return (chosen.mean("seq") * shares.mean("seq")).mean() * size(shares, "routes") ** 2


def choose(shares: ml.Tensor, choices: int) -> list[tuple[ml.Tensor, ml.Tensor]]:
    """Returns for each choice where each token goes, and with which weight; the weights of several sum to 1.

    Args:
        shares: [batch, seq, routes].
        choices: how many different experts a token goes to.

    Returns:
        For each choice a 1 at its route, 0 at others: [batch, seq, routes], and its weight: [batch, seq].
    """
    Routes = next(dim for dim in shares.dims if dim.name == "routes")
    left, chosen = shares, []
    for _ in range(choices):
        chosen.append(ml.one_hot(ml.argmax(left, "routes"), Routes))
        left = left * (1.0 - chosen[-1])
    weights = [ml.dot(shares, one, "routes") for one in chosen]
    total = functools.reduce(operator.add, weights) if choices > 1 else 1.0
    return [(one, weight / total) for one, weight in zip(chosen, weights, strict=True)]


def capacity(seq: int, experts: int, choices: int) -> ml.Dim:
    """Returns for how many tokens of one sequence each expert has room."""
    return ml.Dim("capacity", min(seq, math.ceil(ROOM * choices * seq / experts)))


@jax.named_scope("experts")
def sent(x: ml.Tensor, shares: ml.Tensor, weights: Params, choices: int) -> ml.Tensor:
    """Sends tokens to their experts and back; those that find no room come back as zeros.

    Args:
        x: [batch, seq, embed], normalised.
        shares: [batch, seq, routes].
        weights: gate and up: [experts, embed, ffn], down: [experts, ffn, embed].
        choices: how many experts a token goes to.

    Returns:
        [batch, seq, embed].
    """
    room = capacity(size(x, "seq"), size(shares, "routes"), choices)
    combine = places(choose(shares, choices), room)
    dispatch = narrow(combine > 0, x.dtype)
    here = ml.dot(dispatch, x, "seq").rename(batch="groups", routes="experts")
    hidden = ml.silu(ml.dot(here, weights["gate"], "embed")) * ml.dot(here, weights["up"], "embed")
    back = ml.dot(hidden, weights["down"], "ffn").rename(groups="batch", experts="routes")
    return ml.dot(narrow(combine, x.dtype), back, "routes", "capacity")


def places(chosen: list[tuple[ml.Tensor, ml.Tensor]], room: ml.Dim) -> ml.Tensor:
    """Gives each token a place at its experts, first come first served, first choices before second ones.

    Args:
        chosen: as `choose` makes them.
        room: the dim of the places.

    Returns:
        The weight of each token at its places, 0 elsewhere: [batch, seq, routes, capacity].
    """
    taken, combine = 0.0, []
    for one, weight in chosen:
        place = ml.cumsum(one, "seq") - one + taken
        fits = one * (place < room.size).astype(ml.f32)
        taken = fits.sum("seq") + taken
        combine.append(ml.one_hot(place.astype(ml.i32), room) * (fits * weight))
    return functools.reduce(operator.add, combine)


@jax.named_scope("experts")
def everywhere(x: ml.Tensor, shares: ml.Tensor, weights: Params, choices: int) -> ml.Tensor:
    """Lets every expert read every token, and adds up what the chosen ones say.

    It does as many times the work as there are experts to a choice, drops nothing, and sends no token anywhere: with
    `experts` on an axis of the mesh each device computes its own experts, and what they say is all-reduced.

    Args:
        x: [batch, seq, embed], normalised.
        shares: [batch, seq, routes].
        weights: gate and up: [experts, embed, ffn], down: [experts, ffn, embed].
        choices: how many experts a token listens to.

    Returns:
        [batch, seq, embed].
    """
    gates = functools.reduce(operator.add, (one * weight for one, weight in choose(shares, choices)))
    gate = narrow(gates, x.dtype).rename(routes="experts")
    hidden = ml.silu(ml.dot(x, weights["gate"], "embed")) * ml.dot(x, weights["up"], "embed")
    return ml.dot(gate * hidden, weights["down"], "experts", "ffn")


@jax.named_scope("experts")
def by_expert(x: ml.Tensor, shares: ml.Tensor, weights: Params, choices: int, factor: float) -> ml.Tensor:
    """Sends tokens to their experts in rows sorted by expert, as many to each as choose it, and back.

    Args:
        x: [batch, seq, embed], normalised.
        shares: [batch, seq, routes].
        weights: gate and up: [experts, embed, ffn], down: [experts, ffn, embed].
        choices: how many experts a token goes to.
        factor: how many places there are for each choice; nothing is dropped with one of as many devices as share them.

    Returns:
        [batch, seq, embed].
    """
    best, choice = ml.top_k(shares, "routes", ml.Dim("choices", choices))
    experts = next(dim for dim in weights["gate"].dims if dim.name == "experts")
    here, sent_to = ml.dispatch(x, choice, experts, factor=factor)
    gate, up = (ml.ragged_dot(here, weights[name], sent_to, "embed") for name in ("gate", "up"))
    back = ml.ragged_dot(ml.silu(gate) * up, weights["down"], sent_to, "ffn")
    return ml.combine(back, sent_to, best / best.sum("choices") if choices > 1 else best)


def _count(layers: Params | list[Params]) -> int:
    return len(layers) if isinstance(layers, list) else size(layers["router"], "layers")
