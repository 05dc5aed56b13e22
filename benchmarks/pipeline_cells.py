"""Published layouts of pipelines, and what a micro-batch takes in each part of the model: plans of that part's layers.

`pipelines.toml` has the layouts. A part is planned as a program of its own: its layers forward, and forward and
backward; the embedding; the head with the loss. Linear matmuls are in 8 bits, collectives beside matmuls, attention is
causal and balanced. The gradients of weights are summed over `context` once a step, not for each micro-batch: in a part
that is free.
"""

from __future__ import annotations

import dataclasses
import functools
import math
import pathlib
import tomllib
from collections.abc import Callable, Mapping
from typing import Any

import jax

import meshlab as ml
from benchmarks import published
from meshlab.cost.step_time.schedule import spend
from meshlab.cost.workload.options import Options
from meshlab.cost.workload.scenario import at_plan_sizes
from meshlab.engine.planning.steps import Move
from meshlab.models.parts.layers import attention, gated, looked_up, repeated, rms_norm, rotary, to_logits, token_loss
from meshlab.models.parts.weights import one_of

DATA = pathlib.Path(__file__).with_name("pipelines.toml")
SEQ, THETA, EPSILON = 8192, 500_000.0, 1e-5
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
        again: how many layers are computed again for the backward pass.
        runs: release, sequences of a step, and tokens per second and device.
    """

    model: str
    on: str
    precision: str
    mesh: tuple[tuple[str, int], ...]
    chunks: int
    micro: int
    parts: tuple[int, ...]
    again: int
    runs: tuple[tuple[str, int, float], ...]

    def ways(self, axis: str) -> int:
        return dict(self.mesh).get(axis, 1)

    @property
    def stages(self) -> int:
        return self.ways("pipe")

    @property
    def devices(self) -> int:
        return math.prod(size for _, size in self.mesh)

    def measured(self, batch: int, rate: float) -> float:
        """Returns the seconds of a step of so many sequences, at so many tokens per second and device."""
        return batch * SEQ / self.devices / rate


@functools.cache
def layouts() -> tuple[Layout, ...]:
    """Returns all published layouts."""
    return tuple(map(_layout, tomllib.loads(DATA.read_text())["groups"]))


def _layout(group: Mapping[str, Any]) -> Layout:
    mesh, chunks = group["mesh"], group["chunks"]
    count, layers = mesh.get("pipe", 1) * chunks, published.models()[group["model"]]["layers"]
    parts = group.get("parts") or _dealt(layers, count)
    assert (sum(parts), len(parts)) == (layers, count)
    runs = tuple(map(tuple, group["runs"]))
    return Layout(
        group["model"],
        group["on"],
        group["precision"],
        tuple(mesh.items()),
        chunks,
        group["micro"],
        tuple(parts),
        group.get("again", 0),
        runs,
    )


def _dealt(layers: int, count: int) -> list[int]:
    """Layers dealt evenly; where they do not divide, embedding and head take the place of one each."""
    if layers % count == 0:
        return [layers // count] * count
    each = (layers + 2) // count
    return [each - (part in (0, count - 1)) for part in range(count)]


# The plans of a cell


def _dims(layout: Layout) -> Dims:
    sizes = published.models()[layout.model]
    named = ("embed", "heads", "group", "head", "ffn", "vocab")
    return {name: ml.Dim(name, sizes[name]) for name in named} | {
        "batch": ml.Dim("batch", layout.micro),
        "seq": ml.Dim("seq", SEQ),
    }


def _stack(weights: Any, x: ml.Tensor, saved: tuple[str, ...]) -> ml.Tensor:
    """The layers of a part; the zoo's llama has no function for them alone."""
    rotation = rotary(x, one_of(weights)["query"], THETA)

    def layer(x, w):
        x = ml.tag(x, "residual")
        x = ml.tag(x + attention(rms_norm(x, w["attention_norm"], EPSILON), rotation, w), "residual")
        return ml.tag(x + gated(rms_norm(x, w["ffn_norm"], EPSILON), w), "residual")

    return repeated(layer, ml.tag(x, "residual"), weights, saved=saved)


