"""Memory: held against XLA's own account, and what is told of it against what is known."""

import dataclasses
import json
import random

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import meshlab as ml
from benchmarks import memory as accuracy
from meshlab.cost.machines.hardware import HardwareError
from meshlab.cost.peak_memory.backends import tiled_bytes
from meshlab.cost.peak_memory.memory import memory_of
from meshlab.engine.running import run
from meshlab.models.language import transformer as text
from meshlab.models.parts import training
from meshlab.models.parts.initial import shapes
from meshlab.models.zoo import models

pytestmark = pytest.mark.share(2, of="file")

Batch, Hidden, Out = ml.dims(batch=16, hidden=64, out=32)
ZOO = {model.name: model for model in models()}
SMALL = ("mlp", "digits", "mlp_adamw", "two_layer", "convnet_sgd", "resnet", "transformer_sgd", "unet3d")


def plan_of(name, layout, **mesh):
    return ZOO[name].trace().plan(ml.mesh(**mesh), layout)


def error(plan):
    return accuracy.error(plan, accuracy.compiled(plan))


@pytest.fixture(scope="module")
def sampled():
    """The errors of two layouts of each of some programs; all are compared by `python -m benchmarks.memory`."""
    plans = {}
    for name in SMALL:
        chosen = random.Random(name).sample(range(accuracy.LAYOUTS), 2)
        plans |= {(name, number): error(plan) for number, plan in accuracy.plans(ZOO[name].trace(), chosen)}
    return plans


def test_predicted_peaks_are_near_those_of_the_compiler(sampled):
    assert len(sampled) == 2 * len(SMALL)
    assert max(map(abs, sampled.values())) < accuracy.NINE_OF_TEN
    assert min(sampled.values()) > -0.1
    assert np.median(np.abs(list(sampled.values()))) < accuracy.MEDIAN


def test_arguments_and_outputs_that_are_not_exact_are_refused():
    plan = plan_of("mlp", "batch:x", x=2)
    wrong = accuracy.compiled(plan) | {"argument": 1}
    with pytest.raises(ValueError, match=r"arguments and outputs are \(.*\) bytes, and compiled .*batch:x"):
        accuracy.error(plan, wrong)


def test_errors_are_told_in_a_table():
    text = accuracy.page({"mlp": [0.01, -0.02], "gpt2": [0.2]})
    assert "3 compiled plans of 2 programs" in text
    assert "|mlp|2|1.5%|1.9%|-2.0%|1.0%|" in text
    assert "0 are more than 10% too low" in text


def test_what_is_held_out_is_told_with_its_seed():
    text = accuracy.page({"mlp": [0.01, -0.02]}, {"mlp": [0.01, -0.03], "gpt2": [-0.2]})
    assert (
        f"In 3 other plans of 2 programs, under layouts that were held out (drawn with seed {accuracy.HELD_OUT_SEED}"
        in text
    )
    assert "the median error is 3.0%" in text
    assert "1 are more than 10% too low; from -20.0% to +1.0%." in text
    assert "held out" not in accuracy.page({"mlp": [0.01]})


def test_layouts_that_are_held_out_are_others():
    program = ZOO["mlp"].trace()
    drawn = {seed: list(accuracy.drawn(program, seed)) for seed in (*accuracy.LOOKED_AT, accuracy.HELD_OUT_SEED)}
    assert [len(cases) for cases in drawn.values()] == [accuracy.LAYOUTS, accuracy.HELD_OUT, accuracy.HELD_OUT]
    every = [(mesh, str(layout)) for cases in drawn.values() for mesh, layout in cases]
    assert len(set(every)) == len(every)
    numbers = dict(accuracy.plans(program, (1, 3), accuracy.HELD_OUT_SEED))
    assert [str(plan.layout) for plan in numbers.values()] == [
        every[accuracy.LAYOUTS + accuracy.HELD_OUT + n][1] for n in (1, 3)
    ]


def test_a_journal_keeps_seeds_apart(tmp_path, monkeypatch):
    journal = tmp_path / "memory.jsonl"
    monkeypatch.setattr(accuracy, "models", lambda: [ZOO["mlp"]])
    monkeypatch.setattr(accuracy, "HELD_OUT", 1)
    (one,) = accuracy.compile_all(journal, accuracy.HELD_OUT_SEED)["mlp"].values()
    assert set(one) == {"argument", "output", "temp", "alias"}
    lines = journal.read_text().splitlines()
    assert len(lines) == 1
    assert f'"seed": {accuracy.HELD_OUT_SEED}' in lines[0]
    accuracy.compile_all(journal, accuracy.HELD_OUT_SEED)
    assert journal.read_text().splitlines() == lines
    monkeypatch.setattr(accuracy, "LAYOUTS", 0)
    assert accuracy.compile_all(journal) == {}


