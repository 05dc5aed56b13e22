"""Steps of training: 16 bits of computing with 32 bits of parameters, and Adafactor, whose state has other dims."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import meshlab as ml
from meshlab.engine.code.operations import walk
from meshlab.models.basic import mlp
from meshlab.models.language import gemma, gpt2, llama, moe, state_space, t5
from meshlab.models.parts import training
from meshlab.models.parts.initial import shapes
from meshlab.models.vision import vit
from meshlab.models.zoo import draw
from tests.models import plain

FAMILY = {model.__name__.rsplit(".", 1)[-1]: model for model in (gpt2, llama, gemma, t5, vit, moe, state_space)}
SUMS = ("exp", "log", "rsqrt", "reduce_max")


@pytest.mark.share(5)
@pytest.mark.parametrize("model", FAMILY.values(), ids=FAMILY)
def test_mixed_precision_computes_in_16_bits_and_sums_in_32(model):
    config = model.Config()
    step = training.sgd_step(training.mixed(model.loss))
    program = ml.trace(step, shapes(model.init, config), *model.inputs(config))
    operations, dtypes = list(walk(program.code.block)), program.code.dtypes
    carries = [dtypes[o] for op in operations if op.name == "scan" for o in op.outputs[: op.params["num_carry"]]]
    assert carries.count(jnp.bfloat16) >= 2
    assert {str(dtypes[op.outputs[0]]) for op in operations if op.name in SUMS} == {"float32"}
    products = [dtypes[op.outputs[0]] for op in operations if op.name == "dot_general"]
    assert products.count(jnp.bfloat16) > 0.8 * len(products)
    assert {str(leaf.dtype) for leaf in jax.tree.leaves(program.out_shapes)} == {"float32"}


@pytest.mark.share(5)
@pytest.mark.parametrize("model", FAMILY.values(), ids=FAMILY)
def test_mixed_precision_is_close_to_full(model):
    config = model.Config()
    params, *inputs = plain.numbers(model.init, model.inputs, config, 8)
    actual, wanted = (jax.jit(loss)(params, *inputs) for loss in (training.mixed(model.loss), model.loss))
    assert actual.dtype == jnp.float32
    assert 0 < abs(actual - wanted) < 0.02 * wanted


def test_gradients_of_mixed_precision_are_close_to_full():
    config = llama.Config()
    params, *inputs = plain.numbers(llama.init, llama.inputs, config, config.vocab)
    actual, wanted = (jax.jit(jax.grad(loss))(params, *inputs) for loss in (training.mixed(llama.loss), llama.loss))
    together = [np.concatenate([np.ravel(leaf) for leaf in jax.tree.leaves(grads)]) for grads in (actual, wanted)]
    assert together[0].dtype == np.float32
    assert np.linalg.norm(together[0] - together[1]) < 0.05 * np.linalg.norm(together[1])


def test_mixed_precision_learns_with_parameters_of_32_bits():
    config = state_space.Config()
    optimizer = training.adamw(peak=1e-2)
    step = jax.jit(training.adamw_step(training.mixed(state_space.loss), optimizer))
    params = jax.jit(state_space.init, static_argnums=1)(jax.random.key(0), config)
    state, data, values = optimizer.init(params), draw(state_space.inputs(config), 0, config.vocab), []
    for _ in range(20):
        value, params, state = step(params, state, *data)
        values.append(float(value))
    assert values[-1] < values[0] - 0.5
    assert {leaf.dtype for leaf in jax.tree.leaves(params)} == {np.dtype("float32")}


def test_what_a_layout_gathers_is_gathered_in_16_bits():
    config, layout = llama.Config(), {"batch": "data", "params/*": {"embed": "data"}}
    plans = [
        plain.descent_of(loss, llama.init, llama.inputs, config).plan(plain.MESH, layout)
        for loss in (llama.loss, training.mixed(llama.loss))
    ]
    gathered = [sum(c.wire_bytes * c.times for c in plan.collectives if c.kind == "all-gather") for plan in plans]
    assert gathered[0] == 2 * gathered[1]
    plain.verified(plans[1])


@pytest.fixture(scope="module")
def adafactor():
    optimizer = training.adafactor(least=8)
    return optimizer, plain.step_of(mlp.block_loss, mlp.init_block, mlp.block_inputs, mlp.Block(8, 16, 32), optimizer)


def test_adafactor_keeps_means_along_two_dims(adafactor):
    _, program = adafactor
    state = {place: program.place(place).dims for place in program.places if place.startswith("opt_state/0/v_")}
    assert state == {
        "opt_state/0/v_row/down": ("embed",),
        "opt_state/0/v_row/up": ("embed",),
        "opt_state/0/v_col/down": ("ffn",),
        "opt_state/0/v_col/up": ("ffn",),
    }


def test_adafactor_of_tensors_is_adafactor_of_arrays(adafactor):
    optimizer, _ = adafactor
    config = mlp.Block(8, 16, 32)
    params, *data = mlp.init_block(jax.random.key(0), config), *draw(mlp.block_inputs(config), 0)
    raw, (x, targets) = plain.raw(params), plain.raw(data)

    def raw_loss(params, x, targets):
        return ((jax.nn.relu(x @ params["up"]) @ params["down"] - targets) ** 2).mean()

    named_step, raw_step = (jax.jit(training.adamw_step(loss, optimizer)) for loss in (mlp.block_loss, raw_loss))
    state, raw_state = optimizer.init(params), optimizer.init(raw)
    for _ in range(3):
        value, params, state = named_step(params, state, *data)
        wanted, raw, raw_state = raw_step(raw, raw_state, x, targets)
        assert plain.off(value, wanted) < 1e-6
    for name, weight in params.items():
        assert plain.off(weight.array, raw[name]) < 1e-6


@pytest.mark.parametrize(
    "layout",
    ["batch:data ffn:model", {"batch": "data", "params/*": {"embed": "data"}, "opt_state/*": {"embed": "data"}}],
    ids=["plain", "fsdp"],
)
def test_layouts_split_the_state_of_adafactor(adafactor, layout):
    plan = adafactor[1].plan(plain.MESH, layout)
    assert plan.stored.parts["opt_state"] < adafactor[1].plan(plain.MESH).stored.parts["opt_state"]
    plain.verified(plan)


def test_adafactor_rises_and_falls():
    optimizer = training.adafactor(peak=0.1, warmup=4)
    params = {"w": jnp.full(3, 2.0)}
    state, sizes = optimizer.init(params), []
    for _ in range(16):
        updates, state = optimizer.update({"w": jnp.ones(3)}, state, params)
        sizes.append(-jax.tree.leaves(updates)[0].mean())
    # The first moment is one of ones, so the update is the learning rate times the weights' root mean square.
    np.testing.assert_allclose(sizes[0], 0.1 * 2.0 / 4, rtol=1e-3)
    np.testing.assert_allclose(sizes[3], 0.1 * 2.0, rtol=1e-3)
    np.testing.assert_allclose(sizes[15], 0.1 * 2.0 / 2, rtol=1e-3)
