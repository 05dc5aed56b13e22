"""The preset of pipelines finds stages, micro-batches and layers by their kinds, and goes with every other preset."""

import jax
import jax.numpy as jnp
import pytest

import meshlab as ml
from meshlab.layouts.by_name import PRESETS, together
from meshlab.layouts.naming import made
from meshlab.layouts.same_plan import same_plan
from meshlab.models.zoo import models
from meshlab.widgets.presets.buttons import presets_of
from tests.engine.pipelines import stacks

pytestmark = pytest.mark.share(2, of="file")

MODELS = {model.name: model for model in models()}
# No name says what an axis is.
MESH = ml.mesh(x=2, y=ml.stages(2, "1f1b"), z=ml.serial(4))
HOW = "PP over y (2 stages, 1f1b, 4 micro-batches)"


@pytest.fixture(scope="module")
def program():
    return MODELS["transformer_adamw"].trace()


def refused(program, mesh, **given):
    with pytest.raises(ml.LayoutError) as error:
        ml.layouts.pipeline_parallel(program, mesh, **given)
    return [str(problem) for problem in error.value.problems]


@pytest.mark.parametrize(
    ("preset", "name"),
    [
        ("data_parallel", "DP over x"),
        ("fsdp", "FSDP over x"),
        ("zero1", "ZeRO-1 over x"),
        ("zero2", "ZeRO-2 over x"),
        ("tensor_parallel", "TP over x"),
        ("sequence_parallel", "TP+SP over x"),
        ("context_parallel", "CP over x"),
    ],
)
def test_it_goes_with_every_other_preset(program, preset, name):
    other, pipeline = PRESETS[preset](program, MESH), ml.layouts.pipeline_parallel(program, MESH)
    assert pipeline.to_dict() == {"batch": "z", "layers": "y"}
    both = other & pipeline
    assert both == pipeline & other == together([PRESETS[preset], PRESETS["pipeline_parallel"]], program, MESH)
    assert both.rules["batch"] == (*other.rules.get("batch", ()), "z")
    found = ml.layouts.named(program, MESH, both)
    assert found is not None
    assert str(found) == f"{name} + {HOW}"
    assert same_plan(program, MESH, made(program, MESH, found.parts), both)


def test_what_it_makes_is_run_as_planned():
    mesh = ml.mesh(data=2, model=2, pipe=ml.stages(2), micro=ml.serial(2))
    program = MODELS["transformer_sgd"].trace()
    presets = [PRESETS[name] for name in ("fsdp", "tensor_parallel", "pipeline_parallel")]
    plan = program.plan(mesh, together(presets, program, mesh))
    report = plan.check()
    assert report.ok, report
    assert plan.schedule is not None
    assert plan.schedule.name == "paired"


@pytest.mark.parametrize("model", ["gemma_sgd", "moe_sgd", "gpt2_adamw"])
def test_the_dim_that_the_scan_steps_through_is_found(model):
    program = MODELS[model].trace()
    layout = ml.layouts.pipeline_parallel(program, MESH)
    (layers,) = (dim for dim, axes in layout.rules.items() if axes == ("y",))
    assert layers == ("pairs" if model == "gemma_sgd" else "layers")
    assert {dim for dim, axes in layout.rules.items() if axes == ("z",)} == (
        {"batch", "groups"} if model == "moe_sgd" else {"batch"}
    )
    assert str(ml.layouts.named(program, MESH, layout)) == HOW


def test_it_computes_what_axis_rules_store(program):
    """T5X and MaxText have a rule for `layers`, which is for storage alone."""
    rules = ml.layouts.from_axis_rules([("batch", "x"), ("layers", "y")], program, MESH)
    assert rules.rules.get("layers") is None
    both = rules & ml.layouts.pipeline_parallel(program, MESH)
    assert str(ml.layouts.named(program, MESH, both)) == f"DP over x + {HOW}"


def test_an_axis_of_stages_is_nothing_else(program):
    """Not even where it is the only one of the mesh, or is called as another preset's axis."""
    mesh = ml.mesh(model=ml.stages(2), micro=ml.serial(2))
    assert str(ml.layouts.pipeline_parallel(program, mesh)) == "batch:micro layers:model"
    told = r"Only layers can be on `model`: write ml\.mesh\(data=2, model=ml\.stages\(2\), micro=ml\.serial\(2\)\)"
    for preset in (ml.layouts.data_parallel, ml.layouts.tensor_parallel):
        with pytest.raises(ml.LayoutError, match=told):
            preset(program, mesh)
    with pytest.raises(ml.LayoutError, match="`batch` cannot be on `model`: its stages hold the layers of a scan"):
        ml.layouts.data_parallel(program, mesh, data="model")


