"""The steps of training on which techniques are shown, each at two sizes: to be run, and to be read.

A transformer with AdamW, its layers rematerialised or not; with experts in the place of its feed-forward networks; a
network of convolutions; layers of plain arrays that Muon trains; a recommender of two towers. Small sizes are all
different, so that no formula is right by accident.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import optax

import meshlab as ml
from meshlab.models.language import moe, transformer
from meshlab.models.parts import training
from meshlab.models.parts.initial import normals, shapes
from meshlab.models.parts.sizes import Sizes
from meshlab.models.vision import convnet
from meshlab.models.zoo import Model, draw

from .technique import Step

# As it is used for language models, but for a larger epsilon: where a gradient is all rounding its sign is chance, and
# steps that are to be compared must not take it for a direction.
OPTIMIZER = optax.adamw(1e-3, b2=0.95, eps=1e-5)


def _trained(name: str, module: Any, loss: Callable[..., Any], high: str, config: Any) -> Model:
    """A step of AdamW on a module of models; its integers go up to the size that `high` names."""

    def arguments():
        params = shapes(module.init, config)
        return params, jax.eval_shape(OPTIMIZER.init, params), *module.inputs(config)

    def data(seed: int):
        params = module.init(jax.random.key(seed), config)
        return params, OPTIMIZER.init(params), *draw(module.inputs(config), seed, config[high].size)

    return Model(name, training.adamw_step(loss, OPTIMIZER), arguments, data)


def _kept(loss: Callable[..., Any]) -> Callable[..., Any]:
    """The loss of which nothing is computed a second time."""
    return functools.partial(loss, saved=("all",))


TEXT: dict[str, str] = {
    "q": "heads * group * head",
    "kv": "heads * head",
    "W": "embed * (2 * q + 2 * kv + 3 * ffn)",
    "S": "2 * layers * embed + embed",
    "P": "vocab * embed + layers * W + S",
    "x": "batch * seq * embed",
}
SMALL = transformer.Config(batch=16, seq=24, vocab=40, embed=32, heads=8, group=2, head=6, ffn=56, layers=3)
LARGE = transformer.Config(64, 4096, 128_256, 4096, heads=8, group=4, head=128, ffn=14_336, layers=32)


def _transformer(name: str, loss: Callable[..., Any]) -> Step:
    model = functools.partial(_trained, name, transformer, loss, "vocab")
    return Step(name, model, SMALL, LARGE, TEXT)


KEPT = _transformer("transformer", _kept(transformer.loss))
REMATERIALISED = _transformer("rematerialised transformer", transformer.loss)


def _experts(name: str, loss: Callable[..., Any], choices: int) -> Step:
    small = moe.Config(batch=16, seq=24, vocab=40, embed=32, heads=8, group=2, head=6, ffn=56, experts=8, layers=3)
    large = moe.Config(64, 4096, 32_000, 4096, heads=8, group=4, head=128, ffn=14_336, experts=8, layers=32)
    defined = {
        "q": "heads * group * head",
        "kv": "heads * head",
        "capacity": f"min(seq, ceil(1.25 * {choices} * seq / experts))",
        "E": "3 * experts * embed * ffn",
        "D": "2 * vocab * embed + embed + layers * embed * (2 * q + 2 * kv + experts + 2)",
        "t": "batch * experts * capacity * embed",
    }
    return Step(name, functools.partial(_trained, name, moe, _kept(loss), "vocab"), small, large, defined)


TWO_CHOICES = _experts("transformer with experts, two a token", moe.loss, 2)
ONE_CHOICE = _experts("transformer with experts, one a token", moe.switch_loss, 1)

IMAGES = Step(
    "convolutional network",
    functools.partial(_trained, "convnet", convnet, convnet.loss, "classes"),
    convnet.Config(16, 16, 24, window=5, channels=1, filters1=8, filters2=16, hidden1=32, hidden2=48, classes=10),
    convnet.Config(
        256, 224, 224, window=9, channels=3, filters1=64, filters2=128, hidden1=512, hidden2=256, classes=1000
    ),
    {"halo": "window // 2", "F": "window**2 * (channels * filters1 + filters1 * filters2)"},
)


# Muon, on plain arrays


@dataclasses.dataclass(frozen=True)
class Blocks(Sizes):
    """Sizes of a stack of feed-forward layers."""

    batch: int
    embed: int
    ffn: int
    layers: int


def _muon(config: Blocks) -> Model:
    names = {"up": "layers embed ffn", "down": "layers ffn embed"}
    matrix = optax.contrib.MuonDimensionNumbers(reduction_axis=1, output_axis=2)
    muon = optax.contrib.scale_by_muon(weight_dimension_numbers=dict.fromkeys(names, matrix))

    def loss(params, x):
        def layer(x, w):
            return x + jax.nn.relu(x @ w["up"]) @ w["down"], None

        return jnp.square(jax.lax.scan(layer, x, params)[0]).mean()

    def step(params, momentum, x):
        value, grads = jax.value_and_grad(loss)(params, x)
        with jax.named_scope("muon"):
            updates, momentum = muon.update(grads, momentum, params)
        return value, jax.tree.map(lambda w, u: w - 1e-3 * u, params, updates), momentum

    arrays = {name: shape(tuple(dim.size for dim in config.dims(dims))) for name, dims in names.items()}
    x = shape((config.batch, config.embed))

    def arguments():
        return ml.named(arrays, names), jax.eval_shape(muon.init, arrays), ml.named(x, "batch embed")

    def data(seed: int):
        params, batch = draw((arrays, x), seed)
        params = jax.tree.map(lambda w: w * w.shape[1] ** -0.5, params)
        return params, muon.init(params), batch

    return Model("muon", step, arguments, data, {"params": 1, "momentum": 2})


def shape(sizes: tuple[int, ...]) -> jax.ShapeDtypeStruct:
    """The shape of an array of 32-bit floats."""
    return jax.ShapeDtypeStruct(sizes, jnp.float32)


MUON = Step(
    "layers of plain arrays, with Muon",
    _muon,
    Blocks(batch=16, embed=32, ffn=56, layers=24),
    Blocks(batch=65_536, embed=4096, ffn=14_336, layers=32),
    {"P": "2 * layers * embed * ffn"},
)


# A recommender


@dataclasses.dataclass(frozen=True)
class Towers(Sizes):
    """Sizes of a recommender of two towers: rows of its two tables, and widths."""

    batch: int
    users: int
    items: int
    embed: int
    hidden: int


def _two_towers(config: Towers) -> Model:
    Batch, Users, Items, Embed, Hidden = config.dims("batch users items embed hidden")

    def tower(ids, table, weights):
        with jax.named_scope("lookup"):
            rows = ml.take(table, ids, table.dims[0])
        return ml.relu(ml.dot(rows, weights, Embed))

    def loss(params, users, items):
        chosen = tower(users, params["users"], params["user_tower"])
        candidates = tower(items, params["items"], params["item_tower"]).rename(batch="candidates")
        return ml.cross_entropy(ml.dot(chosen, candidates, Hidden), ml.arange(Batch), "candidates").mean()

    def init(key):
        table = {"users": ((Users, Embed), ("embed",)), "items": ((Items, Embed), ("embed",))}
        weights = {name: ((Embed, Hidden), ("embed",)) for name in ("user_tower", "item_tower")}
        return normals(key, table | weights)

    def arguments():
        params = shapes(init)
        return params, jax.eval_shape(OPTIMIZER.init, params), ml.i32[Batch], ml.i32[Batch]

    def data(seed: int):
        params = init(jax.random.key(seed))
        ids = draw(ml.i32[Batch], seed, config.users), draw(ml.i32[Batch], seed + 1, config.items)
        return params, OPTIMIZER.init(params), *ids

    return Model("two_towers", training.adamw_step(loss, OPTIMIZER), arguments, data)


TWO_TOWERS = Step(
    "two towers with in-batch negatives",
    _two_towers,
    Towers(batch=16, users=64, items=96, embed=32, hidden=48),
    Towers(batch=65_536, users=100_000_000, items=10_000_000, embed=128, hidden=256),
    {},
)