def test_parts_add_up_to_the_peak_and_the_timeline_reaches_it():
    for name in ("mlp_adamw", "transformer_sgd", "convnet"):
        memory = plan_of(name, "batch:x", x=4).memory
        assert sum(memory.parts.values()) == memory.peak_bytes
        assert max(point.bytes for point in memory.timeline) + memory.gap_bytes == memory.peak_bytes
        assert sum(alive.bytes for alive in memory.at_peak) <= memory.peak_bytes
        assert [a.bytes for a in memory.at_peak] == sorted((a.bytes for a in memory.at_peak), reverse=True)


def test_parts_are_told_by_what_the_program_does_with_them():
    plan = plan_of("mlp_adamw", "batch:x", x=4)
    parts, stored = plan.memory.parts, plan.stored.parts
    # Parameters and the optimizer's state are there twice: as they come in, and as they go out.
    assert parts["parameters"] == 2 * stored["params"]
    assert parts["optimizer state"] == 2 * stored["opt_state"]
    assert parts["inputs"] == stored["inputs"] + stored["targets"]
    assert "master copies" not in parts


def test_parameters_that_are_only_cast_are_master_copies():
    plan = plan_of("llama_bfloat16", "batch:x", x=4)
    assert plan.memory.parts["master copies"] == 2 * plan.stored.parts["params"]
    narrow = [alive for alive in plan.memory.at_peak if alive.role == "parameters"]
    assert narrow
    assert {alive.dtype for alive in narrow} == {"bfloat16"}


def test_state_that_is_handed_on_without_gradients_is_input():
    plan = plan_of("decoding", "batch:x", x=2)
    roles = {alive.name: alive.role for alive in plan.memory.at_peak if alive.place}
    assert roles["cache/key"] == "inputs"
    assert roles["params/embedding"] == "parameters"


def logits_program():
    Many, Vocab = ml.dims(many=1024, vocab=4096)

    def loss(params, inputs, targets):
        hidden = ml.relu(ml.dot(inputs, params["w"], Hidden))
        logits = ml.dot(hidden, params["head"], Out)
        return ml.cross_entropy(logits, targets, Vocab).mean()

    params = {"w": ml.f32[Hidden, Out], "head": ml.f32[Out, Vocab]}
    return ml.trace(training.sgd_step(loss), params, ml.f32[Many, Hidden], ml.i32[Many])


def test_the_logits_stand_at_the_peak_with_their_line():
    memory = logits_program().plan(ml.mesh(x=2), "many:x").memory
    logits = [alive for alive in memory.at_peak if alive.dims == ("many", "vocab")]
    assert logits
    assert logits[0].bytes == 512 * 4096 * 4
    assert logits[0].shape == (512, 4096)
    assert any(alive.name == "logits" and str(alive.source).startswith("test_memory.py:") for alive in logits)
    assert "vocab" in repr(memory)


def test_memory_is_held_against_what_a_device_of_the_machine_holds():
    program = logits_program()
    memory = program.plan(ml.mesh("v5e", x=4), "many:x").memory
    assert memory.limit_bytes == ml.hardware("v5e").memory_bytes
    assert memory.fits
    assert "16,000,000,000 B: it fits" in repr(memory)
    small = dataclasses.replace(ml.hardware("v5e"), memory=ml.Figure(float(memory.peak_bytes - 1)))
    plan = program.plan(ml.mesh(small, x=4), "many:x")
    assert not plan.memory.fits
    verdict = f"{memory.peak_bytes - 1:,} B: it does not fit"
    assert verdict in repr(plan.memory)
    assert verdict in repr(plan)
    assert json.loads(plan.to_json())["fits"] is False
    assert json.loads(plan.to_json())["peak_because"] == plan.memory.because
    # On no machine nothing is known of it, and nothing said.
    plain = program.plan(ml.mesh(x=4), "many:x")
    assert "fit" not in repr(plain.memory)
    for ask in ("fits", "limit_bytes"):
        with pytest.raises(ml.MeshlabError, match=rf"^plan.memory.{ask} needs a machine, and the mesh x=4"):
            getattr(plain.memory, ask)


def test_splitting_the_vocabulary_lowers_the_peak():
    program = logits_program()
    whole, split = (program.plan(ml.mesh(x=4), layout).memory for layout in ("", "vocab:x"))
    assert split.peak_bytes < 0.4 * whole.peak_bytes


def test_gathered_weights_stand_at_the_peak():
    Wide = ml.Dim("wide", 2048)

    def loss(params, inputs):
        return (ml.dot(ml.relu(ml.dot(inputs, params["up"], Hidden)), params["down"], Wide) ** 2).mean()

    params = {"up": ml.f32[Hidden, Wide], "down": ml.f32[Wide, Hidden]}
    program = ml.trace(loss, params, ml.f32[Batch, Hidden])
    plan = program.plan(ml.mesh(x=8), {"batch": "x", "params/*": {"wide": "x"}})
    whole = 64 * 2048 * 4
    gathered = [alive for alive in plan.memory.at_peak if alive.bytes == whole and alive.place is None]
    assert gathered
    assert plan.stored.parts["params"] == 2 * whole // 8
    assert abs(error(plan)) < 0.05


