"""Times of plans: rooflines of single kernels, what overlaps, and what must hold for all plans."""

import dataclasses
import json
import math
import traceback

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import meshlab as ml
from meshlab.engine.attention.scores import Scores, attentions
from meshlab.engine.verifying.random_layouts import draw
from meshlab.models.zoo import models

B, E, F = ml.dims(batch=1024, embed=512, ffn=2048)
IDEAL = ml.hardware("v5e").ideal
MODELS = {model.name: model for model in models()}


def net(x, w1, w2):
    return ml.dot(ml.relu(ml.dot(x, w1, E)), w2, F)


NET = ml.trace(net, ml.bf16[B, E], ml.bf16[E, F], ml.bf16[F, E])


def test_a_product_takes_what_its_operations_take_or_its_bytes():
    """2·B·D·F operations, 2(BD + DF + BF) bytes (How to Scale Your Model, All About Rooflines)."""
    product = ml.trace(lambda x, w: ml.dot(x, w, E), ml.bf16[B, E], ml.bf16[E, F])
    time = product.plan(ml.mesh(IDEAL, data=1)).time
    assert time.flops == 2 * 1024 * 512 * 2048
    assert time.memory_bytes == 2 * (1024 * 512 + 512 * 2048 + 1024 * 2048)
    assert time.estimate == time.upper == max(time.flops / 197e12, time.memory_bytes / 810e9)
    assert time.limited_by == "compute"
    one = ml.Dim("one", 1)
    few = ml.trace(lambda x, w: ml.dot(x, w, E), ml.bf16[one, E], ml.bf16[E, F]).plan(ml.mesh(IDEAL, data=1)).time
    assert few.limited_by == "memory"
    assert few.estimate == pytest.approx(2 * (512 + 512 * 2048 + 2048) / 810e9)


@pytest.mark.parametrize(("machine", "streams"), [("v5e", True), ("h100", True), ("cpu", False)])
def test_weights_are_widened_on_the_way_into_a_product(machine, streams):
    def widened(x, w):
        return ml.dot(x, w.astype(jnp.bfloat16), E)

    plan = ml.trace(widened, ml.bf16[B, E], ml.i8[E, F]).plan(ml.mesh(machine, data=1))
    least = 2 * 1024 * 512 + 512 * 2048 + 2 * 1024 * 2048
    assert plan.time.memory_bytes == least + (0 if streams else 2 * 2 * 512 * 2048)


@pytest.mark.parametrize(("machine", "stored"), [("v5e", 1), ("h100", 3)])
def test_products_hand_on_what_is_computed_of_them_at_once(machine, stored):
    plan = ml.trace(lambda x, w: ml.relu(ml.dot(x, w, E)), ml.bf16[B, E], ml.bf16[E, F]).plan(ml.mesh(machine, data=1))
    assert plan.time.memory_bytes == 2 * (1024 * 512 + 512 * 2048 + stored * 1024 * 2048)


def test_what_does_not_fill_a_tile_is_padded():
    small = ml.Dim("small", 32)
    narrow = ml.trace(lambda x, w: ml.dot(x, w, small), ml.bf16[B, small], ml.bf16[small, F])
    plan = narrow.plan(ml.mesh(IDEAL, data=1))
    assert plan.time.spent.rows[-1][2] >= 4 * plan.time.flops / 197e12  # 32 of 128 are summed


def test_machines_reach_a_part_of_their_figures_and_kernels_take_time_to_begin():
    ideal, real = (NET.plan(ml.mesh(machine, data=1)).time for machine in (ml.hardware("v100").ideal, "v100"))
    assert real.compute_bound == pytest.approx(ideal.compute_bound / 0.7)
    tiny = ml.trace(lambda x: ml.tanh(x), ml.f32[ml.Dim("n", 8)]).plan(ml.mesh("h100", data=1)).time
    assert tiny.estimate == 7e-6


