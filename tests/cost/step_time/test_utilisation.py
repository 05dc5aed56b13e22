"""Model FLOPs, what they reach of a machine, and items a second."""

import dataclasses
import math
import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import meshlab as ml
from meshlab.cost.machines.hardware import Figure
from meshlab.cost.machines.units import share_text
from meshlab.cost.step_time.model_flops import model_flops
from meshlab.cost.step_time.time import HIDDEN, ONCE
from meshlab.cost.workload.scenario import at_plan_sizes
from meshlab.engine.errors import DimError
from meshlab.models import zoo
from meshlab.models.language import llama
from meshlab.models.parts.initial import shapes

BATCH, EMBED, FFN, LAYERS = ml.dims(batch=64, embed=32, ffn=128, layers=3)
X, W, STACK = ml.bf16[BATCH, EMBED], ml.bf16[EMBED, FFN], ml.bf16[LAYERS, EMBED, FFN]
# Operations of one matmul.
ONE = 2 * 64 * 32 * 128
MESH = ml.mesh("v5e", data=4)
MODELS = {model.name: model for model in zoo.models()}


def layer(x, w):
    return ml.dot(ml.tanh(ml.dot(x, w, EMBED)), w, FFN)


def scanned(x, w):
    return ml.scan(lambda x, w: (layer(x, w), None), x, w, LAYERS)[0]


def checkpointed(x, w):
    """Each iteration runs again."""
    return ml.scan(lambda x, w: (ml.checkpoint(layer)(x, w), None), x, w, LAYERS)[0]


def twice(x, w):
    return ml.checkpoint(layer)(ml.checkpoint(layer)(x, w), w)


def time_of(model, weights=W, differentiated=jax.value_and_grad, mesh=MESH):
    def step(w, x):
        return differentiated(lambda w, x: model(x, w).sum(), (0, 1))(w, x)

    return ml.trace(step, weights, X).plan(mesh, "batch:data").time


@pytest.mark.parametrize(
    ("model", "weights", "matmuls"),
    [
        (layer, W, 6),
        (ml.checkpoint(layer), W, 6),
        (ml.checkpoint(jax.jit(layer)), W, 6),
        (twice, W, 12),
        (ml.checkpoint(twice), W, 12),
        (scanned, STACK, 18),
        (checkpointed, STACK, 18),
        (ml.checkpoint(scanned), STACK, 18),
        (ml.checkpoint(checkpointed), STACK, 18),
    ],
    ids=["plain", "again", "a call again", "two", "regions in a region", "loop", "inside", "around", "both"],
)
def test_what_runs_a_second_time_does_not_count(model, weights, matmuls):
    """Of each matmul one in the forward and two in the backward pass."""
    time = time_of(model, weights)
    assert time.model_flops == matmuls * ONE / 4
    assert (time.flops > time.model_flops) == (model not in (layer, scanned))


@pytest.mark.parametrize(
    ("model", "matmuls"),
    [(layer, 5), (ml.checkpoint(layer), 5), (twice, 11), (ml.checkpoint(twice), 11)],
    ids=["plain", "again", "two", "regions in a region"],
)
def test_a_second_run_counts_where_there_is_no_first(model, matmuls):
    """Nobody reads the loss, so that the last matmul never runs, and others run in the backward pass alone."""
    assert time_of(model, differentiated=jax.grad).model_flops == matmuls * ONE / 4


def test_of_branches_the_one_with_most_counts():
    def branched(x, w):
        one, other = (lambda x: ml.tanh(layer(x, w)).array), (lambda x: layer(layer(x, w), w).array)
        return jax.lax.cond(x.array[0, 0] > 0, one, other, x)

    assert ml.trace(branched, X, W).plan(MESH, {}).time.model_flops == 4 * ONE / 4


def test_the_test_of_a_loop_runs_once_more_than_its_body():
    def loop(x, w):
        def going(carry):
            return (carry[0] < 5) & (layer(carry[1], w).array.sum() < 1)

        return jax.lax.while_loop(going, lambda carry: (carry[0] + 1, layer(carry[1], w)), (0, x))[1]

    # How often it runs nobody knows: it counts as once.
    assert ml.trace(loop, X, W).plan(MESH, {}).time.model_flops == (2 + 2 * 2) * ONE / 4


def test_utilisation_is_the_model_flops_over_those_of_the_peak():
    time = time_of(ml.checkpoint(layer))
    peak = ml.hardware("v5e").flops_per_second("bf16")
    assert time.mfu == pytest.approx(time.model_flops / peak / time.estimate)
    assert time.flops_per_second == pytest.approx(time.model_flops / time.estimate)


def test_hardware_utilisation_has_what_runs_again_and_what_is_replicated():
    once, again = time_of(layer), time_of(ml.checkpoint(layer))
    assert once.hfu == pytest.approx(once.mfu)
    assert again.hfu / again.mfu == pytest.approx(again.flops / again.model_flops)
    assert again.hfu > again.mfu
    (row,) = [text for name, text in again.rows() if name == "hardware FLOPs utilisation"]
    assert row == share_text(again.hfu)
    assert "hardware FLOPs utilisation" not in dict(once.rows())
    # On four devices that all compute the same a quarter of what is executed is the model's.
    whole = ml.trace(lambda x, w: ml.dot(x, w, EMBED), X, W).plan(MESH).time
    assert whole.hfu == pytest.approx(4 * whole.mfu)