def test_all_that_is_missing_is_said_at_once():
    scan = "No scan steps through a named dim of its weights. Put the layers in one jax.lax.scan over"
    first, second, third = refused(MODELS["mlp_sgd"].trace(), ml.mesh(data=2, pipe=4))
    assert first == "The mesh has no axis of stages. Add one: ml.mesh(data=2, pipe=ml.stages(4))."
    assert second == "The mesh has no serial axis. Add one: ml.mesh(data=2, pipe=4, micro=ml.serial(8))."
    assert third.startswith(scan)


def test_bad_arguments_are_named(program):
    mesh = ml.mesh(a=ml.stages(2), b=ml.stages(2), micro=ml.serial(2))
    assert refused(program, mesh) == ["The mesh has several axes of stages. Its axes of stages are `a`, `b`."]
    assert str(ml.layouts.pipeline_parallel(program, mesh, pipe="b")) == "batch:micro layers:b"
    problems = refused(program, MESH, pipe="z", micro=3, layers="seq vocab", batch="bach")
    assert problems == [
        "pipe='z' is not an axis of stages of the mesh. Its axes of stages are `y`.",
        "micro=3 is not a serial axis of the mesh. Its serial axes are `z`.",
        "batch='bach': 'bach' is not a dim of this program. Did you mean `batch`?",
        "layers='seq vocab': no scan steps through `seq`. Scans step through `layers`.",
        "layers='seq vocab': no scan steps through `vocab`. Scans step through `layers`.",
        "layers='seq vocab' names several dims. It must be one.",
    ]


def test_encoder_and_decoder_are_two_stacks():
    mesh = ml.mesh(x=2, y=ml.stages(2), z=ml.serial(4))
    layout = ml.layouts.pipeline_parallel(MODELS["t5_adafactor"].trace(), mesh)
    assert str(layout) == "batch:z layers:y"
    (problem,) = refused(MODELS["t5_adafactor"].trace(), MESH)
    assert "The schedule 1f1b has 1 chunk for each stage, and two stacks of layers need 2, one each." in problem


def test_a_step_that_cannot_be_cut_is_refused(program):
    (problem,) = refused(MODELS["transformer"].trace(), MESH, params="params/*")
    assert "and there are 1: `scan`" in problem
    problems = refused(program, ml.mesh(pipe=ml.stages(3), micro=ml.serial(3)))
    assert [problem.split(",")[0] for problem in problems] == ["`batch` has size 8", "`layers` has size 2"]


def test_layers_without_a_name():
    def step(params, x):
        def loss(params):
            h, _ = jax.lax.scan(lambda h, w: (h + jnp.tanh(h @ w), None), x, params)
            return jnp.square(h).mean()

        return params - jax.grad(loss)(params)

    x = ml.named(jax.ShapeDtypeStruct((8, 4), jnp.float32), "batch embed")
    weights = jax.ShapeDtypeStruct((4, 4, 4), jnp.float32)
    (problem,) = refused(ml.trace(step, weights, x), MESH)
    assert "No scan steps through a named dim" in problem
    assert "and name the first axis of these `layers`." in problem
    program = ml.trace(step, ml.named(weights, "layers _ _"), x)
    assert str(ml.layouts.pipeline_parallel(program, MESH)) == "batch:z layers:y"


def test_several_scans_over_weights():
    def loss(p, x, y):
        h, _ = jax.lax.scan(stacks.layer, x @ p["w_in"], {"w": p["w"], "b": p["b"]})
        for name in ("table", "w_in"):
            h, _ = jax.lax.scan(lambda h, w: (h * w[:4], None), h, p[name])
        return jnp.square(h @ p["w_out"] - y).mean()

    program = ml.trace(stacks.descent(loss), *stacks.named())
    (problem,) = refused(program, MESH)
    assert problem.startswith("Scans step through several dims of its weights: ")
    assert all(each in problem for each in ("`layers` (4)", "`words` (6)", "`rows` (3)"))
    assert ". Choose one of them, as in layers=" in problem
    assert str(ml.layouts.pipeline_parallel(program, MESH, layers="layers")) == "batch:z layers:y"


def test_the_board_has_a_button_for_it(program):
    board = ml.explore(program, MESH)
    assert board.toggle("accumulate")
    assert board.toggle("pipeline_parallel")
    assert board.name == HOW
    assert board.toggle("fsdp")
    assert board.name == f"FSDP over x + {HOW}"
    assert {part["name"]: part["note"] for part in board.view()["named"]["parts"]} == {
        "fsdp": "",
        "pipeline_parallel": "",
    }
    assert board.toggle("pipeline_parallel")
    assert board.name == "FSDP over x"
    (button,) = (each for each in presets_of(program, ml.mesh(data=2)) if each.name == "pipeline_parallel")
    assert button.why == "The mesh has no axis of stages."
    assert "pipeline_parallel" not in {each.name for each in presets_of(MODELS["mlp_sgd"].trace(), MESH)}
    two = ml.mesh(a=ml.stages(2), b=ml.stages(2), micro=ml.serial(2))
    (button,) = (each for each in presets_of(program, two) if each.name == "pipeline_parallel")
    assert button.choices == ("a", "b")