def test_a_sum_that_the_next_product_waits_for_is_exposed():
    plan = NET.plan(ml.mesh(IDEAL, model=4), "ffn:model")
    seconds = ml.collective_time("all-reduce", 1024 * 512 * 2, plan.mesh, "model")
    assert plan.time.communication == {"model": pytest.approx(seconds)}
    assert plan.time.exposed == pytest.approx(seconds)
    assert plan.time.estimate == plan.time.upper == pytest.approx(plan.time.compute + seconds)


def test_gradients_are_summed_while_others_are_computed():
    def step(params, x):
        return jax.grad(lambda p, x: (net(x, *p) * 1.0).sum())(params, x)

    args = ((ml.bf16[E, F], ml.bf16[F, E]), ml.bf16[B, E])
    time = ml.trace(step, *args).plan(ml.mesh(IDEAL, data=4), "batch:data").time
    one, other = (ml.collective_time("all-reduce", 2 * 512 * 2048, time.scenario.plan.mesh, "data") for _ in "ab")
    assert time.communication["data"] == pytest.approx(one + other)
    # The first is sent while the gradient of the hidden layer, and then of the first weights, is computed.
    assert other * 0.99 <= time.exposed < one + other
    assert time.lower < time.estimate < time.upper


@pytest.mark.share(4)
@pytest.mark.parametrize(
    "name", ["transformer_adamw", "llama_adamw", "moe_sgd", "convnet_sgd", "unet3d", "state_space"]
)
@pytest.mark.parametrize("machine", ["v5e", "h100"])
def test_bounds_hold_for_all_plans(name, machine):
    program = MODELS[name].trace()
    for layout in (None, {next(iter(program.dims)): "data"}):
        try:
            plan = program.plan(ml.mesh(machine, data=2, model=4), layout)
        except ml.LayoutError:
            continue
        for time in (plan.time, plan.time.given(prefetch=True), plan.time.given(attention="flash", book=True)):
            assert 0 < time.lower <= time.estimate <= time.upper
            assert time.exposed >= 0
            # Nothing but what was rounded was taken off.
            assert time.estimate == pytest.approx(time.spent.elapsed, rel=1e-9)
            assert max(time.compute, *time.spent.busy.values(), 0) <= time.estimate * (1 + 1e-9)
            assert time.compute_bound + time.memory_bound == pytest.approx(time.compute)
        assert sum(n * s for _, n, s in plan.time.spent.rows) == pytest.approx(plan.time.upper, rel=1e-6)


def test_weights_of_the_next_layer_can_be_fetched_ahead():
    layout = {"batch": "data", "params/*": {"embed": "data"}, "opt_state/*": {"embed": "data"}}
    time = MODELS["llama_adamw"].trace().plan(ml.mesh("v5e", data=4), layout).time
    ahead = time.given(prefetch=True)
    assert ahead.estimate < time.estimate
    assert (ahead.lower, ahead.upper) == (pytest.approx(time.lower), pytest.approx(time.upper))


def test_attention_piece_by_piece_stores_no_scores_and_computes_them_anew():
    """Two products forward and five backward, where four are in a program that keeps its scores (Dao et al. 2022)."""
    b, h, q, k, d = ml.dims(b=4, h=8, q=512, k=512, d=64)

    def attend(x, y, z):
        return ml.dot(ml.softmax(ml.dot(x, y, d), k), z, k)

    def loss(x, y, z):
        return ml.square(attend(x, y, z)).sum()

    args = ml.f32[b, h, q, d], ml.f32[b, h, k, d], ml.f32[b, h, k, d]
    forward = ml.trace(attend, *args)
    both = ml.trace(lambda *a: jax.value_and_grad(loss, argnums=(0, 1, 2))(*a), *args)
    assert attentions(forward) == attentions(both) == {Scores(frozenset("q"), frozenset("k"))}
    one = 2 * 4 * 8 * 512 * 512 * 64
    stored, flash = (forward.plan(ml.mesh(IDEAL, x=1)).time.given(attention=a) for a in ("stored", "flash"))
    assert stored.flops == flash.flops == 2 * one
    assert flash.memory_bytes == pytest.approx(4 * 4 * 4 * 8 * 512 * 64, rel=0.02)  # and a sum for each query
    assert stored.memory_bytes > flash.memory_bytes + 2 * 4 * 4 * 8 * 512 * 512
    stored, flash, causal = (
        both.plan(ml.mesh(IDEAL, x=1)).time.given(attention=a) for a in ("stored", "flash", "causal")
    )
    assert (stored.flops, flash.flops) == (6 * one, 7 * one)
    assert causal.flops == pytest.approx(flash.flops / 2)
    assert flash.estimate < stored.estimate


