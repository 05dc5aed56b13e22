"""Published layouts of pipelines, and what a micro-batch takes in each part of the model: plans of that part's layers.

`pipelines.toml` has the layouts. A part is planned as a program of its own: its layers forward, and forward and
backward; the embedding; the head with the loss. Linear matmuls are in 8 bits, collectives beside matmuls, attention is
causal and balanced. Devices along `expert` have sequences of their own, and share the experts. The gradients of weights
are summed over `context` and `expert` once a step, not for each micro-batch: in a part that is free.
"""

from __future__ import annotations

import dataclasses
import functools
import math
import pathlib
import tomllib
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import jax

import meshlab as ml
from benchmarks import published
from meshlab.cost.machines.hardware import Figure, Hardware, hardware
from meshlab.cost.step_time.schedule import spend
from meshlab.cost.workload.options import Options
from meshlab.cost.workload.scenario import at_plan_sizes
from meshlab.engine.planning.steps import Move
from meshlab.models.language import gpt2, moe
from meshlab.models.parts.layers import (
    attention,
    feed_forward,
    gated,
    layer_norm,
    looked_up,
    repeated,
    rms_norm,
    rotary,
    to_logits,
    token_loss,
    wide,
)
from meshlab.models.parts.weights import one_of

DATA = pathlib.Path(__file__).with_name("pipelines.toml")
THETA, EPSILON = 500_000.0, 1e-5
OPTIONS = Options(attention="causal", balanced=True, linear="fp8", beside=True)
Dims = Mapping[str, ml.Dim]


@dataclasses.dataclass(frozen=True)
class Layout:
    """A layout with the steps that were published of it.

    Attributes:
        model: its name.
        on: the machine.
        precision: as the table has it.
        mesh: the sizes of the mesh's axes.
        chunks: how many parts of the model each stage has.
        micro: sequences of a micro-batch.
        parts: layers of each part, in their order.
        runs: release, sequences of a step, and what was measured of it.
        again: how many layers are computed again for the backward pass.
        unit: "tokens" per second and device, or "seconds".
        seq: tokens of a sequence.
        saved: what the other layers keep for their backward pass.
        residual: whether `tensor` splits the stream between layers.
        options: assumptions about the run.
        memory: `bytes` and `bandwidth` of the machine's memory where they are not those of the machine that it names.
        clock: the part of its clocks in long runs that this machine's power leaves.
    """

    model: str
    on: str
    precision: str
    mesh: tuple[tuple[str, int], ...]
    chunks: int
    micro: int
    parts: tuple[int, ...]
    runs: tuple[tuple[str, int, float], ...]
    again: int = 0
    unit: str = "tokens"
    seq: int = 8192
    saved: tuple[str, ...] = ("all",)
    residual: bool = True
    options: Options = OPTIONS
    memory: tuple[tuple[str, float], ...] = ()
    clock: float = 1.0

    def ways(self, *axes: str) -> int:
        """Devices along some axes."""
        return math.prod(dict(self.mesh).get(axis, 1) for axis in axes)

    @property
    def sizes(self) -> Mapping[str, Any]:
        """The model's."""
        return (published.models() | _data()["models"])[self.model]

    @property
    def stages(self) -> int:
        return self.ways("pipe")

    @property
    def devices(self) -> int:
        return math.prod(size for _, size in self.mesh)

    def measured(self, batch: int, figure: float) -> float:
        """Returns the seconds of a step of so many sequences, of what was measured of it."""
        return figure if self.unit == "seconds" else batch * self.seq / self.devices / figure


@functools.cache
def layouts() -> tuple[Layout, ...]:
    """Returns the published layouts whose steps are judged."""
    return tuple(map(_layout, _data()["groups"]))


@functools.cache
def mixtures() -> tuple[Layout, ...]:
    """Returns the published layouts of mixtures of experts, whose steps are shown."""
    return tuple(map(_layout, _data()["mixtures"]))


@functools.cache
def pairs() -> tuple[tuple[str, Layout, Layout], ...]:
    """Returns pairs of published layouts that differ in one thing, with what it is."""
    shared = [{key: value for key, value in pair.items() if key not in ("one", "other")} for pair in _data()["pairs"]]
    given = zip(shared, _data()["pairs"], strict=True)
    return tuple((each["title"], _layout(each | pair["one"]), _layout(each | pair["other"])) for each, pair in given)


@functools.cache
def _data() -> Mapping[str, Any]:
    return tomllib.loads(DATA.read_text())


def _layout(group: Mapping[str, Any]) -> Layout:
    mesh, chunks = group["mesh"], group["chunks"]
    count, layers = mesh.get("pipe", 1) * chunks, (published.models() | _data()["models"])[group["model"]]["layers"]
    parts = tuple(group.get("parts") or _dealt(layers, count))
    assert (sum(parts), len(parts)) == (layers, count)
    read = {name: group[name] for name in ("again", "unit", "seq", "residual", "clock") if name in group}
    read |= {"saved": tuple(group["saved"])} if "saved" in group else {}
    return Layout(
        group["model"],
        group["on"],
        group["precision"],
        tuple(mesh.items()),
        chunks,
        group["micro"],
        parts,
        tuple(map(tuple, group["runs"])),
        options=OPTIONS.given(**group.get("options", {})),
        memory=tuple(group.get("memory", {}).items()),
        **read,
    )


