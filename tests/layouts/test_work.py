"""Data parallelism leaves each device its part of the work: what is made of the batch goes with it."""

import jax
import pytest

import meshlab as ml
from meshlab.models.published import published
from meshlab.models.zoo import imported_models, models

LAYOUTS = ml.layouts
MODELS = {model.name: model for model in (*models(), *imported_models())}
TRAINED = [name for name, model in MODELS.items() if model.name.endswith(("sgd", "adamw", "adafactor", "bfloat16"))]
TRAINED += [model.name for model in imported_models()]
PRESETS = (LAYOUTS.data_parallel, LAYOUTS.fsdp)


@pytest.mark.share(8)
@pytest.mark.parametrize("name", TRAINED)
def test_a_device_does_its_part_of_every_train_step(name):
    program = MODELS[name].trace()
    for count in (2, 4):
        mesh = ml.mesh(data=count)
        for preset in PRESETS:
            assert program.plan(mesh, preset(program, mesh)).work.share == pytest.approx(1 / count), preset.__name__


@pytest.mark.parametrize("preset", PRESETS)
def test_a_device_does_its_part_of_mixtral(preset):
    program, mesh = published()["mixtral-8x7b"].trace(), ml.mesh("h100:8x8", data=8, model=8)
    plan = program.plan(mesh, preset(program, mesh))
    assert plan.layout.rules["groups"] == ("data",)
    assert plan.work.share == pytest.approx(1 / 8)


def test_hybrid_sharding_has_the_groups_on_both_axes():
    program, mesh = MODELS["moe_sgd"].trace(), ml.mesh(replica=2, data=2)
    assert dict(LAYOUTS.hsdp(program, mesh).rules) == dict.fromkeys(("batch", "groups"), ("replica", "data"))


def test_what_is_merged_of_the_batch_goes_with_it():
    Batch, Seq, Embed, Ffn = ml.dims(batch=8, seq=4, embed=16, ffn=32)

    def loss(w, x):
        tokens = ml.merge(x, ("batch", "seq"), "tokens")
        hidden = ml.relu(ml.dot(tokens, w["up"], "embed"))
        return ml.square(ml.unmerge(ml.dot(hidden, w["down"], "ffn"), "tokens", (Batch, Seq))).mean()

    def step(w, x):
        return jax.tree.map(lambda a, b: a - 0.1 * b, w, jax.grad(loss)(w, x))

    program = ml.trace(step, {"up": ml.f32[Embed, Ffn], "down": ml.f32[Ffn, Embed]}, ml.f32[Batch, Seq, Embed])
    layout = LAYOUTS.data_parallel(program, ml.mesh(data=4))
    assert layout == ml.Layout.of("batch:data tokens:data")
    plan = program.plan(ml.mesh(data=4), layout)
    assert plan.work.share == 1 / 4
    assert plan.check().ok


def test_groups_leave_the_axis_to_experts():
    """Both orders give GShard's layout, in which tokens go to their experts; so does the board, in both orders."""
    program, mesh = MODELS["moe_sgd"].trace(), ml.mesh(data=4)
    data, experts = LAYOUTS.data_parallel(program, mesh), LAYOUTS.expert_parallel(program, mesh)
    assert data == ml.Layout.of("batch:data groups:data")
    with pytest.raises(ml.LayoutError, match="`experts` and `groups` cannot both be on `data`"):
        program.plan(mesh, data & experts)
    both = ml.Layout.of("batch:data experts:data")
    assert LAYOUTS.data_parallel(program, mesh, beside=experts) == both
    assert LAYOUTS.expert_parallel(program, mesh, beside=data) == both
    for first, second in ((data, "expert_parallel"), (experts, "data_parallel")):
        explorer = ml.explore(program, mesh, first)
        assert explorer.preset(second, combine=True)
        assert explorer.layout == both
    assert program.plan(mesh, both).work.share == pytest.approx(1 / 4)


def test_no_sequence_is_split_that_parameters_are_contracted_with():
    program = MODELS["digits"].trace()
    with pytest.raises(ml.LayoutError, match=r"`rows` is not a sequence: .* with a parameter at digits\.py:\d+\. Name"):
        LAYOUTS.context_parallel(program, ml.mesh(context=2))
    assert LAYOUTS.context_parallel(program, ml.mesh(context=2), seq="rows") == ml.Layout.of("rows:context")
