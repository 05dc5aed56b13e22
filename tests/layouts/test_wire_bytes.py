"""Presets send what the literature says, to the byte, and as compiled.

P are the parameters' bytes, R = 7/8 P what a ring of 8 sends for a reduce-scatter or an all-gather of all of them; the
formulas are those of tests/engine/verifying/test_literature.py.
"""

import pytest

import meshlab as ml
from meshlab.models.basic import mlp
from meshlab.models.language import moe, transformer
from meshlab.models.parts import training
from meshlab.models.parts.initial import shapes
from meshlab.models.zoo import imported_models, models
from tests.engine.verifying.test_literature import LAYERS, MESH, RESIDUAL, TEXT, big, bytes_of, check, traced

pytestmark = pytest.mark.share(2, of="file")

MODELS = {model.name: model for model in (*models(), *imported_models())}


@pytest.fixture(scope="module")
def block():
    return traced(mlp.block_loss, mlp.init_block, mlp.block_inputs, mlp.Block())


@pytest.fixture(scope="module")
def text():
    return traced(transformer.loss, transformer.init, transformer.inputs, TEXT)


@pytest.mark.parametrize(
    ("preset", "expected"),
    [
        (ml.layouts.data_parallel, {"all-reduce": 2}),
        (ml.layouts.zero1, {"reduce-scatter": 1, "all-gather": 1}),
        (ml.layouts.zero2, {"reduce-scatter": 1, "all-gather": 1}),
        (ml.layouts.fsdp, {"reduce-scatter": 1, "all-gather": 1}),
    ],
)
def test_data_parallelism_of_an_mlp(block, preset, expected):
    program, params = block
    plan = program.plan(MESH, preset(program, MESH))
    sums, scalars = big(plan)
    assert sums == {kind: times * bytes_of(params) * 7 / 8 for kind, times in expected.items()}
    assert scalars <= 14
    check(plan)


@pytest.mark.share(5)
@pytest.mark.parametrize(
    ("preset", "expected"),
    [
        (ml.layouts.data_parallel, {"all-reduce": (2, 2)}),
        (ml.layouts.zero1, {"reduce-scatter": (1, 1), "all-gather": (1, 1)}),
        (ml.layouts.zero2, {"reduce-scatter": (1, 1), "all-gather": (1, 1)}),
        # What is scanned under a checkpoint is gathered again for the backward pass.
        (ml.layouts.fsdp, {"reduce-scatter": (1, 1), "all-gather": (1, 2)}),
    ],
)
def test_data_parallelism_of_a_transformer(text, preset, expected):
    program, params = text
    outside = bytes_of([params["embedding"], params["norm"]])
    layers = bytes_of(params["layers"])
    plan = program.plan(MESH, preset(program, MESH))
    sums, scalars = big(plan)
    assert sums == {kind: (once * outside + again * layers) * 7 / 8 for kind, (once, again) in expected.items()}
    assert scalars <= 14
    check(plan)


def test_tensor_parallelism_is_megatrons(text):
    program, _ = text
    alone = program.plan(MESH, ml.layouts.tensor_parallel(program, MESH, dims="heads ffn"))
    # Two all-reduces forward and two backward a layer, and the one of attention again when it is recomputed.
    assert big(alone)[0] == {"all-reduce": (2 + 2 + 1) * 2 * RESIDUAL * LAYERS}
    layout = ml.layouts.tensor_parallel(program, MESH)
    assert dict(layout.rules) == {"ffn": ("x",), "heads": ("x",), "vocab": ("x",)}
    plan = program.plan(MESH, layout)
    # Beside them the lookup in the embedding and the gradient of what the logits are computed of, and three numbers a
    # token of the cross-entropy: the maximum, the sum, and the target's logit.
    tokens = TEXT.batch * TEXT.seq * 4 * 2 * 7 / 8
    assert big(plan)[0] == {"all-reduce": (2 + 2 + 1) * 2 * RESIDUAL * LAYERS + 2 * 2 * RESIDUAL + 3 * tokens}
    check(plan)


