"""Steps of training whose layers are rematerialised, as people write them: in plain JAX, Flax (Linen, NNX) and Equinox.

Nobody names the positions of the keys: the name is made up, in the first run and in the second.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import equinox as eqx
import flax.linen as nn
import jax
import jax.numpy as jnp
from flax import nnx

import meshlab as ml

BATCH, SEQ, EMBED, HEADS, HEAD, LAYERS = 4, 64, 32, 4, 8, 2
WEIGHTS = {"?": "embed heads head", "o": "heads head embed"}
STACKED = {"?": "layers embed heads head", "o": "layers heads head embed"}
LINEN = {"*/query/kernel": "embed heads head", "*/out/kernel": "heads head embed", "*/up/kernel": "embed ffn"}
X = ml.named(jax.ShapeDtypeStruct((BATCH, SEQ, EMBED), jnp.float32), "batch seq embed")
Layer = Callable[[Any, Any], Any]


def attention(w: Any, x: Any, causal: bool = True) -> Any:
    """Self-attention in plain JAX; x: (batch, seq, embed)."""
    q, k, v = (jnp.einsum("bse,ehd->bshd", x, w[name]) for name in "qkv")
    scores = jnp.einsum("bshd,bthd->bhst", q, k) * HEAD**-0.5
    if causal:
        scores = jnp.where(jnp.tril(jnp.ones((SEQ, SEQ), bool)), scores, -jnp.inf)
    mixed = jnp.einsum("bhst,bthd->bshd", jax.nn.softmax(scores), v)
    return x + jnp.einsum("bshd,hde->bse", jnp.tanh(mixed), w["o"])


def grouped(w: Any, x: Any) -> Any:
    """The same, two heads of queries for each of keys, cut out of the heads of the weights."""
    q = jnp.einsum("bse,ehd->bshd", x, w["q"]).reshape(BATCH, SEQ, 2, 2, HEAD)
    k, v = (jnp.einsum("bse,ehd->bshd", x, w[name][:, :2]) for name in "kv")
    shares = jax.nn.softmax(jnp.einsum("bskgd,btkd->bkgst", q, k) * HEAD**-0.5)
    mixed = jnp.einsum("bkgst,btkd->bskgd", shares, v).reshape(BATCH, SEQ, HEADS, HEAD)
    return x + jnp.einsum("bshd,hde->bse", mixed, w["o"])


def weights(*, layers: int = 0) -> Any:
    """The weights of a layer, or of a stack of layers."""
    stack = (layers,) if layers else ()
    shape, back = (EMBED, HEADS, HEAD), (HEADS, HEAD, EMBED)
    arrays = {name: jax.ShapeDtypeStruct((*stack, *(back if name == "o" else shape)), jnp.float32) for name in "qkvo"}
    return ml.named(arrays, STACKED if layers else WEIGHTS)


def written_out(layer: Layer) -> ml.Program:
    """Layers one after the other."""
    return trained(lambda w, x: _each(layer, w, x), [weights() for _ in range(LAYERS)])


def scanned(layer: Layer) -> ml.Program:
    """Layers in a scan."""
    stack = weights(layers=LAYERS)
    return trained(lambda w, x: jax.lax.scan(lambda x, w: (layer(w, x), None), x, w)[0], stack)


def accumulated(layer: Layer) -> ml.Program:
    """Layers in a scan, and gradients added up over micro-batches."""

    def step(w, x):
        def one(total, x):
            grads = jax.grad(loss(lambda w, x: jax.lax.scan(lambda x, w: (layer(w, x), None), x, w)[0]))(w, x)
            return jax.tree.map(jnp.add, total, grads), None

        parts = x.reshape(BATCH // 2, 2, SEQ, EMBED).swapaxes(0, 1)
        total, _ = jax.lax.scan(one, jax.tree.map(jnp.zeros_like, w), parts)
        return descent(w, total)

    return ml.trace(step, weights(layers=LAYERS), X)


def loss(model: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    """The loss of a model that shall give back what it is given."""
    return lambda w, x: jnp.square(model(w, x) - x).mean()


def descent(w: Any, grads: Any) -> Any:
    """One step of gradient descent."""
    return jax.tree.map(lambda w, d: w - 0.1 * d, w, grads)


def trained(model: Callable[[Any, Any], Any], w: Any) -> ml.Program:
    """A step of training of a model."""

    def step(w, x):
        value, grads = jax.value_and_grad(loss(model))(w, x)
        return descent(w, grads), value

    return ml.trace(step, w, X)


def _each(layer: Layer, w: Any, x: Any) -> Any:
    for one in w:
        x = layer(one, x)
    return x


class Block(nn.Module):
    """A layer in Linen."""

    @nn.compact
    def __call__(self, x: Any) -> Any:
        """x: (batch, seq, embed)."""
        x = x + nn.MultiHeadDotProductAttention(num_heads=HEADS, name="attention")(nn.LayerNorm()(x))
        return x + nn.Dense(EMBED, name="down")(nn.gelu(nn.Dense(2 * EMBED, name="up")(nn.LayerNorm()(x))))


class Stack(nn.Module):
    """Layers in Linen, one after the other or in a scan."""

    scan: bool = False

    @nn.compact
    def __call__(self, x: Any) -> Any:
        """x: (batch, seq, embed)."""
        layer = nn.remat(Block)
        if self.scan:
            turn = nn.scan(_Turn, variable_axes={"params": 0}, split_rngs={"params": True}, length=LAYERS)
            return turn()(x, None)[0]
        for _ in range(LAYERS):
            x = layer()(x)
        return x


class _Turn(nn.Module):
    """One iteration over layers in Linen."""

    @nn.compact
    def __call__(self, x: Any, _: Any) -> Any:
        return nn.remat(Block, prevent_cse=False)()(x), None


def linen(*, scan: bool) -> ml.Program:
    """Layers under `nn.remat`; those in a scan under `nn.scan`, too."""
    model = Stack(scan)
    w = jax.eval_shape(model.init, jax.random.key(0), jnp.zeros((BATCH, SEQ, EMBED)))
    lead = "layers " if scan else ""
    return trained(model.apply, ml.named(w, {place: lead + names for place, names in LINEN.items()}))


class Decoder(nnx.Module):
    """Layers in NNX."""

    def __init__(self, rngs: nnx.Rngs):
        self.layers = nnx.List(
            nnx.MultiHeadAttention(HEADS, EMBED, decode=False, deterministic=True, rngs=rngs) for _ in range(LAYERS)
        )

    def __call__(self, x: Any) -> Any:
        """x: (batch, seq, embed)."""
        causal = nnx.make_causal_mask(jnp.ones((BATCH, SEQ)))
        for layer in self.layers:
            x = x + nnx.remat(lambda layer, x, mask: layer(x, mask=mask))(layer, x, causal)
        return x


def in_nnx() -> ml.Program:
    """Layers under `nnx.remat`."""
    graph, state = nnx.split(nnx.eval_shape(lambda: Decoder(nnx.Rngs(0))))
    names = {"*/query/kernel/value": "embed heads head", "*/out/kernel/value": "heads head embed"}
    return trained(lambda w, x: nnx.merge(graph, w)(x), ml.named(state, names))


class Residual(eqx.Module):
    """A layer in Equinox, of one sequence."""

    attention: eqx.nn.MultiheadAttention

    def __call__(self, x: Any) -> Any:
        """x: (seq, embed)."""
        return x + self.attention(x, x, x, mask=jnp.tril(jnp.ones((SEQ, SEQ), bool)))


def equinox(*, scan: bool) -> ml.Program:
    """Layers under `eqx.filter_checkpoint`, mapped over the batch; in a scan, of stacked weights."""

    def make(key):
        return Residual(eqx.nn.MultiheadAttention(HEADS, EMBED, key=key))

    keys = jax.random.split(jax.random.key(0), LAYERS)
    model = eqx.filter_eval_shape(eqx.filter_vmap(make) if scan else lambda keys: [make(key) for key in keys], keys)
    arrays, static = eqx.partition(model, lambda leaf: isinstance(leaf, jax.ShapeDtypeStruct))
    names = {"*query_proj/weight": "(heads=4 head) embed", "*output_proj/weight": "embed (heads=4 head)"}

    def forward(arrays, x):
        if scan:
            return jax.lax.scan(lambda x, w: (_mapped(eqx.combine(w, static), x), None), x, arrays)[0]
        for layer in eqx.combine(arrays, static):
            x = _mapped(layer, x)
        return x

    return trained(forward, ml.named(arrays, {p: f"layers {n}" if scan else n for p, n in names.items()}))


def _mapped(layer: Residual, x: Any) -> Any:
    return eqx.filter_checkpoint(lambda layer, x: jax.vmap(layer)(x))(layer, x)


SAVED = jax.checkpoint_policies.dots_with_no_batch_dims_saveable
PROGRAMS: dict[str, Callable[[], ml.Program]] = {
    "one layer": lambda: trained(jax.checkpoint(attention), weights()),
    "one without a mask": lambda: trained(jax.checkpoint(lambda w, x: attention(w, x, causal=False)), weights()),
    "grouped": lambda: trained(jax.checkpoint(grouped), weights()),
    "written out": lambda: written_out(jax.checkpoint(attention)),
    "with a policy": lambda: written_out(jax.checkpoint(attention, policy=SAVED)),
    "both at once": lambda: trained(
        jax.checkpoint(lambda w, x: _each(jax.checkpoint(attention), w, x)), [weights()] * 2
    ),
    "scanned": lambda: scanned(jax.checkpoint(attention)),
    "scanned without a barrier": lambda: scanned(jax.checkpoint(attention, prevent_cse=False)),
    "scanned and saved": lambda: scanned(jax.checkpoint(attention, policy=SAVED)),
    "accumulated": lambda: accumulated(jax.checkpoint(attention)),
    "Linen": lambda: linen(scan=False),
    "Linen, scanned": lambda: linen(scan=True),
    "NNX": in_nnx,
    "Equinox": lambda: equinox(scan=False),
    "Equinox, scanned": lambda: equinox(scan=True),
}
# Those of several layers one after the other; the bytes of the scores of one.
WRITTEN_OUT = ("written out", "with a policy", "both at once", "Linen", "Equinox")
SCORES = 4 * BATCH * HEADS * SEQ * SEQ