@pytest.mark.parametrize("name", ["gpt2", "llama", "gemma", "t5", "vit", "moe", "decoding"])
def test_attention_is_found_in_the_zoo(name):
    assert attentions(MODELS[name].trace())


@pytest.mark.parametrize("name", ["mlp", "state_space", "convnet", "moe_switch"])
def test_what_is_no_attention_is_not_found(name):
    expected = {Scores(frozenset(("group", "seq")), frozenset(("kv",)))} if name == "moe_switch" else set()
    assert attentions(MODELS[name].trace()) == expected


B_, H_, Q_, K_, D_ = ml.dims(b=4, h=8, q=32, k=32, d=16)
QUERIES, KEYS = ml.f32[B_, H_, Q_, D_], ml.f32[B_, H_, K_, D_]


@pytest.mark.parametrize(
    ("function", "arguments"),
    [
        # Weights that are no softmax.
        (lambda x, y, z: ml.dot(ml.relu(ml.dot(x, y, D_)), z, K_), (QUERIES, KEYS, KEYS)),
        # A product that sums nothing makes no scores.
        (
            lambda x, y, z: jnp.einsum(
                "bhqk,bhkd->bhqd", jnp.exp(jnp.einsum("bhq,bhk->bhqk", x.array, y.array)), z.array
            ),
            (ml.f32[B_, H_, Q_], ml.f32[B_, H_, K_], KEYS),
        ),
        # Nor does one in which nothing rides along: a mixture of distributions.
        (
            lambda x, y, z: ml.dot(ml.softmax(ml.dot(x, y, D_), K_), z, K_),
            (ml.f32[Q_, D_], ml.f32[K_, D_], ml.f32[K_, D_]),
        ),
    ],
)
def test_products_of_exponentials_are_not_all_attention(function, arguments):
    assert attentions(ml.trace(function, *arguments)) == frozenset()


def test_lookups_read_what_they_find():
    table, rows = ml.dims(vocab=100_000, rows=16)
    program = ml.trace(lambda t, i: ml.take(t, i, "vocab"), ml.f32[table, E], ml.i32[rows])
    assert program.plan(ml.mesh(IDEAL, x=1)).time.memory_bytes < 10 * 16 * 512 * 4


def test_loops_take_as_long_as_their_turns():
    def looped(x, w):
        return jax.lax.scan(lambda c, _: (jnp.tanh(c @ w), None), x.array, None, length=5)[0]

    square = ml.named(jax.ShapeDtypeStruct((512, 512), jnp.bfloat16), "embed _")
    plan = ml.trace(looped, ml.bf16[B, E], square).plan(ml.mesh(IDEAL, data=1))
    assert plan.time.flops == 5 * 2 * 1024 * 512 * 512


def test_bounds_hold_to_the_last_digit():
    """What is computed anew between two collectives adds up to a little more, in the order of the schedule."""
    args = (ml.f32[ml.dims(batch=64, hidden=128)], ml.f32[ml.dims(hidden=128, classes=16)])

    def gradient(x, w):
        return jax.grad(lambda x: jax.checkpoint(lambda x: ml.tanh(ml.dot(x, w, "hidden")))(x).sum())(x)

    time = ml.trace(gradient, *args).plan(ml.mesh("h100", data=4, model=2), "batch:data hidden:model").time
    assert time.lower <= time.estimate <= time.upper


