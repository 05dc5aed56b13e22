"""Rows of experts stand in an order of each device's own: compared whatever their order, and never put together.

Data of 64 bits, in which only the order of additions differs.
"""

from typing import Any

import jax
import numpy as np
import pytest

import meshlab as ml
from meshlab.engine.code.operations import walk
from meshlab.engine.inside.first_difference import first_difference
from meshlab.engine.inside.own_order import own_order
from meshlab.engine.inside.where import made_by
from meshlab.engine.verifying.random_layouts import draw_in_turn
from meshlab.models.operation_models import operations
from meshlab.models.zoo import models
from tests import share
from tests.engine.dropless import spellings
from tests.engine.inside.planted import NONE, Planting, planted, with_switch
from tests.widened import widened

pytestmark = pytest.mark.share(2, of="file")

Batch, Seq, Embed, Ffn, Experts, K = ml.dims(batch=8, seq=4, embed=4, ffn=6, experts=4, k=2)
SHAPES = {
    "router": ml.f32[Embed, ml.Dim("routes", 4)],
    "up": ml.f32[Experts, Embed, Ffn],
    "down": ml.f32[Experts, Ffn, Embed],
}
X = ml.f32[Batch, Seq, Embed]
LAYOUTS: list[tuple[ml.Mesh, Any, bool]] = [
    (ml.mesh(data=4), "batch:data experts:data", False),
    (ml.mesh(data=2, model=2), "experts:data ffn:model", False),
    (ml.mesh(data=2, model=2), {"batch": "data", "experts": ["data", "model"]}, False),
    (ml.mesh(data=2, micro=ml.serial(2)), "batch:data+micro experts:data", False),
    (ml.mesh(x=3, y=2), {"seq": ["y", "x"]}, True),
    (ml.mesh(data=3), "batch:data", True),
    (ml.mesh(data=3), "experts:data", True),
]


def step(w, x):
    def loss(w):
        shares, choice = ml.top_k(ml.softmax(ml.dot(x, w["router"], Embed), "routes"), "routes", K)
        rows, sent = ml.dispatch(x, choice, Experts, factor=4.0)
        hidden = ml.silu(ml.ragged_dot(rows, w["up"], sent, Embed))
        made = ml.ragged_dot(hidden, w["down"], sent, Ffn)
        return ml.square(ml.combine(made, sent, shares)).mean() + 0.0 * sent.dropped

    value, slopes = jax.value_and_grad(loss)(w)
    return value, jax.tree.map(lambda w, slope: w - 0.1 * slope, w, slopes)


def data():
    rng = np.random.default_rng(0)
    return {name: rng.normal(size=each.shape) for name, each in SHAPES.items()}, rng.normal(size=X.shape)


@pytest.fixture(scope="module")
def program():
    with jax.enable_x64(True):
        return ml.trace(step, widened(SHAPES), widened(X))


def labels(program, of):
    return {program.value(number).label for number, order in own_order(program).items() if of(order)}


def test_rows_are_alike_and_what_is_made_of_their_numbers_is_not(program):
    alike, lost = labels(program, lambda order: order.alike), labels(program, lambda order: not order.alike)
    assert {"hidden", "made"} <= alike
    assert {program.value(n).dtype.kind for n, order in own_order(program).items() if not order.alike} <= set("ib")
    assert lost
    ordered = {program.value(number).place for number in own_order(program)}
    assert ordered == {None}  # neither arguments nor results: the weights of experts are in the experts' order


def test_programs_without_experts_have_none():
    assert not own_order(ml.trace(lambda x: x.sum(), X))


def test_experts_that_are_written_by_hand_have_rows_too():
    traced = spellings.traced(spellings.twice_sorted)
    assert not own_order(traced)
    plan = traced.plan(ml.mesh(data=4), "batch:data experts:data")
    ordered = own_order(plan.program)
    assert {plan.program.code.shapes[number][:2] for number in ordered} == {(8, 128)}
    assert {each.axes for each in ordered.values()} == {(0, 1)}


