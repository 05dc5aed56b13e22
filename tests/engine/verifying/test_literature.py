"""The literature's parallelisms are layouts: their collectives come out to the byte, predicted and compiled.

With AdamW and clipping by the global norm, on an axis of 8. P are the parameters' bytes; R = 7/8 P is what a ring sends
for a reduce-scatter or an all-gather of all of them.
"""

import math

import jax
import pytest

import meshlab as ml
from meshlab.models.basic import mlp
from meshlab.models.language import transformer
from meshlab.models.parts import training
from meshlab.models.parts.initial import shapes
from tests.engine.small_programs import sent

MESH = ml.mesh(x=8)
LAYERS = 2
TEXT = transformer.Config(batch=8, seq=16, vocab=64, embed=32, heads=8, group=1, head=8, ffn=64, layers=LAYERS)
ZERO1 = {"batch": "x", "opt_state/*": {"embed": "x"}}
ZERO2 = ZERO1 | {"grads/*": {"embed": "x"}}
FSDP = ZERO1 | {"params/*": {"embed": "x"}}
TENSOR = {"heads": "x", "ffn": "x"}
SEQUENCE = TENSOR | {"residual": {"seq": "x"}}


def traced(loss, init, inputs, config):
    optimizer = training.adamw()
    params = shapes(init, config)
    state = jax.eval_shape(optimizer.init, params)
    return ml.trace(training.adamw_step(loss, optimizer), params, state, *inputs(config)), params


@pytest.fixture(scope="module")
def mlp_program():
    return traced(mlp.block_loss, mlp.init_block, mlp.block_inputs, mlp.Block())


@pytest.fixture(scope="module")
def text_program():
    return traced(transformer.loss, transformer.init, transformer.inputs, TEXT)


def bytes_of(tree):
    return sum(math.prod(leaf.shape) * 4 for leaf in jax.tree.leaves(tree))


def big(plan):
    """Wire bytes by kind, and apart those of the scalars of the loss and of clipping."""
    scalars = sum(c.wire_bytes * c.times for c in plan.collectives if c.payload_bytes <= 8)
    sums = sent(plan)
    if scalars:
        sums["all-reduce"] -= scalars
    return {k: v for k, v in sums.items() if v}, scalars


def check(plan):
    report = plan.check()
    assert report.ok, report


# A loss and a norm: 7 wire bytes each.
@pytest.mark.parametrize(
    ("layout", "expected"),
    [
        ("batch:x", {"all-reduce": 2}),
        (ZERO1, {"reduce-scatter": 1, "all-gather": 1}),
        (ZERO2, {"reduce-scatter": 1, "all-gather": 1}),
        # Not scanned: what is gathered for the forward pass is there for the backward pass.
        (FSDP, {"reduce-scatter": 1, "all-gather": 1}),
    ],
    ids=["data", "zero1", "zero2", "fsdp"],
)
def test_data_parallelism_of_an_mlp(mlp_program, layout, expected):
    program, params = mlp_program
    ring = bytes_of(params) * 7 / 8
    plan = program.plan(MESH, layout)
    sums, scalars = big(plan)
    assert sums == {kind: times * ring for kind, times in expected.items()}
    assert scalars <= 14
    check(plan)


def test_tensor_parallelism_of_an_mlp(mlp_program):
    plan = mlp_program[0].plan(MESH, "ffn:x")
    # One all-reduce of the activations [batch, embed]: the input needs no gradient.
    assert big(plan) == ({"all-reduce": 2 * 32 * 64 * 4 * 7 / 8}, 7)
    check(plan)