@pytest.mark.share(3)
@pytest.mark.parametrize("name", ["gpt2_adamw", "llama_adamw", "moe_sgd", "convnet_sgd"])
def test_executed_flops_are_those_of_the_plan(name):
    """By kernels they are those that the plan has in all, on a machine with one peak for all dtypes."""
    h100 = ml.hardware("h100")
    machine = dataclasses.replace(h100, flops=dict.fromkeys(h100.flops, Figure(1e12)))
    program = MODELS[name].trace()
    time = program.plan(ml.mesh(machine, data=2), "batch:data").time
    assert time.hfu == pytest.approx(time.flops / 1e12 / time.estimate)


def test_each_dtype_counts_by_its_own_peak():
    h100 = ml.hardware("h100")
    machine = dataclasses.replace(h100, flops={**h100.flops, "f32": Figure(1e12), "bf16": Figure(1e13)})

    def both(x, w):
        return ml.dot(x, w, EMBED), ml.dot(x.astype(jnp.float32), w.astype(jnp.float32), EMBED)

    plan = ml.trace(both, X, W).plan(ml.mesh(machine, data=1))
    counted = model_flops(at_plan_sizes(plan))
    assert {str(dtype): flops for dtype, flops in counted.items()} == {"bfloat16": ONE, "float32": ONE}
    assert plan.time.mfu == pytest.approx((ONE / 1e13 + ONE / 1e12) / plan.time.estimate)
    assert plan.time.mfu != pytest.approx(2 * ONE / 1e13 / plan.time.estimate)


def test_padding_is_no_work_of_the_model():
    few = ml.Dim("few", 3)
    program = ml.trace(lambda x, w: ml.dot(x, w, EMBED), ml.bf16[few, EMBED], W)
    time = program.plan(ml.mesh("v5e", data=2), "few:data", pad=True).time
    assert (time.flops, time.model_flops) == (2 * 2 * 32 * 128, 2 * 3 * 32 * 128 / 2)


CONFIG = llama.Config(batch=8, seq=64)


def language_model(**sizes):
    config = dataclasses.replace(CONFIG, **sizes)

    def step(params, tokens, targets):
        return jax.value_and_grad(llama.loss)(params, tokens, targets)

    program = ml.trace(step, shapes(llama.init, config), *llama.inputs(config))
    return program.plan(MESH, "batch:data")


def test_attention_counts_by_half_where_it_is_causal():
    """Without a mask 2 matmuls of queries and keys forward, 4 backward."""
    stored, flash, causal = (
        language_model().time.given(attention=how).model_flops for how in ("stored", "flash", "causal")
    )
    scores = 6 * 2 * 8 * 64 * 64 * CONFIG.heads * CONFIG.group * CONFIG.head * CONFIG.layers / 4
    assert stored == flash
    assert stored - causal == scores / 2


def test_items_are_counted_for_each_second_and_device():
    time = language_model().time
    assert time.per_second("batch", "seq") == pytest.approx(8 * 64 / 4 / time.estimate)
    assert time.per_second(ml.Dim("batch", 8)) == pytest.approx(8 / 4 / time.estimate)
    swept = ml.sweep(language_model(), batch=[8, 16])
    twice = language_model(batch=16).time
    assert swept.figures["mfu"][1] == pytest.approx(twice.mfu)


@pytest.mark.parametrize(
    ("dims", "message"),
    [
        (("batch", "sek"), r"`sek` is not a dim of this program. Did you mean `seq`\? There are `"),
        ((3,), r"3 is not a dim of this program. There are `"),
        ((), r'Items are counted by dims, each given once, such as per_second\("batch"\), not none'),
        (("seq", "seq"), r"each given once, .* not `seq`, `seq`"),
    ],
)
def test_items_of_other_dims_are_refused(dims, message):
    with pytest.raises(DimError, match=message):
        language_model().time.per_second(*dims)


def test_ceilings_change_one_thing_each():
    plain, again = (time_of(model, STACK) for model in (scanned, checkpointed))
    assert plain.ceilings == {HIDDEN: pytest.approx(plain.compute), ONCE: plain.estimate}
    assert again.ceilings[HIDDEN] == pytest.approx(again.compute)
    kernels = ((step.runs, times * cost.seconds) for step, times, cost in again.spent.kernels)
    second = sum(seconds for operation, seconds in kernels if operation and operation.rematerialised)
    assert 0 < second < again.compute
    assert again.ceilings[ONCE] == pytest.approx(again.estimate - second)
    assert again.to_dict()["ceilings"] == again.ceilings


def test_use_is_told_in_words():
    rows = dict(language_model().time.rows())
    assert rows["model FLOPs utilisation"].count("% with ") == 2
    assert rows["model FLOP/s per device"].endswith("FLOP/s")
    # The data sheet of v5e: 197e12 FLOP/s, 810e9 bytes/s.
    assert re.fullmatch(r"[\d,]+ FLOP/B \(ridge 243\)", rows["arithmetic intensity"])
    assert "tokens/s per device" in rows
    added = dict(ml.trace(ml.relu, X).plan(MESH, "batch:data").time.rows())
    assert not added.keys() & {"model FLOPs utilisation", "arithmetic intensity", "tokens/s per device"}


def test_nothing_is_done_in_no_time():
    plan = ml.trace(lambda x: x, X).plan(ml.mesh(ml.hardware("v5e").ideal, data=1))
    time = plan.time
    assert (time.estimate, time.mfu, time.per_second("batch")) == (0, 0, 0)
    many = ml.sweep(plan, batch=[8, 16])
    assert np.array_equal(many.figures["mfu"], [0, 0])
    assert not math.isnan(many.estimate[0])