@pytest.mark.share(4)
@pytest.mark.parametrize(("mesh", "layout", "pad"), LAYOUTS, ids=str)
def test_no_layout_differs(program, mesh, layout, pad):
    with jax.enable_x64(True):
        plan = program.plan(mesh, layout, pad=pad)
        assert plan.first_difference(step, *data()) is None


# Five experts for five choices of a token: no place is empty.
FIVE, CHOICES = ml.dims(experts=5, choices=5)
PADDED: list[tuple[ml.Mesh, Any]] = [
    (ml.mesh(data=3), "experts:data"),
    (ml.mesh(data=3), {"rows": "data"}),
    (ml.mesh(x=3, y=2), {"batch": "x", "experts": "y"}),
]


def of_logarithms(w, x, choice):
    rows, sent = ml.dispatch(x, choice, FIVE, factor=1.0)
    hidden = ml.log(ml.ragged_dot(rows, w, sent, Embed))
    return ml.combine(hidden, sent).sum()


@pytest.mark.parametrize(("mesh", "layout"), PADDED, ids=str)
def test_no_row_stands_in_a_place_of_padding(mesh, layout):
    """The last device has fewer experts, or places, than the others: a NaN of any row is found in its own line."""
    shapes = ml.f32[FIVE, Embed, Ffn], ml.f32[Batch, Embed], ml.i32[Batch, CHOICES]
    plan = ml.trace(of_logarithms, *shapes).plan(mesh, layout, pad=True)
    made = [n for n, order in own_order(plan.program).items() if plan.program.value(n).label == "hidden"]
    assert any(step.made()[1][0].axes for step in plan.steps if step.made()[0][0] in made), "no device has a part"
    w, spread = np.ones((5, 4, 6), "f4"), np.arange(40, dtype=np.int32).reshape(8, 5) % 5
    for choice in (np.full_like(spread, 4), spread):
        assert plan.find_nan(w, np.ones((8, 4), "f4"), choice) is None
        for token in (0, 4, 7):
            x = np.ones((8, 4), "f4")
            x[token] = -1
            found = plan.find_nan(w, x, choice)
            assert found is not None
            assert (found.kind, found.value.label, found.place.made_by) == ("NaN", "hidden", "log"), (choice, token)


def test_a_wrong_row_of_experts_that_are_padded_is_found():
    with jax.enable_x64(True):
        rng = np.random.default_rng(0)
        args = rng.uniform(1, 2, (5, 4, 6)), rng.uniform(1, 2, (8, 4)), np.full((8, 5), 4, np.int32)
        shapes = *widened((ml.f32[FIVE, Embed, Ffn], ml.f32[Batch, Embed])), ml.i32[Batch, CHOICES]
        program = with_switch(of_logarithms, shapes)
        plan, right = program.plan(*PADDED[0], pad=True), program.plan(ml.mesh(data=1), "")
        number = next(
            number
            for number, fault in planted(plan, args).items()
            if (fault.kind, made_by(fault.tap)) == ("scaled", "log")
        )
        found: Any = first_difference(plan, right, (np.int32(number), *args), Planting)
        assert (found.value.label, found.place.made_by, found.moved) == ("hidden", "log", False)
        assert first_difference(plan, right, (np.int32(NONE), *args), Planting) is None


