"""What steps read and make, and what of it is ever in memory."""

from typing import Any

import jax
import jax.numpy as jnp
import pytest

import meshlab as ml
from meshlab.cost.step_time.fusion import fuse
from meshlab.engine.planning.step_keys import keys
from meshlab.engine.planning.steps import Nested

Batch, Hidden, Out = ml.dims(batch=8, hidden=16, out=4)


def planned(fn, *arguments, layout="batch:x", devices=2):
    plan = ml.trace(fn, *arguments).plan(ml.mesh(x=devices), layout)
    program = plan.program
    outputs = keys(program.code.block.outputs, plan.output_specs, program.original_of)
    return plan, fuse(plan.steps, outputs, program.original_of)


def named(steps) -> dict[str, Any]:
    return {step.via.kind.name if hasattr(step, "via") else step.operation.name: step for step in steps}


def numbers(numbers_of):
    return [key[0] for key in numbers_of]


def test_a_cheap_value_that_only_additions_read_is_never_stored():
    def fn(x, y):
        doubled = x * 2.0
        return doubled + y, doubled - y

    plan, fusion = planned(fn, ml.f32[Batch, Hidden], ml.f32[Batch, Hidden])
    steps = named(plan.steps)
    x, y = (a.value for a in plan.program.arguments)
    assert len(fusion.virtual) == 1
    assert fusion.loads(steps["mul"]) == fusion.stores(steps["mul"]) == ()
    assert set(numbers(fusion.loads(steps["add"]))) == {x, y}
    assert fusion.stores(steps["add"]) == steps["add"].makes(plan.program.original_of)


def test_an_exponential_that_is_read_twice_is_stored_once():
    def fn(x, y):
        raised = ml.exp(x)
        return raised + y, raised - y

    plan, fusion = planned(fn, ml.f32[Batch, Hidden], ml.f32[Batch, Hidden])
    steps = named(plan.steps)
    assert not fusion.virtual
    assert fusion.stores(steps["exp"]) == steps["exp"].makes(plan.program.original_of)


def test_an_exponential_that_is_read_once_is_computed_there():
    plan, fusion = planned(lambda x, y: ml.exp(x) + y, ml.f32[Batch, Hidden], ml.f32[Batch, Hidden])
    assert numbers(fusion.virtual) == [named(plan.steps)["exp"].operation.outputs[0]]


def test_products_read_from_memory():
    def fn(x, w):
        return ml.dot(ml.relu(x), w, Hidden)

    plan, fusion = planned(fn, ml.f32[Batch, Hidden], ml.f32[Hidden, Out])
    steps = named(plan.steps)
    assert fusion.stores(steps["max"]) == steps["max"].makes(plan.program.original_of)
    assert set(fusion.loads(steps["dot_general"])) == set(steps["dot_general"].reads(plan.program.original_of))


def test_collectives_read_from_memory_and_write_to_it():
    plan, fusion = planned(lambda x: (x * 2.0).sum(Batch) * 3.0, ml.f32[Batch, Hidden])
    steps = named(plan.steps)
    assert fusion.loads(steps["all-reduce"]) == steps["all-reduce"].reads(plan.program.original_of)
    assert fusion.stores(steps["all-reduce"]) == steps["all-reduce"].makes(plan.program.original_of)


def test_another_shape_is_the_same_bytes():
    def fn(x):
        return jnp.sin(jnp.reshape(x, (8, 4, 4)))

    named_x = ml.named(jax.ShapeDtypeStruct((8, 16), jnp.float32), "batch hidden")
    plan, fusion = planned(fn, named_x)
    steps = named(plan.steps)
    (alias, original) = next(iter(fusion.alias.items()))
    assert original[0] == plan.program.arguments[0].value
    assert alias == steps["reshape"].makes(plan.program.original_of)[0]
    assert fusion.loads(steps["sin"]) == (original,)


def test_a_step_with_blocks_reads_what_its_blocks_read_from_around_them():
    Square, Layers = ml.Dim("out", 16), ml.Dim("layers", 3)

    def fn(x, w, biases):
        def turn(carry, bias):
            return ml.dot(carry, w, Hidden).rename(out="hidden") + bias, None

        return ml.scan(turn, x, biases, Layers)[0]

    plan, _ = planned(fn, ml.f32[Batch, Hidden], ml.f32[Hidden, Square], ml.f32[Layers, Hidden])
    (loop,) = (step for step in plan.steps if isinstance(step, Nested))
    weight = plan.program.arguments[1].value
    assert weight in numbers(loop.reads(plan.program.original_of))


@pytest.mark.parametrize("layout", ["", "batch:x", "hidden:x"])
def test_everything_that_is_loaded_was_stored_or_is_an_argument(layout):
    def loss(w, x):
        return (ml.softmax(ml.dot(ml.gelu(x), w, Hidden), Out) ** 2).mean()

    plan, fusion = planned(
        lambda w, x: jax.value_and_grad(loss)(w, x), ml.f32[Hidden, Out], ml.f32[Batch, Hidden], layout=layout
    )
    known = {(value, spec) for value, spec in plan.argument_specs.items()}
    for step in plan.steps:
        assert set(fusion.loads(step)) <= known
        known.update(fusion.stores(step))