def _dealt(layers: int, count: int) -> list[int]:
    """Layers dealt evenly; where they do not divide, embedding and head take the place of one each."""
    if layers % count == 0:
        return [layers // count] * count
    each = (layers + 2) // count
    return [each - (part in (0, count - 1)) for part in range(count)]


def machine(layout: Layout) -> Hardware:
    """Returns a layout's machine."""
    on = hardware(layout.on)
    if layout.clock != 1.0 and on.matmuls is not None:
        sustained = Figure(on.matmuls.sustained.value * layout.clock, "the power of this machine")
        on = dataclasses.replace(on, matmuls=dataclasses.replace(on.matmuls, sustained=sustained))
    own = {name: Figure(value, "the memory of this machine") for name, value in layout.memory}
    return dataclasses.replace(on, memory=own.get("bytes", on.memory), bandwidth=own.get("bandwidth", on.bandwidth))


# The plans of a cell


def _dims(layout: Layout) -> Dims:
    sizes, names = layout.sizes, ("embed", "heads", "group", "head", "ffn", "vocab", "experts")
    named = {name: sizes[name] for name in names if name in sizes}
    named |= {"batch": layout.micro * layout.ways("expert"), "seq": layout.seq}
    named |= {"routes": sizes["experts"]} if "experts" in sizes else {}
    return {name: ml.Dim(name, size) for name, size in named.items()}


class Family(NamedTuple):
    """A family of models: its layers, which the zoo has only as a part of a whole model.

    Attributes:
        tables: the weights of a layer by name, with their dims; several of them are a tuple.
        layer: makes the layer of (x, weights) of the stack's weights and its input.
        norm: the dims of the last norm's weights.
        normed: applies a norm.
        head: the dims of the head.
    """

    tables: Mapping[str, tuple[str, ...]]
    layer: Callable[[Any, ml.Tensor], Callable[[ml.Tensor, Any], ml.Tensor]]
    norm: tuple[str, ...]
    normed: Callable[[ml.Tensor, Any], ml.Tensor]
    head: str


def _rms(x: ml.Tensor, scale: Any) -> ml.Tensor:
    return rms_norm(x, scale, EPSILON)


def _layer_norm(x: ml.Tensor, weights: Any) -> ml.Tensor:
    return layer_norm(x, *weights)


def _llama_layer(weights: Any, x: ml.Tensor) -> Callable[[ml.Tensor, Any], ml.Tensor]:
    rotation = rotary(x, one_of(weights)["query"], THETA)

    def layer(x, w):
        x = ml.tag(ml.tag(x, "residual") + attention(_rms(x, w["attention_norm"]), rotation, w), "residual")
        return ml.tag(x + gated(_rms(x, w["ffn_norm"]), w), "residual")

    return layer


def _moe_layer(weights: Any, x: ml.Tensor, choices: int = 1) -> Callable[[ml.Tensor, Any], ml.Tensor]:
    rotation = rotary(x, one_of(weights)["query"], THETA)

    def layer(x, w):
        x = ml.tag(ml.tag(x, "residual") + attention(_rms(x, w["attention_norm"]), rotation, w), "residual")
        y = _rms(x, w["ffn_norm"])
        shares = ml.softmax(wide(ml.dot(y, w["router"], "embed")), "routes")
        return ml.tag(x + moe.by_expert(y, shares, w, choices, factor=1.0), "residual")

    return layer


def _gpt2_layer(_weights: Any, _x: ml.Tensor) -> Callable[[ml.Tensor, Any], ml.Tensor]:
    def layer(x, w):
        x = ml.tag(ml.tag(x, "residual") + gpt2.attention(_layer_norm(x, w["attention_norm"]), w), "residual")
        return ml.tag(x + feed_forward(_layer_norm(x, w["ffn_norm"]), w), "residual")

    return layer


_LLAMA = {"query": "embed heads group head", "key": "embed heads head", "value": "embed heads head"}
_LLAMA |= {"output": "heads group head embed", "gate": "embed ffn", "up": "embed ffn", "down": "ffn embed"}
_LLAMA |= dict.fromkeys(("attention_norm", "ffn_norm"), "embed")
_GPT2 = dict.fromkeys(("query", "key", "value"), "embed heads head") | {"output": "heads head embed"}
_GPT2 |= {"up": "embed ffn", "down": "ffn embed", "up_bias": "ffn", "output_bias": "embed", "down_bias": "embed"}
_GPT2 |= dict.fromkeys(("query_bias", "key_bias", "value_bias"), "heads head")
_EXPERTS = dict.fromkeys(("gate", "up"), "experts embed ffn") | {"down": "experts ffn embed", "router": "embed routes"}
_NORMS = {"attention_norm": ("embed", "embed"), "ffn_norm": ("embed", "embed")}
FAMILIES = {
    "llama": Family({k: (v,) for k, v in _LLAMA.items()}, _llama_layer, ("embed",), _rms, "embed vocab"),
    "moe": Family({k: (v,) for k, v in (_LLAMA | _EXPERTS).items()}, _moe_layer, ("embed",), _rms, "embed vocab"),
    "gpt2": Family(
        {k: (v,) for k, v in _GPT2.items()} | _NORMS, _gpt2_layer, ("embed", "embed"), _layer_norm, "vocab embed"
    ),
}


def _family(layout: Layout) -> Family:
    family, choices = FAMILIES[layout.sizes["family"]], layout.sizes.get("choices")
    return family if choices is None else family._replace(layer=functools.partial(_moe_layer, choices=choices))


def _shapes(each: tuple[str, ...], dims: Dims, *layers: ml.Dim) -> Any:
    shapes = tuple(ml.bf16[(*layers, *(dims[dim] for dim in text.split()))] for text in each)
    return shapes[0] if len(shapes) == 1 else shapes


def _stack(family: Family, weights: Any, x: ml.Tensor, saved: tuple[str, ...]) -> ml.Tensor:
    return repeated(family.layer(weights, x), ml.tag(x, "residual"), weights, saved=saved)


def _with_gradients(function: Callable[..., Any]) -> Callable[..., Any]:
    def cell(weights, x, cotangent, tokens):
        y, back = jax.vjp(lambda w, x: function(w, x, tokens), weights, x)
        return y, back(cotangent)

    return cell


@functools.cache
def program(layout: Layout, what: str, count: int = 0) -> ml.Program:
    """Traces a part of the model: "forward", "cell" or "again" of some layers, "embedding" or "head"."""
    dims, family = _dims(layout), _family(layout)
    x = ml.bf16[dims["batch"], dims["seq"], dims["embed"]]
    tokens = ml.i32[dims["batch"], dims["seq"]]
    if what == "embedding":
        look = _with_gradients(lambda w, _, tokens: ml.tag(looked_up(w, tokens), "residual"))
        return ml.trace(look, ml.bf16[dims["vocab"], dims["embed"]], x, x, tokens)
    if what == "head":

        def head(w, x, targets):
            def loss(w, x):
                normed = family.normed(ml.tag(x, "residual"), w["norm"])
                return token_loss(to_logits(normed, w["head"]), targets)

            return jax.value_and_grad(loss, argnums=(0, 1))(w, x)

        return ml.trace(head, {"norm": _shapes(family.norm, dims), "head": _shapes((family.head,), dims)}, x, tokens)
    saved = () if what == "again" else layout.saved
    layers = ml.Dim("layers", count)
    weights = {name: _shapes(each, dims, layers) for name, each in family.tables.items()}
    if what == "forward":
        return ml.trace(lambda w, x, tokens: (_stack(family, w, x, saved), tokens + 1), weights, x, tokens)
    return ml.trace(_with_gradients(lambda w, x, _: _stack(family, w, x, saved)), weights, x, x, tokens)


def planned(layout: Layout, program: ml.Program) -> tuple[ml.Mesh, dict[str, Any]]:
    """Returns the mesh of a stage, and the layout of a part's program: sequence parallel between the layers."""
    axes = {name: size for name, size in layout.mesh if name in ("context", "expert", "tensor")}
    axes.setdefault("tensor", 1)
    split = tuple(name for name in axes if axes[name] > 1 and name != "expert")
    rules: dict[str, Any] = {dim: "tensor" for dim in ("heads", "ffn", "vocab") if dim in program.dims}
    rules |= {"seq": "context"} if "context" in axes else {}
    rules |= {dim: "expert" for dim in ("batch", "experts") if "expert" in axes and dim in program.dims}
    places = {*program.outputs, *(argument.place for argument in program.arguments)}
    # What the head is given is the residual; its output, the loss, has no positions.
    ends = {"x", "cotangent", "out/0"} & places if "cotangent" in places or "vocab" not in program.dims else set()
    rules |= {place: {"seq": split} for place in ("residual", *sorted(ends)) if split and layout.residual}
    return ml.mesh(machine(layout), **axes), rules


@functools.cache
def seconds(layout: Layout, what: str, count: int = 0) -> float:
    """Returns the seconds of a part, without the sums of its weights' gradients."""
    own = program(layout, what, count)
    plan = own.plan(*planned(layout, own))
    tokens = {"seq", "kv", "batch"}

    def of_weights(move: Move) -> bool:
        return not {"context", "expert"}.isdisjoint(move.via.axes) and tokens.isdisjoint(own.names[move.value])

    return float(spend(at_plan_sizes(plan, layout.options), of_weights).elapsed)
