"""The first value that a plan has wrong is found: in its line, its iteration, on its devices; rounding is none."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import meshlab as ml
from meshlab.engine.inside.first_difference import between, first_difference
from meshlab.engine.verifying.random_layouts import draw
from meshlab.models.zoo import models
from tests import share
from tests.engine.inside import test_find_nan
from tests.engine.inside.planted import NONE, Planting, planted, with_switch
from tests.engine.pipelines import stacks

pytestmark = pytest.mark.share(2, of="file")

MODELS = {model.name: model for model in models()}
MESH = ml.mesh(data=2, model=2)


@pytest.fixture(scope="module")
def plans():
    program = with_switch(test_find_nan.step, (test_find_nan.SHAPES, ml.f32[test_find_nan.Batch, test_find_nan.Embed]))
    plan = program.plan(MESH, "batch:data hidden:model")
    return plan, program.plan(ml.mesh(data=1), ""), planted(plan, test_find_nan.data())


def fault(plans, kind, label, made_by):
    """The number of a fault of a kind in a value."""
    plan, _, faults = plans
    return next(
        (number, fault)
        for number, fault in faults.items()
        if fault.kind == kind
        and plan.program.value(fault.tap.number).label == label
        and fault.tap.step.title == made_by
    )


def found(plans, number) -> Any:
    plan, right, _ = plans
    return first_difference(plan, right, (np.int32(number), *test_find_nan.data()), Planting)


def test_a_result_that_is_a_little_wrong_is_found_on_its_device(plans):
    number, planted_fault = fault(plans, "scaled", "hidden", "max")
    difference = found(plans, number)
    assert difference.source.code.startswith("hidden = ml.relu(")
    assert (difference.iterations, difference.devices, difference.moved) == ((0,), (planted_fault.device,), False)
    assert 1e-3 < difference.error < 1e-2
    assert 0 < difference.most < 0.1
    assert f"in iteration 0 of 4, on device {planted_fault.device}: off by 0.00" in str(difference)


def test_a_wrong_move_is_told_from_a_wrong_value(plans):
    faults = [
        number for number, each in plans[2].items() if each.kind == "scaled" and each.tap.step.title == "all-reduce"
    ]
    difference = found(plans, faults[0])
    assert difference.moved
    assert "(all-reduce over " in str(difference)
    assert str(difference).endswith("It was right before this move.")


def test_nothing_differs_where_nothing_is_wrong(plans):
    assert found(plans, NONE) is None


def test_a_plan_is_compared_with_the_function_or_another_plan():
    program = ml.trace(test_find_nan.step, test_find_nan.SHAPES, ml.f32[test_find_nan.Batch, test_find_nan.Embed])
    plan = program.plan(MESH, "batch:data hidden:model")
    assert plan.first_difference(test_find_nan.step, *test_find_nan.data()) is None
    assert plan.first_difference(test_find_nan.step) is None  # of data that is drawn
    assert plan.first_difference(program.plan(ml.mesh(data=4), "batch:data"), *test_find_nan.data()) is None
    function: Any = jnp.sin
    another = ml.trace(ml.sin, ml.f32[test_find_nan.Batch]).plan(MESH, "")
    for other, message in (
        (function, r"was given <.* to compare with; it takes another plan .*, or the function that was traced, step\."),
        (another, r"was given a plan of another program: plan both"),
    ):
        with pytest.raises(ml.RunError, match=rf"first_difference\(\) {message}"):
            plan.first_difference(other, *test_find_nan.data())


def test_stages_with_different_numbers_of_layers_have_it_on_their_devices():
    """Parts of two layers and of three: where one begins does not follow from how long it is."""
    shapes = stacks.named(layers=5)
    args, program = stacks.data(shapes), with_switch(stacks.descent(stacks.plain), shapes)
    mesh = ml.mesh(pipe=ml.stages(2, layers=(2, 3)), micro=ml.serial(4))
    plan, right = program.plan(mesh, "batch:micro layers:pipe"), program.plan(ml.mesh(data=1), "")
    assert first_difference(plan, right, (np.int32(NONE), *args), Planting) is None
    weights = {"out/1/1/w", "out/1/1/b"}
    for number, each in planted(plan, args).items():
        place = plan.program.value(each.tap.number).place
        if each.kind == "scaled" and place in weights:
            difference: Any = first_difference(plan, right, (np.int32(number), *args), Planting)
            assert (difference.value.place, difference.devices) == (place, (each.device,))
            weights.remove(place)
    assert not weights


@pytest.mark.share(32)
@pytest.mark.parametrize("name", MODELS)
def test_no_layout_of_a_model_differs_by_more_than_rounding(name):
    program, args = MODELS[name].trace(), MODELS[name].data(0)
    ((mesh, layout),) = draw(program, seed=share.number(), count=1)
    right = program.plan(ml.mesh(data=1), "")
    assert between(program.plan(mesh, layout), right, args) is None, f"{layout} on {mesh}"
    jax.clear_caches()