def test_what_is_sent_behind_a_loop_waits_for_what_the_loop_sends():
    """Both gather over the same links, and the second gather waits for nothing that the loop makes."""

    def fn(x, stack, last):
        turned = jax.lax.scan(lambda c, w: (jnp.tanh(c @ w), None), x, stack)[0]
        return turned @ last

    shapes = ((1024, 512), (8, 512, 512), (512, 512))
    args = (jax.ShapeDtypeStruct(shape, jnp.bfloat16) for shape in shapes)
    program = ml.trace(fn, *(ml.named(a, names) for a, names in zip(args, ("b _", "l _ d", "_ d"), strict=True)))
    layout = {"b": "data", "stack": {"d": "data"}, "last": {"d": "data"}}
    for prefetch in (False, True):
        time = program.plan(ml.mesh(IDEAL, data=4), layout).time.given(prefetch=prefetch)
        assert max(time.spent.busy.values()) <= time.spent.elapsed * (1 + 1e-9)


@pytest.mark.parametrize(
    ("axes", "write"),
    [
        ({"data": 2}, 'ml.mesh("v5e:1x2", data=2), say, or ml.mesh("attached", data=2)'),
        ({"data": 2, "micro": ml.serial(4)}, 'ml.mesh("v5e:1x2", data=2, micro=ml.serial(4)), say, or'),
        ({}, 'ml.mesh("v5e:1x1"), say, or ml.mesh("attached")'),
        ({"data": 1024}, 'ml.mesh("h100:128x8", data=1024), say, or'),
    ],
)
def test_without_a_machine_one_is_proposed_that_the_mesh_fits(axes, write):
    plan = NET.plan(ml.mesh(**axes))
    with pytest.raises(ml.HardwareError) as raised:
        _ = plan.time
    text = f"plan.time needs a machine, and the mesh {plan.mesh} is on none. Write {write}"
    assert str(raised.value).startswith(text)
    assert str(raised.value).endswith(" for the devices here.")
    made = eval(write.split(", say")[0], {"ml": ml})
    assert NET.plan(made).time.estimate > 0
    # What is on the way from the plan to the machine is no matter of who asked.
    assert [frame.name for frame in traceback.extract_tb(raised.value.__traceback__)][-1] == "time"


def test_a_mesh_that_no_usual_machine_takes_is_for_the_devices_here():
    with pytest.raises(
        ml.HardwareError, match=r'is on none. Write ml.mesh\("attached", data=319\) for the devices here'
    ):
        _ = NET.plan(ml.mesh(data=319)).time


def test_what_is_missing_or_unknown_is_told():
    time = NET.plan(ml.mesh("v5e", data=2), "batch:data").time
    with pytest.raises(ml.HardwareError, match=r"There is no option `flash`. There are `attention`, `prefetch`"):
        time.given(flash=True)
    with pytest.raises(ml.HardwareError, match=r"There is no attention 'flesh'. Did you mean `flash`\?"):
        time.given(attention="flesh")
    lonely = dataclasses.replace(ml.hardware("h100"), inter_node=None)
    with pytest.raises(ml.HardwareError, match=r"no figure for the network between nodes, and this collective crosses"):
        _ = NET.plan(ml.mesh(lonely, data=16), "ffn:data").time