def test_numbers_of_rows_are_the_devices_own_inside_of_loops_too():
    """The backward pass reads them: they go through both scans."""
    Layers = ml.Dim("layers", 3)

    def train(w, x):
        def loss(w):
            def layer(x, w):
                shares, choice = ml.top_k(ml.softmax(ml.dot(x, w["router"], Embed), "routes"), "routes", K)
                rows, sent = ml.dispatch(x, choice, Experts, factor=4.0)
                made = ml.ragged_dot(ml.silu(ml.ragged_dot(rows, w["up"], sent, Embed)), w["down"], sent, Ffn)
                return x + ml.combine(made, sent, shares), None

            return ml.square(ml.scan(layer, x, w, Layers)[0]).mean()

        return jax.grad(loss)(w)

    program = ml.trace(train, {name: ml.f32[(Layers, *each.dims)] for name, each in SHAPES.items()}, X)
    operations = list(walk(program.code.block))
    there = {n for op in operations for n in (*op.outputs, *(n for block in op.blocks for n in block.inputs))}
    orders = {n: order.alike for n, order in own_order(program).items() if n in there}
    assert {n for n, alike in orders.items() if not alike} == {n for n in orders if program.value(n).dtype.kind == "i"}
    scans = [op for op in operations if op.name == "scan"]
    into = [n for op in scans for block in op.blocks for n in block.inputs if orders.get(n) is False]
    assert into, "the backward pass reads none"


def test_a_wrong_row_is_found_whatever_the_order():
    with jax.enable_x64(True):
        program = with_switch(step, (widened(SHAPES), widened(X)))
        plan, right = program.plan(*LAYOUTS[0][:2]), program.plan(ml.mesh(data=1), "")
        faults = planted(plan, data())
        number = next(
            number
            for number, fault in faults.items()
            if (fault.kind, program.value(fault.tap.number).label) == ("scaled", "made")
        )
        found: Any = first_difference(plan, right, (np.int32(number), *data()), Planting)
        assert (found.value.label, found.devices, found.most) == ("made", (), None)
        assert first_difference(plan, right, (np.int32(NONE), *data()), Planting) is None


def test_rows_have_no_whole_value_where_several_devices_have_them(program):
    with jax.enable_x64(True):
        plan = program.plan(ml.mesh(data=2, model=2), "batch:data experts:data ffn:model")
        seen = plan.watch(*data(), values=["hidden", "made"])
        one = program.plan(ml.mesh(data=2), "").watch(*data(), values=["hidden"])["hidden"]
    with pytest.raises(
        ml.RunError,
        match=r"has no whole: each device has `experts`, `rows` in an order of its own. Read `shards`, or watch what",
    ):
        seen["hidden"].whole  # noqa: B018
    with pytest.raises(ml.RunError, match="has no whole"):
        seen["made"].addends  # noqa: B018
    assert "in each device's own order" in repr(seen)
    shards = seen["hidden"].shards
    assert shards[0].shape == (2, 64, 3)
    halves = [np.concatenate([shards[device] for device in each]) for each in ((0, 2), (1, 3))]
    joined = np.concatenate(halves, axis=-1).reshape(-1, 6)
    expected = one.whole.reshape(-1, 6)
    np.testing.assert_allclose(sorted(joined.tolist()), sorted(expected.tolist()), atol=1e-12)


# Experts, rings and decoding, and of the zoo what compiles soon.
SOON = ("mlp", "digits", "two_layer", "block", "convnet", "moe", "state_space", "decoding")
EVERY = {model.name: model for model in (*operations(), *(model for model in models() if model.name in SOON))}


@pytest.mark.share(12)
@pytest.mark.parametrize("name", EVERY)
def test_no_model_differs_under_a_layout_that_is_right(name):
    """Each commit draws one: on a plain mesh, or with an axis in time, or padded."""
    model = EVERY[name]
    with jax.enable_x64(True):
        program, args = ml.trace(model.step, *widened(model.shapes)), widened(model.data(0))
        ((mesh, layout, pad),) = draw_in_turn(program, seed=share.number(), count=1)
        plan = program.plan(mesh, layout, pad=pad)
        assert plan.first_difference(model.step, *args) is None, f"{layout} on {mesh}, pad={pad}"
        assert plan.find_nan(*args) is None, f"{layout} on {mesh}, pad={pad}"
    jax.clear_caches()