def test_a_step_that_is_recomputed_holds_less():
    Many, Layers, Mid = ml.dims(many=512, layers=8, mid=256)
    inputs = (ml.f32[Many, Hidden], ml.f32[Many])

    def loss(checkpointed):
        def layer(carry, weights):
            hidden = ml.dot(carry, weights["up"], Hidden)
            hidden = ml.gelu(ml.gelu(ml.gelu(hidden)))
            return carry + ml.dot(hidden, weights["down"], Mid), None

        def run(params, inputs, _):
            turn = ml.checkpoint(layer) if checkpointed else layer
            return (ml.scan(turn, inputs, params, Layers)[0] ** 2).mean()

        return run

    params = {"up": ml.f32[Layers, Hidden, Mid], "down": ml.f32[Layers, Mid, Hidden]}
    peaks = []
    for checkpointed in (False, True):
        program = ml.trace(training.sgd_step(loss(checkpointed)), params, *inputs)
        plan = program.plan(ml.mesh(x=2), "many:x")
        peaks.append(plan.memory)
        assert abs(error(plan)) < 0.15
    plain, recomputed = peaks
    assert recomputed.peak_bytes < 0.9 * plain.peak_bytes
    assert recomputed.parts.get("activations", 0) < plain.parts["activations"]


def test_donated_arguments_are_written_over():
    plan = plan_of("mlp_adamw", "batch:x", x=4)
    memory, donated = plan.memory, plan.memory.donated
    assert donated.is_donated
    assert donated.peak_bytes < memory.peak_bytes
    assert str(memory).startswith(f"peak             {memory.peak_bytes:>15,} B\n")
    assert str(donated).startswith(f"peak, donated    {donated.peak_bytes:>15,} B\n")
    assert f"; {donated.peak_bytes:,} B with carried arguments donated" in repr(plan)
    analysis = run.compiled(plan, donate=True).memory_analysis()
    names = ("argument", "output", "temp", "alias")
    exact = accuracy.total({name: getattr(analysis, f"{name}_size_in_bytes") for name in names})
    assert donated.peak_bytes == pytest.approx(exact, rel=0.1)


def test_the_peak_does_not_depend_on_the_number_of_devices():
    plans = [plan_of("mlp", "batch:x", x=n) for n in (2, 4)]
    small, large = (plan.memory for plan in plans)
    assert len(small.liveness.points) == len(large.assignment.liveness.points)
    peaks = []
    for devices in (2, 1 << 18):
        config = dataclasses.replace(text.Config(batch=4 * devices), layers=2)
        program = ml.trace(text.loss, shapes(text.init, config), *text.inputs(config))
        peaks.append(program.plan(ml.mesh(x=devices), "batch:x").memory.peak_bytes)
    assert peaks[0] == peaks[1]


def test_what_runs_in_one_branch_adds_to_what_is_alive_around_it():
    def fn(x, flag):
        double = jnp.tanh(x)
        chosen = jax.lax.cond(flag > 0, lambda: jnp.sort(jnp.sin(x) @ x.T @ x, 1), lambda: double)
        return chosen + double

    named = ml.named((jax.ShapeDtypeStruct((64, 64), jnp.float32), jax.ShapeDtypeStruct((), jnp.int32)), {"*": "..."})
    program = ml.trace(fn, *named)
    plan = program.plan(ml.mesh(x=2), None)
    assert plan.memory.temporary_bytes >= 2 * 64 * 64 * 4
    assert abs(error(plan)) < 0.2


@pytest.mark.parametrize("turns", ["as many as an argument says", "until something is reached"])
def test_a_loop_that_turns_until_something_is_reached_carries_what_it_carries(turns):
    """The test of such a loop is a block of its own, which returns a truth value and carries nothing."""
    many, layers = jax.ShapeDtypeStruct((512, 256), jnp.float32), jax.ShapeDtypeStruct((256, 256), jnp.float32)
    count = jax.ShapeDtypeStruct((), jnp.int32)

    def fn(x, w, n):
        if turns.startswith("until"):
            return jax.lax.while_loop(lambda c: c[0].sum() < 10.0, lambda c: (jnp.tanh(c[0] @ w), c[1] + n), (x, 0))
        return jax.lax.fori_loop(0, n, lambda _, c: jnp.tanh(c @ w), x)

    plan = ml.trace(fn, ml.named(many, "many _"), ml.named(layers, "_ _"), count).plan(ml.mesh(x=4), "many:x")
    assert plan.memory.temporary_bytes == pytest.approx(128 * 256 * 4, rel=0.01)
    assert abs(error(plan)) < 0.01