def test_a_plan_is_told_where_its_machine_lacks_a_figure():
    b, e, f = ml.dims(batch=64, embed=64, ffn=64)
    program = ml.trace(lambda x, w: ml.dot(x, w, e), ml.i8[b, e], ml.i8[e, f])
    plan = program.plan(ml.mesh("t4", data=2), "batch:data")
    said = "NVIDIA T4 has no figure for matmuls in int8"
    with pytest.raises(ml.HardwareError, match=said):
        _ = plan.time
    for text in (repr(plan), plan._repr_html_()):
        assert f"not predicted: {said}" in text
        assert "estimated step time" in text
    document = json.loads(plan.to_json())
    assert document["time"] is None
    assert document["no_time"].startswith(said)
    assert document["peak_bytes"] == plan.memory.peak_bytes


def test_it_is_told_in_words_with_what_was_recalled():
    plan = NET.plan(ml.mesh("v5e", model=4), "ffn:model")
    text, _, why = str(plan.time).rpartition("\n")
    assert text in str(plan)
    assert why == plan.time.because
    assert str(plan).count("Google TPU v5e, 2x2") == 1
    assert "<td style='text-align:left'>Google TPU v5e, 2x2</td>" in plan.time._repr_html_()
    written = json.loads(plan.to_json())["time"]
    assert written["estimate"] == plan.time.estimate
    assert written["because"] == plan.time.because
    assert [(piece["name"], piece["because"]) for piece in written["pieces"]] == [
        (piece.name, piece.because) for piece in plan.time.pieces
    ]
    assert "time" not in json.loads(NET.plan(ml.mesh(model=4), "ffn:model").to_json())
    assert "machine" in text
    assert "Google TPU v5e, 2x2" in text
    assert "communication over model" in text
    assert "efficiency.launch" in text
    assert np.isfinite(NET.plan(ml.mesh("cpu", data=8), "batch:data").time.estimate)


def test_parts_that_take_no_time_are_not_told():
    rows = dict(ml.trace(ml.relu, ml.bf16[B, E]).plan(ml.mesh(IDEAL, data=2), "batch:data").time.rows())
    assert rows.keys() >= {"estimated step time", "bound by", "memory-bound kernels"}
    assert not rows.keys() & {"compute-bound kernels", "exposed communication"}
    rows = dict(NET.plan(ml.mesh("v5e", model=4), "ffn:model").time.rows())
    assert rows.keys() >= {"compute-bound kernels", "communication over model", "exposed communication"}
    assert "memory-bound kernels" not in rows  # its kernels all wait for the matrix units
    rows = dict(ml.trace(lambda x: x, ml.bf16[B, E]).plan(ml.mesh(IDEAL, data=2)).time.rows())
    assert (rows["compute-bound kernels"], rows["memory-bound kernels"]) == ("0 s", "0 s")


@pytest.mark.share(3)
@pytest.mark.parametrize("name", ["transformer_adamw", "moe_sgd", "convnet_sgd", "gpt2_adamw"])
def test_every_collective_of_a_plan_is_priced_as_it_is_alone(name):
    """In the plan's own list each collective has the bytes of its operand; of the full array where it gathers."""
    gathering = ("all-gather", "all-to-all", "collective-permute")
    for mesh, layout in draw(MODELS[name].trace(), seed=7, count=4):
        plan = MODELS[name].trace().plan(ml.lay(mesh, "h100"), layout)
        sent = dict.fromkeys(plan.time.communication, 0.0)
        for c in plan.collectives:
            full = c.payload_bytes * (math.prod(mesh.axes[a] for a in c.axes) if c.kind in gathering else 1)
            sent["+".join(c.axes)] += c.times * ml.collective_time(c.kind, full, plan.mesh, c.axes)
        assert plan.time.communication == pytest.approx(sent)


@pytest.mark.parametrize(
    ("machine", "message"),
    [
        ("v6e", "v6e: published steps took "),
        ("l4", "Not measured for l4 yet, only for "),
        ("cpu", "Not measured for cpu"),
    ],
)
def test_a_time_says_how_far_off_such_predictions_were(machine, message):
    time = NET.plan(ml.mesh(machine, data=8), "batch:data").time
    assert dict(time.rows())["accuracy"].startswith(message)
