"""Puzzles: a program, a mesh and a goal, with an answer and wrong tries.

Each wrong try is legal, and people do try it: it repeats work, sends too much, or splits what must stay whole.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

import meshlab as ml


class Puzzle(NamedTuple):
    """A program, a mesh and a goal; the answer, and wrong tries."""

    name: str
    build: Callable[[], Any]
    mesh: Any
    goal: Any
    answer: Any
    wrong: tuple[Any, ...]


def perceptron():
    Batch, Embed, Hidden = ml.dims(batch=8, embed=8, hidden=16)

    def forward(w, x):
        return ml.dot(ml.relu(ml.dot(x, w["a"], "embed")), w["b"], "hidden")

    return ml.trace(forward, {"a": ml.f32[Embed, Hidden], "b": ml.f32[Hidden, Embed]}, ml.f32[Batch, Embed])


def digits():
    Batch, Rows, Cols, Hidden, Classes = ml.dims(batch=100, rows=28, cols=28, hidden=1024, classes=10)

    def logits(w, x):
        return ml.dot(ml.relu(ml.dot(x, w["w1"], "rows", "cols")), w["w2"], "hidden")

    weights = {"w1": ml.f32[Rows, Cols, Hidden], "w2": ml.f32[Hidden, Classes]}
    return ml.trace(logits, weights, ml.f32[Batch, Rows, Cols])


def layer():
    """A layer of a transformer, forward."""
    Batch, Seq, Embed, Heads, Head, Ffn = ml.dims(batch=8, seq=16, embed=32, heads=8, head=4, ffn=64)

    def forward(w, x):
        q, k, v = (ml.dot(x, w[name], "embed") for name in "qkv")
        weights = ml.softmax(ml.dot(q, k.rename(seq="kv"), "head"), "kv")
        x = x + ml.dot(ml.dot(weights, v.rename(seq="kv"), "kv"), w["o"], "heads", "head")
        return x + ml.dot(ml.relu(ml.dot(x, w["up"], "embed")), w["down"], "ffn")

    w = {name: ml.f32[Embed, Heads, Head] for name in "qkv"} | {"o": ml.f32[Heads, Head, Embed]}
    return ml.trace(forward, w | {"up": ml.f32[Embed, Ffn], "down": ml.f32[Ffn, Embed]}, ml.f32[Batch, Seq, Embed])


def adam():
    """7 billion parameters in bfloat16, their master copy and two moments in float32."""
    Batch, Embed, Ffn = ml.dims(batch=8, embed=8000, ffn=875_000)

    def step(params, state, x):
        def loss(w):
            return ml.square(ml.dot(x, w, "embed")).mean().astype(jnp.float32)

        g = jax.grad(loss)(params).astype(jnp.float32)
        m, v = 0.9 * state["m"] + 0.1 * g, 0.99 * state["v"] + 0.01 * g * g
        master = state["master"] - 1e-3 * m / (ml.sqrt(v) + 1e-8)
        return master.astype(jnp.bfloat16), {"master": master, "m": m, "v": v}

    f = ml.f32[Embed, Ffn]
    return ml.trace(step, ml.bf16[Embed, Ffn], {"master": f, "m": f, "v": f}, ml.bf16[Batch, Embed])


def turned():
    rows, columns = ml.dims(i=64, j=64)
    return ml.trace(lambda a: ml.tag(a * 2.0, "middle") + 1.0, ml.f32[rows, columns])


XY = ml.mesh(x=2, y=2)
PUZZLES = (
    Puzzle(
        "nothing sent",
        perceptron,
        XY,
        ml.goal(sends=0),
        "batch:x+y",
        ("batch:x", "batch:x hidden:y", "embed:x hidden:y", None),
    ),
    Puzzle(
        "one sum, batch whole",
        perceptron,
        XY,
        ml.goal(keeps={"batch": None}, collectives={"all-reduce": 1, "*": 1}),
        "hidden:x+y",
        ("batch:x", "batch:x hidden:y", None),
    ),
    Puzzle(
        "less is added up",
        digits,
        XY,
        ml.goal(keeps={"batch": None}, sends=6000),
        "hidden:x+y",
        ("batch:x hidden:y", "rows:x hidden:y", "hidden:y"),
    ),
    Puzzle(
        "Megatron's two sums",
        layer,
        ml.mesh(x=2, y=4),
        ml.goal(collectives={"all-reduce over y": 2, "*": 2}),
        "batch:x heads:y ffn:y",
        ("batch:x heads:y", "batch:x+y", "batch:x seq:y", "batch:x embed:y"),
    ),
    Puzzle(
        "ZeRO-3",
        adam,
        ml.mesh("h100", data=8),
        ml.goal(keeps={"batch": "data"}, stores="14 GB", sends="24.6 GB"),
        {"batch": "data", "params": {"ffn": "data"}, "state/*": {"ffn": "data"}},
        ("batch:data", "embed:data", {"batch": "data", "state/*": {"ffn": "data"}}),
    ),
    Puzzle(
        "turn a matrix",
        turned,
        ml.mesh(y=4),
        ml.goal(busy=False, stored={"a": "i:y", "out": "j:y"}, sends=3072),
        {"a": {"i": "y"}, "out": {"j": "y"}},
        ("i:y", "j:y"),
    ),
)