def _weights(dims: Dims, count: int) -> dict[str, Any]:
    tables = {
        "query": "embed heads group head",
        "key": "embed heads head",
        "value": "embed heads head",
        "output": "heads group head embed",
        "gate": "embed ffn",
        "up": "embed ffn",
        "down": "ffn embed",
        "attention_norm": "embed",
        "ffn_norm": "embed",
    }
    layers = ml.Dim("layers", count)
    return {name: ml.bf16[(layers, *(dims[dim] for dim in text.split()))] for name, text in tables.items()}


def _with_gradients(function: Callable[..., Any]) -> Callable[..., Any]:
    def cell(weights, x, cotangent, tokens):
        y, back = jax.vjp(lambda w, x: function(w, x, tokens), weights, x)
        return y, back(cotangent)

    return cell


@functools.cache
def program(layout: Layout, what: str, count: int = 0) -> ml.Program:
    """Traces a part of the model: "forward", "cell" or "again" of some layers, "embedding" or "head"."""
    dims = _dims(layout)
    x = ml.bf16[dims["batch"], dims["seq"], dims["embed"]]
    tokens = ml.i32[dims["batch"], dims["seq"]]
    if what == "embedding":
        look = _with_gradients(lambda w, _, tokens: ml.tag(looked_up(w, tokens), "residual"))
        return ml.trace(look, ml.bf16[dims["vocab"], dims["embed"]], x, x, tokens)
    if what == "head":

        def head(w, x, targets):
            def loss(w, x):
                return token_loss(to_logits(rms_norm(ml.tag(x, "residual"), w["norm"], EPSILON), w["head"]), targets)

            return jax.value_and_grad(loss, argnums=(0, 1))(w, x)

        w = {"norm": ml.bf16[dims["embed"]], "head": ml.bf16[dims["embed"], dims["vocab"]]}
        return ml.trace(head, w, x, tokens)
    saved = () if what == "again" else ("all",)
    weights = _weights(dims, count)
    if what == "forward":
        return ml.trace(lambda w, x, tokens: (_stack(w, x, saved), tokens + 1), weights, x, tokens)
    return ml.trace(_with_gradients(lambda w, x, _: _stack(w, x, saved)), weights, x, x, tokens)


def planned(layout: Layout, program: ml.Program) -> tuple[ml.Mesh, dict[str, Any]]:
    """Returns the mesh of a stage, and the layout of a part's program: sequence parallel between the layers."""
    axes = {name: size for name, size in layout.mesh if name in ("context", "tensor")} or {"tensor": 1}
    split = tuple(name for name in axes if axes[name] > 1)
    rules: dict[str, Any] = {dim: "tensor" for dim in ("heads", "ffn", "vocab") if dim in program.dims}
    rules |= {"seq": "context"} if "context" in axes else {}
    places = {*program.outputs, *(argument.place for argument in program.arguments)}
    # What the head is given is the residual; its output, the loss, has no positions.
    ends = {"x", "cotangent", "out/0"} & places if "cotangent" in places or "vocab" not in program.dims else set()
    rules |= {place: {"seq": split} for place in ("residual", *sorted(ends)) if split}
    return ml.mesh(layout.on, **axes), rules


@functools.cache
def seconds(layout: Layout, what: str, count: int = 0) -> float:
    """Returns the seconds of a part, without the sums of its weights' gradients."""
    own = program(layout, what, count)
    plan = own.plan(*planned(layout, own))
    tokens = {"seq", "kv", "batch"}

    def of_weights(move: Move) -> bool:
        return "context" in move.via.axes and tokens.isdisjoint(own.names[move.value])

    return float(spend(at_plan_sizes(plan, OPTIONS), of_weights).elapsed)