def test_sequence_parallelism_sends_as_much_in_two_halves(text):
    program, params = text
    plan = program.plan(MESH, ml.layouts.sequence_parallel(program, MESH))
    sums, _ = big(plan)
    # As of tensor parallelism alone; the two all-reduces outside the layers are halved as well.
    assert sums["reduce-scatter"] == (2 + 2 + 1) * RESIDUAL * LAYERS + 2 * RESIDUAL
    assert sums["all-gather"] == (2 + 2 + 2) * RESIDUAL * LAYERS + 2 * RESIDUAL
    norms = bytes_of([params["layers"]["attention_norm"], params["layers"]["ffn_norm"], params["norm"]]) * 2 * 7 / 8
    tokens = TEXT.batch * TEXT.seq * 4 * 2 * 7 / 8
    assert sums["all-reduce"] == norms + 3 * tokens
    check(plan)


def test_fully_sharded_beside_tensor_parallel_gathers_parts_alone(text):
    """On data=4, model=2 each device gathers its half of what tensor parallelism splits, over `data`."""
    program, params = text
    mesh = ml.mesh(data=4, model=2)
    plan = program.plan(mesh, ml.layouts.fsdp(program, mesh) & ml.layouts.tensor_parallel(program, mesh))
    norms = {"attention_norm", "ffn_norm"}
    layers = params["layers"]
    parts = bytes_of([w for name, w in layers.items() if name not in norms]) / 2
    parts += bytes_of([layers[name] for name in norms])
    gathered = sum(c.wire_bytes * c.times for c in plan.collectives if c.kind == "all-gather" and c.axes == ("data",))
    assert gathered == (2 * parts + bytes_of(params["embedding"]) / 2 + bytes_of(params["norm"])) * 3 / 4
    assert {c.axes for c in plan.collectives} <= {("data",), ("model",), ("data", "model"), ("model", "data")}
    check(plan)


def test_experts_on_the_data_axis_are_reached_by_all_to_alls():
    config = moe.Config()
    program = ml.trace(training.sgd_step(moe.loss), shapes(moe.init, config), *moe.inputs(config))
    mesh = ml.mesh(data=4)
    layout = ml.layouts.data_parallel(program, mesh, beside=ml.layouts.expert_parallel(program, mesh))
    plan = program.plan(mesh, layout)
    sent = [(c.payload_bytes, c.times) for c in plan.collectives if c.kind == "all-to-all"]
    # Dispatch and combine in each layer: forward, recomputed, and backward.
    room = config.batch * config.experts * program.dims["capacity"] * config.embed * 4
    assert sent == [(room // 4, config.layers)] * (2 + 2 + 2)
    check(plan)


def test_experts_stay_where_they_are_beside_fully_sharded_parameters():
    program = MODELS["moe_sgd"].trace()
    mesh = ml.mesh(data=4)
    experts = ml.layouts.expert_parallel(program, mesh)
    with pytest.raises(ml.LayoutError, match=r"`experts` and `ffn` cannot both be on `data`"):
        program.plan(mesh, ml.layouts.fsdp(program, mesh) & experts)
    layout = ml.layouts.fsdp(program, mesh, beside=experts)
    assert layout == layout & experts
    assert dict(layout.places["params/layers/up"]) == {"experts": ("data",)}
    plan = program.plan(mesh, layout)
    assert not any(c.kind == "all-gather" and "experts" in c.dims for c in plan.collectives)
    check(plan)


@pytest.mark.share(8)
@pytest.mark.parametrize("name", ["plain_gpt", "linen_encoder", "equinox_decoder"])
def test_foreign_models_are_laid_out_as_they_are(name):
    """Predicted is compiled: plain JAX, Flax and Equinox, whose names were given by globs."""
    model = MODELS[name]
    program, mesh = model.trace(), ml.mesh(data=2, model=2)
    layout = ml.layouts.fsdp(program, mesh) & ml.layouts.tensor_parallel(program, mesh)
    report = program.plan(mesh, layout).check(*model.data(0))
    assert report.ok, report


def test_state_that_nothing_tells_may_be_named():
    """A Flax `TrainState` is one argument: which of it is what follows from the program, or from globs."""
    program, mesh = MODELS["linen_encoder"].trace(), ml.mesh(x=2)
    said = ml.layouts.fsdp(program, mesh, params="state/params/*", state="state/opt_state/*")
    assert said == ml.layouts.fsdp(program, mesh)
    assert next(iter(said.places)) == "state/params/*"
    assert next(iter(ml.layouts.zero1(program, mesh).places)) == "state/opt_state/*"
