"""Experts that are written with sorts and ragged matmuls: made operations where a layout asks, and only there."""

from __future__ import annotations

from collections import Counter
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import meshlab as ml
from meshlab.engine.dropless.rows import found
from meshlab.engine.legality.asked import as_asked
from meshlab.engine.specs.layout import Layout
from tests.engine.dropless import spellings
from tests.engine.dropless.spellings import LAYERS, B, D, E, K, S, drawn, plain_step, step, traced

pytestmark = pytest.mark.share(3, of="file")

OWN = {"send_experts", "collect_experts", "ragged_experts", "ragged_experts_grad", "route_experts"}
EVERY = pytest.mark.parametrize("layer", LAYERS.values(), ids=LAYERS)


def close(one: Any, other: Any, tolerance: float):
    for mine, right in zip(jax.tree.leaves(one), jax.tree.leaves(other), strict=True):
        theirs = np.asarray(right, np.float64)
        assert np.abs(np.asarray(mine, np.float64) - theirs).max() <= tolerance * (1 + np.abs(theirs).max())


def rows_sent(plan: ml.Plan) -> dict[Any, int]:
    """How often rows with an axis of their own are sent, and what else is, by kind and axes."""
    sent = Counter()
    for c in plan.collectives:
        if c.shape and c.kind == "all-to-all":
            sent["rows" if c.shape[2:] == (D,) else "numbers"] += c.times
        elif c.shape:
            sent[c.kind, *c.axes] += c.times
    return dict(sent)


@EVERY
def test_tokens_are_sent_to_their_experts_and_back(layer):
    """Two all-to-alls of rows there and two back, as of `ml.dispatch`; nothing else but the router's gradient."""
    plan = traced(layer).plan(ml.mesh(data=4), "batch:data experts:data")
    # Where rows are weighed in their own order the weights are sent too, and their gradient.
    numbers = 3 if layer is spellings.added else 1
    assert rows_sent(plan) == {"rows": 4, "numbers": numbers, ("all-reduce", "data"): 1}
    assert plan.work.share == pytest.approx(1 / 4)
    report = plan.check(*drawn(layer))
    assert report.ok, report


@EVERY
def test_results_are_those_of_all_experts_on_all_tokens(layer):
    """Descent in float32 to 1e-6: nothing is dropped, though most tokens choose one expert."""
    w, x = drawn(layer)
    right = jax.jit(plain_step(layer))(w, x)
    close(jax.jit(step(layer))(w, x), right, 1e-6)
    close(traced(layer).plan(ml.mesh(data=4), "batch:data experts:data").run(w, x), right, 1e-6)


def test_results_in_float64():
    with jax.enable_x64(True):
        for layer in (spellings.twice_sorted, spellings.added):
            w, x = drawn(layer, np.float64)
            plan = traced(layer, dtype=np.float64).plan(ml.mesh(data=8), "batch:data experts:data")
            close(plan.run(w, x), jax.jit(plain_step(layer))(w, x), 1e-12)


@pytest.mark.parametrize(
    ("mesh", "layout"),
    [
        (ml.mesh(data=2, ep=2), "batch:data+ep experts:ep"),
        (ml.mesh(data=2, tp=2), "batch:data experts:data ffn:tp"),
        (ml.mesh(data=2, micro=ml.serial(2)), "batch:data+micro experts:data"),
        (ml.mesh(data=2, tp=2), {"batch": "data", "experts": "data", "w/router": {"embed": "tp"}}),
    ],
    ids=str,
)
def test_beside_other_parallelism(mesh, layout):
    layer = spellings.twice_sorted
    plan = traced(layer).plan(mesh, layout)
    assert rows_sent(plan)["rows"] == (8 if mesh.in_time else 4)
    report = plan.check(*drawn(layer))
    assert report.ok, report


@pytest.mark.parametrize("scan", [False, True], ids=["unrolled", "scanned"])
def test_layers_of_a_model_that_are_computed_again(scan):
    """Forward, again, and backward: two, two and two all-to-alls of rows a layer; the first one's tokens are given."""
    layer = spellings.twice_sorted

    @jax.checkpoint
    def one(x: Any, w: Any) -> Any:
        return x + layer(w, x)

    def loss(w: Any, x: Any) -> Any:
        if scan:
            x, _ = jax.lax.scan(lambda x, w: (one(x, w), None), x, w)
        else:
            for number in range(2):
                x = one(x, jax.tree.map(lambda each, number=number: each[number], w))
        return (x**2).mean()

    def train(w: Any, x: Any) -> Any:
        value, grads = jax.value_and_grad(loss)(w, x)
        return value, jax.tree.map(lambda a, g: a - 0.1 * g, w, grads)

    like = {name: jax.ShapeDtypeStruct((2, *shape), np.float32) for name, shape in spellings.SHAPES.items()}
    w = {name: ml.named(each, f"layers {spellings.DIMS[name]}") for name, each in like.items()}
    tokens = ml.named(jax.ShapeDtypeStruct((B, S, D), np.float32), "batch seq embed")
    plan = ml.trace(train, w, tokens).plan(ml.mesh(data=4), "batch:data experts:data")
    assert rows_sent(plan)["rows"] == 2 * 6 - (not scan)
    report = plan.check()
    assert report.ok, report


