"""The steps of training on which techniques are shown, each at three sizes: to be run, compiled, and read.

A transformer with AdamW, its layers rematerialised or not; with experts in the place of its feed-forward networks; with
Muon for its matrices; a network of convolutions; a recommender of two towers. Small sizes are different where they can
be, so that no formula is right by accident.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable
from typing import Any

import jax
import optax

import meshlab as ml
from meshlab.models.language import moe, transformer
from meshlab.models.parts import layers, training
from meshlab.models.parts.initial import normals, shapes
from meshlab.models.parts.sizes import Sizes
from meshlab.models.parts.tasks import next_token_loss
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
TEXTS = {
    "small": transformer.Config(batch=16, seq=24, vocab=40, embed=32, heads=8, group=2, head=6, ffn=56, layers=3),
    "middle": transformer.Config(16, 128, 1024, 256, heads=8, group=2, head=32, ffn=1024, layers=4),
    "large": transformer.Config(64, 4096, 128_256, 4096, heads=8, group=4, head=128, ffn=14_336, layers=32),
}


def _transformer(name: str, loss: Callable[..., Any]) -> Step:
    model = functools.partial(_trained, name, transformer, loss, "vocab")
    return Step(name, model, TEXTS, TEXT)


KEPT = _transformer("transformer", _kept(transformer.loss))
REMATERIALISED = _transformer("rematerialised transformer", transformer.loss)
_DEEP = {size: dataclasses.replace(TEXTS[size], batch=32, layers=8) for size in ("small", "middle")}
DEEP = dataclasses.replace(KEPT, name="transformer of more layers", sizes=TEXTS | _DEEP)


@jax.named_scope("attention")
def _one_operation(x: ml.Tensor, rotation: Any, weights: Any) -> ml.Tensor:
    """`layers.attention`, its core as one operation."""
    query, key = (layers.rotate(ml.dot(x, weights[name], "embed"), rotation) for name in ("query", "key"))
    value = ml.dot(x, weights["value"], "embed")
    with jax.named_scope("core"):
        keys, values = (each.rename(seq="kv") for each in (key, value))
        heads = ml.attention(query, keys, values, "seq", "kv", causal=True)
    return ml.dot(heads, weights["output"], "heads", "group", "head")


def _predicted(params: Any, tokens: ml.Tensor, saved: tuple[str, ...] = ()) -> ml.Tensor:
    """`transformer.predict`, with that attention."""
    x = layers.looked_up(params["embedding"], tokens)
    rotation = layers.rotary(x, params["layers"]["query"])

    def layer(x: ml.Tensor, weights: Any) -> ml.Tensor:
        x = x + _one_operation(layers.rms_norm(x, weights["attention_norm"]), rotation, weights)
        return x + layers.gated(layers.rms_norm(x, weights["ffn_norm"]), weights)

    x = layers.repeated(layer, x, params["layers"], saved=saved)
    return layers.to_logits(layers.rms_norm(x, params["norm"]), params["embedding"])


LONG = Step(
    "transformer, its attention as one operation",
    functools.partial(_trained, "long", transformer, _kept(next_token_loss(_predicted)), "vocab"),
    {**TEXTS, "small": dataclasses.replace(TEXTS["small"], seq=32)},
    TEXT,
)


def _experts(name: str, loss: Callable[..., Any], choices: int, rows: str = "") -> Step:
    """A transformer with experts, whose places for tokens are so many rows, or a capacity for each sequence."""
    sizes = {
        "small": moe.Config(16, 24, 40, 32, heads=8, group=2, head=6, ffn=56, experts=8, layers=3),
        "middle": moe.Config(16, 128, 1024, 256, heads=8, group=2, head=32, ffn=512, experts=8, layers=4),
        "large": moe.Config(64, 4096, 32_000, 4096, heads=8, group=4, head=128, ffn=14_336, experts=8, layers=32),
    }
    defined = {
        "q": "heads * group * head",
        "kv": "heads * head",
        **({"rows": rows} if rows else {"capacity": f"min(seq, ceil(1.25 * {choices} * seq / experts))"}),
        "E": "3 * experts * embed * ffn",
        "D": "2 * vocab * embed + embed + layers * embed * (2 * q + 2 * kv + experts + 2)",
        "t": f"{'rows' if rows else 'batch * experts * capacity'} * embed",
    }
    return Step(name, functools.partial(_trained, name, moe, _kept(loss), "vocab"), sizes, defined)


TWO_CHOICES = _experts("transformer with experts, two a token", moe.loss, 2)
SORTED = _experts(
    "transformer with experts, rows sorted", functools.partial(moe.sorted_loss, factor=8), 2, "8 * 2 * batch * seq"
)
ONE_CHOICE = _experts("transformer with experts, one a token", moe.switch_loss, 1)

IMAGES = Step(
    "convolutional network",
    functools.partial(_trained, "convnet", convnet, convnet.loss, "classes"),
    {
        "small": convnet.Config(16, 16, 24, 5, 1, filters1=8, filters2=16, hidden1=32, hidden2=48, classes=10),
        "middle": convnet.Config(128, 64, 64, 5, 8, filters1=128, filters2=256, hidden1=512, hidden2=256, classes=128),
        "large": convnet.Config(256, 224, 224, 9, 3, filters1=64, filters2=128, hidden1=512, hidden2=256, classes=1000),
    },
    {"halo": "window // 2", "F": "window**2 * (channels * filters1 + filters1 * filters2)"},
)


# Muon: of each weight of the layers what is reduced, and what it makes

_MATRIX = optax.contrib.MuonDimensionNumbers
MATRICES = {
    "query": _MATRIX(1, (2, 3, 4)),
    "key": _MATRIX(1, (2, 3)),
    "value": _MATRIX(1, (2, 3)),
    "output": _MATRIX((1, 2, 3), 4),
    **dict.fromkeys(("gate", "up", "down"), _MATRIX(1, 2)),
}


def _muon_step(params: Any, opt_state: Any, momentum: Any, tokens: Any, targets: Any) -> tuple[Any, ...]:
    """A step of Muon for the matrices of all layers, which are stacked, and of AdamW for all else."""
    value, grads = jax.value_and_grad(_kept(transformer.loss))(params, tokens, targets)
    matrices, others = _parted(params)
    matrix_grads, other_grads = _parted(grads)
    updates: Any
    with jax.named_scope("muon"):
        updates, momentum = _muon().update(_arrays(matrix_grads), momentum, _arrays(matrices))
    new = {name: ml.tensor(w.array - 1e-3 * updates[name], *w.dims) for name, w in matrices.items()}
    changes, opt_state = OPTIMIZER.update(other_grads, opt_state, others)
    others = jax.tree.map(lambda w, change: w + change, others, changes)
    return value, others | {"layers": others["layers"] | new}, opt_state, momentum


def _muon() -> optax.GradientTransformation:
    return optax.contrib.scale_by_muon(weight_dimension_numbers=MATRICES)


def _parted(params: Any) -> tuple[Any, Any]:
    """Returns the matrices of the layers, and all else."""
    layers = params["layers"]
    matrices = {name: layers[name] for name in MATRICES}
    return matrices, params | {"layers": {name: w for name, w in layers.items() if name not in MATRICES}}


def _arrays(tensors: dict[str, ml.Tensor]) -> dict[str, jax.Array]:
    return {name: tensor.array for name, tensor in tensors.items()}


def _muon_model(config: transformer.Config) -> Model:
    def state(params):
        matrices, others = _parted(params)
        return OPTIMIZER.init(others), _muon().init(_arrays(matrices))

    def arguments():
        params = shapes(transformer.init, config)
        return params, *jax.eval_shape(state, params), *transformer.inputs(config)

    def data(seed: int):
        params = transformer.init(jax.random.key(seed), config)
        return params, *state(params), *draw(transformer.inputs(config), seed, config.vocab)

    return Model("muon", _muon_step, arguments, data)


MUON = Step(
    "transformer whose matrices Muon trains, and all else AdamW",
    _muon_model,
    {name: dataclasses.replace(config, layers=max(8, config.layers)) for name, config in TEXTS.items()},
    TEXT,
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
    {
        "small": Towers(batch=16, users=64, items=96, embed=32, hidden=48),
        "middle": Towers(batch=8192, users=65_536, items=32_768, embed=128, hidden=256),
        "large": Towers(batch=65_536, users=100_000_000, items=10_000_000, embed=128, hidden=256),
    },
    {},
)