def test_memory_of_many_sizes_agrees_with_plans_of_these_sizes():
    sizes = (512, 1024, 2048)

    def plan(batch):
        many = ml.Dim("many", batch)

        def loss(params, inputs):
            return (ml.relu(ml.dot(inputs, params["w"], Hidden)) ** 2).mean()

        step = jax.value_and_grad(loss)
        return ml.trace(step, {"w": ml.f32[Hidden, Out]}, ml.f32[many, Hidden]).plan(ml.mesh("v5e", x=4), "many:x")

    swept = ml.sweep(plan(512), many=list(sizes)).peak_bytes.ravel()
    assert swept == pytest.approx([plan(size).memory.peak_bytes for size in sizes], rel=0.02)
    assert swept[0] < swept[1] < swept[2]


def test_scores_that_are_not_stored_take_no_memory():
    batch, heads, queries, keys, head = ml.dims(batch=2, heads=4, queries=256, keys=256, head=16)

    def attend(x, y, z):
        return ml.dot(ml.softmax(ml.dot(x, y, head), keys), z, keys)

    args = ml.f32[batch, heads, queries, head], ml.f32[batch, heads, keys, head], ml.f32[batch, heads, keys, head]
    flash = ml.trace(attend, *args).plan(ml.mesh("h100", x=2), "batch:x").memory
    assert flash.attention == "flash"
    assert "in a fused kernel, which stores no scores" in str(flash)
    stored = flash.given("stored")
    assert "fused" not in str(stored)
    scores = 4 * 4 * 256 * 256
    assert stored.peak_bytes >= flash.peak_bytes + scores
    assert {"queries", "keys"} <= set(stored.at_peak[0].dims)
    assert not any({"queries", "keys"} <= set(alive.dims) for alive in flash.at_peak if alive.bytes)
    assert stored.donated.given("flash").is_donated
    with pytest.raises(ml.HardwareError, match=r"There is no attention 'quick'"):
        stored.given("quick")


@pytest.mark.parametrize(
    ("shape", "each", "expected"),
    [
        ((), 4, 512),
        ((1000,), 4, 4096),
        ((1000,), 2, 2048),
        ((8, 128), 4, 4096),
        ((9, 128), 4, 8192),
        ((256, 3), 4, 4 * 256 * 4),
        ((16, 128), 2, 4096),
        ((4, 32, 256), 4, 4 * 32 * 256 * 4),
        ((3, 3, 8, 128), 4, 9 * 8 * 128 * 4),
    ],
)
def test_arrays_lie_in_tiles_on_tpus(shape, each, expected):
    assert tiled_bytes(shape, each) == expected


def test_the_peak_on_a_tpu_counts_tiles_and_no_gaps():
    plan = plan_of("mlp_adamw", "batch:x", x=4)
    cpu, tpu = memory_of(plan, "cpu"), memory_of(plan, "tpu")
    assert tpu.gap_bytes == 0
    assert tpu.temporary_bytes == max(point.bytes for point in tpu.timeline) - tpu.timeline[0].bytes
    assert tpu.peak_bytes > cpu.peak_bytes
    assert sum(tpu.parts.values()) == tpu.peak_bytes


@pytest.mark.share(12)
@pytest.mark.parametrize("platform", ["cpu", "gpu", "tpu"])
@pytest.mark.parametrize("name", ["mlp_adamw", "transformer_sgd", "llama_adamw", "convnet", "moe_sgd"])
def test_what_is_alive_adds_up_at_every_step(name: str, platform: str):
    memory = memory_of(plan_of(name, "batch:x", x=4), platform)
    # What is rounded up is less than one alignment for each buffer, but for tables of addresses and constants.
    most = memory.backend.alignment * (len(memory.assignment.heap) + len(memory.liveness.tables) + 1)
    most += 8 * sum(memory.liveness.tables)
    for step, point in enumerate(memory.timeline):
        padding = memory.padding_at(step)
        assert sum(alive.bytes for alive in memory.alive_at(step)) + padding == point.bytes
        assert 0 <= padding <= most
    heap = [point.bytes for point in memory.timeline]
    assert memory.alive_at(heap.index(max(heap))) == memory.at_peak


@pytest.mark.parametrize("step", [-1, 10**6, 1.5, None])
def test_a_step_that_the_timeline_lacks_is_refused(step):
    memory = plan_of("mlp", "batch:x", x=4).memory
    last = len(memory.timeline) - 1
    with pytest.raises(
        HardwareError, match=rf"^plan\.memory has no step .*\. Its timeline has the steps 0 to {last}\.$"
    ):
        memory.alive_at(step)
    with pytest.raises(HardwareError, match="has no step"):
        memory.padding_at(step)