@EVERY
def test_no_other_layout_changes_a_program(layer):
    program = traced(layer)
    for layout in (
        "",
        "batch:a",
        "experts:a",
        "batch:a experts:b",
        "ffn:a embed:b",
        {"batch": "a", "w/*": {"embed": "a"}},
    ):
        assert as_asked(program, ml.mesh(a=2, b=2), Layout.of(layout)) is program
    asked = as_asked(program, ml.mesh(a=2, b=2), Layout.of("batch:a experts:a"))
    assert {op.name for op in asked.code.block.operations} & OWN == OWN
    assert asked.dims == program.dims
    # Experts that are on two axes may all choose one device: there are as many places for each choice.
    both = as_asked(program, ml.mesh(a=2, b=2), Layout.of("batch:a experts:a+b"))
    factors = [
        op.params["how"].factor for p in (asked, both) for op in p.code.block.operations if op.name == "route_experts"
    ]
    assert factors == [2, 4]


def test_a_preset_knows_them():
    program, mesh = traced(spellings.repeated), ml.mesh(data=4)
    assert str(ml.layouts.expert_parallel(program, mesh, transport="dropless")) == "batch:data experts:data"
    with pytest.raises(ml.LayoutError, match="is for programs with ml.dispatch, and this one has none"):
        ml.layouts.expert_parallel(program, mesh, transport="gathered")


def test_names_that_were_changed_stay_changed():
    program = traced(spellings.twice_sorted).rename({"experts": "networks", "batch": "lines"})
    plan = program.plan(ml.mesh(data=4), "lines:data networks:data")
    assert rows_sent(plan)["rows"] == 4
    with pytest.raises(ml.LayoutError, match="networks"):
        program.plan(ml.mesh(data=3), "lines:data networks:data")


def ordered(w, x, between):
    """A layer in which something is done with rows, or with how many there are for each expert."""
    weights, choice = spellings.routed(w, x)
    flat = choice.reshape(-1)
    order = jnp.argsort(flat)
    rows = jnp.take(x.reshape(-1, D), order // K, axis=0)
    sizes = jnp.bincount(flat, length=E)
    rows, sizes = between(rows, sizes, flat[order])
    y = spellings.multiplied(w, rows, sizes)
    y = jnp.take(y, jnp.argsort(order), axis=0).reshape(B, S, K, D)
    return jnp.einsum("bskd,bsk->bsd", y, weights)


@pytest.mark.parametrize(
    "between",
    [
        pytest.param(lambda rows, sizes, ids: (jnp.cumsum(rows, 0), sizes), id="a sum over rows before"),
        pytest.param(lambda rows, sizes, ids: (rows - rows.mean(0), sizes), id="a mean of all rows"),
        pytest.param(lambda rows, sizes, ids: (rows * jnp.arange(B * S * K)[:, None], sizes), id="the place of a row"),
        pytest.param(lambda rows, sizes, ids: (rows[::-1], sizes), id="another order"),
        pytest.param(lambda rows, sizes, ids: (rows, sizes[::-1]), id="other experts' numbers"),
        pytest.param(lambda rows, sizes, ids: (rows, sizes // 2), id="fewer rows"),
    ],
)
def test_what_needs_the_order_of_rows_stays_as_it_is(between):
    """And is refused with its line, as it was."""
    program = traced(spellings.twice_sorted, lambda w, x: ordered(w, x, between))
    assert found(program.unmerged) == []
    with pytest.raises(ml.LayoutError, match=r"`batch` and `experts` cannot both be on `data`.*ragged_dot_general"):
        program.plan(ml.mesh(data=2), "batch:data experts:data")


def test_what_computes_each_row_by_itself_is_taken_over():
    def between(rows, sizes, ids):
        first, second = jnp.split(rows, 2, axis=1)
        rows = jnp.concatenate([first * 2, jnp.maximum(second, 0.1)], axis=1)
        rows = rows * (1 + ids[:, None]).astype(rows.dtype)  # each expert's rows by its number
        return (rows - rows.max(-1, keepdims=True)) * jnp.linspace(0.5, 1, D), sizes

    layer = spellings.twice_sorted
    program = traced(layer, lambda w, x: ordered(w, x, between))
    assert len(found(program.unmerged)) == 1
    plan = program.plan(ml.mesh(data=4), "batch:data experts:data")
    w, x = drawn(layer)
    assert plan.check(w, x).ok
    close(plan.run(w, x), ordered(w, x, between), 1e-6)
