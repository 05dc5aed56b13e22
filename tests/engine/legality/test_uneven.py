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


@pytest.mark.parametrize(
    ("size", "mesh", "axes", "fits"),
    [
        (8, ml.mesh(data=2, micro=ml.serial(3)), "data+micro", (2, 4)),
        (12, ml.mesh(data=2, micro=ml.serial(4)), "data+micro", (3, 6)),
        (8, ml.mesh(micro=ml.serial(16)), "micro", (8,)),
        (7, ml.mesh(micro=ml.serial(2)), "micro", (7,)),
        (1, ml.mesh(micro=ml.serial(2)), "micro", ()),
        (7, ml.mesh(data=2, micro=ml.serial(2)), "data+micro", ()),  # the devices alone do not divide it
        (8, ml.mesh(data=3), "data", ()),
    ],
    ids=str,
)
def test_numbers_of_micro_batches_that_fit_are_proposed(size, mesh, axes, fits):
    Batch, Rows = ml.dims(batch=size, rows=4)
    program = ml.trace(lambda x: x * 2, ml.f32[Batch, Rows])
    problem = refused(program, mesh, f"batch:{axes}")
    proposed = [f"micro=ml.serial({n})" for n in fits]
    assert (f"; or {' or '.join(proposed)}; or plan with pad=True." in problem.fix) == bool(fits)
    assert ("ml.serial" in problem.fix) == bool(fits)
    for n in fits:
        assert program.plan(mesh.resized({"micro": n}), f"batch:{axes}").check().ok


def test_options_of_a_serial_axis_are_kept_in_what_is_proposed():
    program = ml.trace(lambda x: x * 2, ml.f32[ml.Dim("batch", 8)])
    problem = refused(program, ml.mesh(micro=ml.serial(3, reduce="each")), "batch:micro")
    assert 'or micro=ml.serial(2, reduce="each") or micro=ml.serial(4, reduce="each")' in problem.fix
