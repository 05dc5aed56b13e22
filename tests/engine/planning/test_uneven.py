"""A dim of fewer elements than devices: the refusal proposes an axis in two parts, and what takes the second."""

import pytest

import meshlab as ml
from meshlab.models.zoo import models

MODELS = {model.name: model for model in models()}


def refused(program, mesh, layout):
    with pytest.raises(ml.LayoutError) as caught:
        program.plan(mesh, layout)
    (problem,) = caught.value.problems
    return problem


def test_heads_of_keys_and_values_may_be_fewer_than_devices():
    program = MODELS["transformer_sgd"].trace()
    heads, group = program.dims["heads"], program.dims["group"]
    mesh = ml.mesh(data=2, model=heads * group)
    problem = refused(program, mesh, "batch:data heads:model")
    proposal = f"ml.mesh(data=2, model={heads}, rest={group}), with `heads:model group:rest`"
    assert proposal in problem.fix
    # What is proposed is legal, and does what was asked for: each device has one head of queries.
    plan = program.plan(ml.mesh(data=2, model=heads, rest=group), "batch:data heads:model group:rest")
    assert plan.spec("params/layers/query").splits[2:4] == (("model",), ("rest",))
    assert plan.spec("params/layers/key").splits[2] == ("model",)


def test_nothing_is_proposed_where_no_dim_could_take_the_rest():
    program = MODELS["gpt2"].trace()  # each head has its own keys
    heads = program.dims["heads"]
    assert "split the axis" not in refused(program, ml.mesh(model=2 * heads), "heads:model").fix
    transformer = MODELS["transformer"].trace()
    assert "split the axis" not in refused(transformer, ml.mesh(model=3), "heads:model").fix
    four = ml.mesh(x=2, y=transformer.dims["heads"])
    assert "split the axis" not in refused(transformer, four, "heads:x+y").fix
