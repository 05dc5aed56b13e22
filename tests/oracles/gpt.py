"""Megatron's GPT as Korthikanti et al. count what it keeps: 16 bits, dropout, and what each recomputation policy keeps.

    program = gradients(GPT_22B, saved=EVERYTHING, batch=4)
    plan = program.plan(ml.mesh(t=8), TENSOR)

A layer is layer norm, attention, dropout, and once more with two products and GELU; its norms and biases have no
parameters here, which the paper leaves out as well. What it names is what Megatron's own kernels keep for the backward
pass; whatever else the backward pass reads is computed again, elementwise, as these kernels do.

Source: Korthikanti et al. 2022, Reducing Activation Recomputation in Large Transformer Models, section 4
(https://arxiv.org/abs/2205.05198).
"""

import dataclasses
import functools

import jax
import jax.numpy as jnp
from jax.ad_checkpoint import checkpoint_name

import meshlab as ml

# Of attention alone: scores after softmax, their mask, and what the mask leaves of them.
CORE = ("scores", "scores_mask", "dropped")
ATTENTION = ("first_norm", "query", "key", "value", "heads", "first_mask")
REST = (*ATTENTION, "second_input", "second_norm", "up", "hidden", "second_mask")
EVERYTHING = (*REST, *CORE)
SELECTIVE = REST
FULL = ()

TENSOR = {"heads": "t", "ffn": "t"}
SEQUENCE = TENSOR | {place: {"seq": "t"} for place in ("residual", "norm", "first_mask", "second_mask", "x", "out/1")}


@dataclasses.dataclass(frozen=True)
class Config:
    """Sizes of Megatron's models; the hidden layer is four times as wide."""

    embed: int
    heads: int
    layers: int
    seq: int = 2048

    def dims(self, batch):
        """Batch, Seq, Embed, Heads, Head, Ffn, Layers."""
        return ml.dims(
            batch=batch,
            seq=self.seq,
            embed=self.embed,
            heads=self.heads,
            head=self.embed // self.heads,
            ffn=4 * self.embed,
            layers=self.layers,
        )


GPT_22B = Config(6144, 64, 48)
GPT_175B = Config(12_288, 96, 96)
GPT_530B = Config(20_480, 128, 105)
GPT_1T = Config(25_600, 160, 128)


def weights(config, dtype):
    """The shapes of all weights: 12 · layers · embed² numbers."""
    _, _, Embed, Heads, Head, Ffn, Layers = config.dims(1)
    inward = dtype[Layers, Embed, Heads, Head]
    return {
        "query": inward,
        "key": inward,
        "value": inward,
        "output": dtype[Layers, Heads, Head, Embed],
        "up": dtype[Layers, Embed, Ffn],
        "down": dtype[Layers, Ffn, Embed],
    }


def named(x, name):
    """Names a value, so that a policy can keep it."""
    return ml.tensor(checkpoint_name(x.array, name), *x.dims)


def dropout(key, x, name):
    """Keeps nine of ten; the mask is named, and a place by its name."""
    mask = named(ml.tag(ml.uniform(key, *x.dims) < 0.9, name), name)
    return ml.where(mask, x * jnp.asarray(1 / 0.9, x.dtype), jnp.zeros((), x.dtype))


def norm(x):
    """Layer norm without parameters, in 32 bits."""
    wide = x.astype(ml.f32)
    return ml.normalize(wide, "embed").astype(x.dtype)


def _softmax(x, axis):
    return checkpoint_name(jax.nn.softmax(x.astype(jnp.float32), axis).astype(x.dtype), "scores")


@functools.partial(jax.custom_jvp, nondiff_argnums=(1,))
def softmax(x, axis):
    """Softmax in 32 bits, whose derivative reads nothing but its result, in 16 bits."""
    return _softmax(x, axis)


@softmax.defjvp
def _softmax_jvp(axis, primals, tangents):
    (x,), (t,) = primals, tangents
    y = _softmax(x, axis)
    return y, y * (t - (y * t).sum(axis, keepdims=True))