@pytest.mark.share(3)
@pytest.mark.parametrize("layout", ["batch:x", ZERO1, ZERO2, FSDP], ids=["data", "zero1", "zero2", "fsdp"])
def test_data_parallelism_of_a_transformer(text_program, layout):
    program, params = text_program
    ring = bytes_of(params) * 7 / 8
    in_layers = bytes_of(params["layers"]) * 7 / 8
    expected = {
        "batch:x": {"all-reduce": 2 * ring},
        # What is scanned under a checkpoint is gathered again for the backward pass.
        str(FSDP): {"reduce-scatter": ring, "all-gather": ring + in_layers},
    }.get(str(layout), {"reduce-scatter": ring, "all-gather": ring})
    plan = program.plan(MESH, layout)
    sums, scalars = big(plan)
    assert sums == expected
    assert scalars <= 14
    if layout is FSDP:
        inside = [c for c in plan.collectives if c.times == LAYERS]
        assert sum(c.wire_bytes * LAYERS for c in inside if c.kind == "all-gather") == 2 * in_layers
        assert sum(c.wire_bytes * LAYERS for c in inside if c.kind == "reduce-scatter") == in_layers
    check(plan)


# Bytes that a ring sends for a reduce-scatter or an all-gather of the residual stream [batch, seq, embed].
RESIDUAL = 8 * 16 * 32 * 4 * 7 / 8
# A norm of each of the seven weights of a layer that are split, and nothing for what is whole.
NORMS = 7 * 7


def test_tensor_parallelism_of_a_transformer(text_program):
    plan = text_program[0].plan(MESH, TENSOR)
    # Two all-reduces forward and two backward a layer, and the one of attention again when it is recomputed.
    assert big(plan) == ({"all-reduce": (2 + 2 + 1) * 2 * RESIDUAL * LAYERS}, NORMS)
    check(plan)


def test_sequence_parallelism_of_a_transformer(text_program):
    program, params = text_program
    plan = program.plan(MESH, SEQUENCE)
    sums, scalars = big(plan)
    # Each all-reduce is now a reduce-scatter and an all-gather of the same wire bytes together. There is one all-gather
    # more in each recomputation, whose input is kept split, and two outside the loop, where the logits and the
    # embedding's gradient are computed from the whole sequence.
    assert sums["reduce-scatter"] == (2 + 2 + 1) * RESIDUAL * LAYERS
    assert sums["all-gather"] == (2 + 2 + 2) * RESIDUAL * LAYERS + 2 * RESIDUAL
    # The scales of the norms see a part of the sequence: their gradients are summed.
    norms = bytes_of([params["layers"]["attention_norm"], params["layers"]["ffn_norm"], params["norm"]])
    rest = sums["all-reduce"]
    assert 0 < rest <= 2 * norms * 7 / 8
    assert scalars == NORMS
    check(plan)


def test_remedies_name_what_to_take_off(text_program):
    plan = text_program[0].plan(MESH, "batch:x")
    for collective in plan.collectives:
        assert collective.because.endswith("."), collective
        assert collective.source is not None, collective
        assert "Take `batch`" in collective.remedy, collective


def test_megatron_has_four_all_reduces_a_layer():
    """Two forward and two backward where nothing is recomputed: the addends of queries, keys and values meet first."""

    def layer(x, weights):
        x = x + transformer.attention(transformer.rms_norm(x, weights["attention_norm"]), turns(x, weights), weights)
        return x + transformer.feed_forward(transformer.rms_norm(x, weights["ffn_norm"]), weights)

    def turns(x, weights):
        return transformer.rotary(x, weights["query"])

    def loss(weights, x):
        return ml.square(layer(x, weights)).mean()

    one = {
        name: ml.f32[tuple(d for d in w.dims if d.name != "layers")]
        for name, w in shapes(transformer.init, TEXT)["layers"].items()
    }
    x = ml.f32[TEXT.dims("batch seq embed")]
    plan = ml.trace(jax.grad(loss, argnums=(0, 1)), one, x).plan(MESH, TENSOR)
    stream = 8 * 16 * 32 * 4
    summed = [c for c in plan.collectives if c.payload_bytes == stream]
    assert [c.kind for c in summed] == ["all-reduce"] * 4
    assert len(plan.collectives) == 4
    check(plan)