def layer(x, w, key):
    """One layer."""
    keys = jax.random.split(key, 3)
    y = ml.tag(named(norm(x), "first_norm"), "norm")
    query, key_, value = (named(ml.dot(y, w[name], "embed"), name) for name in ("query", "key", "value"))
    scale = next(dim.size for dim in query.dims if dim.name == "head") ** -0.5
    scores = ml.dot(query, key_.rename(seq="kv"), "head") * jnp.asarray(scale, x.dtype)
    seq = next(dim.size for dim in x.dims if dim.name == "seq")
    visible = ml.arange(ml.Dim("seq", seq)) >= ml.arange(ml.Dim("kv", seq))
    scores = ml.where(visible, scores, jnp.asarray(-6e4, x.dtype))
    axis = next(axis for axis, dim in enumerate(scores.dims) if dim.name == "kv")
    scores = ml.tensor(softmax(scores.array, axis), *scores.dims)
    dropped = named(dropout(keys[0], scores, "scores_mask"), "dropped")
    heads = named(ml.dot(dropped, value.rename(seq="kv"), "kv"), "heads")
    out = ml.dot(heads, w["output"], "heads", "head")
    x = ml.tag(x + dropout(keys[1], ml.tag(out, "residual"), "first_mask"), "residual")
    x = named(x, "second_input")
    y = ml.tag(named(norm(x), "second_norm"), "norm")
    up = named(ml.dot(y, w["up"], "embed"), "up")
    out = ml.dot(named(ml.gelu(up), "hidden"), w["down"], "ffn")
    return ml.tag(x + dropout(keys[2], ml.tag(out, "residual"), "second_mask"), "residual")


def stack(params, x, keys, saved):
    """All layers, one after the other, and the sum of what comes out."""

    def one(x, slices):
        w, key = slices
        return layer(x, w, key), None

    policy = jax.checkpoint_policies.save_only_these_names(*saved)
    x, _ = ml.scan(ml.checkpoint(one, policy=policy), x, (params, keys), "layers")
    return x.astype(ml.f32).sum()


def gradients(config, saved, batch):
    """Traces the gradients of all layers, of weights and of what goes in."""
    Batch, Seq, Embed, *_, Layers = config.dims(batch)
    keys = ml.named(jax.eval_shape(lambda: jax.random.split(jax.random.key(0), Layers.size)), "layers")
    step = jax.grad(functools.partial(stack, saved=saved), argnums=(0, 1))
    return ml.trace(step, weights(config, ml.f16), ml.f16[Batch, Seq, Embed], keys)


def step(params, state, x, keys):
    """One step of Adam as Megatron takes it: 16-bit weights, their gradients added up in 32 bits, a 32-bit master copy.

    2 + 4 + 12 bytes for each parameter.
    """
    grads = jax.grad(functools.partial(stack, saved=FULL))(params, x, keys)

    def updated(name):
        main, master, first, second = (state[kind][name] for kind in STATE)
        main = main + grads[name].astype(ml.f32)
        first, second = 0.9 * first + 0.1 * main, 0.95 * second + 0.05 * main * main
        return main, master - 1e-4 * first / (ml.sqrt(second) + 1e-8), first, second

    new = {name: updated(name) for name in params}
    state = {kind: {name: parts[i] for name, parts in new.items()} for i, kind in enumerate(STATE)}
    return {name: w.astype(jnp.float16) for name, w in state["master"].items()}, state


STATE = ("main", "master", "first", "second")


def trained(config, batch=1):
    """Traces a step of training."""
    Batch, Seq, Embed, *_, Layers = config.dims(batch)
    keys = ml.named(jax.eval_shape(lambda: jax.random.split(jax.random.key(0), Layers.size)), "layers")
    state = {kind: weights(config, ml.f32) for kind in STATE}
    arguments = weights(config, ml.f16), state, ml.f16[Batch, Seq, Embed], keys
    return ml.trace(step, *arguments, carry={"params": 0, "state": 1})
