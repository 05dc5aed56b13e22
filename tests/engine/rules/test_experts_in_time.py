"""Tokens that go to experts in micro-batches: equal to all at once, sent as counted, dropped as counted by hand."""

from __future__ import annotations

import itertools
import re

import jax
import numpy as np
import pytest

import meshlab as ml
from meshlab.engine.tensors.experts import Routing
from tests.engine.rules.test_experts import (
    PROGRAM,
    TOKENS,
    Batch,
    Embed,
    K,
    Params,
    Seq,
    choices,
    close,
    counted,
    drawn,
    experts,
    kept_by_hand,
    plain,
    step,
)

pytestmark = pytest.mark.share(3, of="file")

GATHERED = {"batch": "data+micro", "experts": "data", "@experts": {"batch": "micro"}}
TWO, FOUR = (ml.mesh(data=2, micro=ml.serial(count)) for count in (2, 4))


@pytest.mark.parametrize(
    ("mesh", "layout", "sent"),
    [
        # In each micro-batch there and back twice, and ids; one gradient of the router for all of them.
        (FOUR, "batch:data+micro experts:data", {("all-to-all", ("data",)): 20, ("all-reduce", ("data",)): 1}),
        (FOUR, "batch:data+micro", {("all-reduce", ("data",)): 3}),
        (FOUR, "batch:data seq:micro experts:data", {("all-to-all", ("data",)): 20, ("all-reduce", ("data",)): 1}),
        (
            ml.mesh(data=2, expert=2, micro=ml.serial(2)),
            "batch:data+expert+micro experts:expert",
            {("all-to-all", ("expert",)): 10, ("all-reduce", ("data",)): 2, ("all-reduce", ("data", "expert")): 1},
        ),
        # Each device has all tokens of its part of the batch, and results are summed over the experts.
        (
            ml.mesh(data=2, expert=2, micro=ml.serial(2)),
            "batch:data+micro experts:expert",
            {("all-reduce", ("expert",)): 6, ("all-reduce", ("data",)): 3},
        ),
        (
            ml.mesh(data=2, tp=2, micro=ml.serial(2)),
            "batch:data+micro experts:data ffn:tp",
            {("all-to-all", ("data",)): 10, ("all-reduce", ("tp",)): 4, ("all-reduce", ("data",)): 1},
        ),
    ],
    ids=str,
)
def test_each_micro_batch_sends_its_rows(mesh, layout, sent):
    plan = PROGRAM.plan(mesh, layout)
    assert {key: times for key, (times, _) in counted(plan).items()} == sent
    report = plan.check(*drawn(skew=1.0))
    assert report.ok, report


def test_as_many_bytes_go_there_and_back_as_all_at_once():
    """In more and smaller pieces."""
    alone = counted(PROGRAM.plan(ml.mesh(data=2), "batch:data experts:data"))["all-to-all", ("data",)]
    for mesh, count in ((TWO, 2), (FOUR, 4)):
        times, payload = counted(PROGRAM.plan(mesh, "batch:data+micro experts:data"))["all-to-all", ("data",)]
        assert (times, payload) == (count * alone[0], alone[1])


def test_gathered_tokens_are_those_of_a_micro_batch():
    """All-gathers of choices, tokens, weights and cotangents, reduce-scatters back: of so many tokens in each."""
    program = ml.trace(lambda p, x: experts(p, x, 2.0), Params, ml.f32[Batch, Seq, Embed])
    plan = program.plan(FOUR, GATHERED)
    part = TOKENS // 2
    assert counted(plan) == {
        ("all-gather", ("data",)): (12, part * 4 * (Embed.size + 2 * K.size)),
        ("reduce-scatter", ("data",)): (4, 2 * part * 4 * Embed.size),
    }
    report = plan.check(*drawn(skew=1.0))
    assert report.ok, report


@pytest.mark.parametrize("count", [1, 4])
def test_gradients_of_gathered_tokens_are_gathered_once(count):
    """Beside what goes forward the cotangents of tokens alone, and not one for each of their choices."""
    plan = PROGRAM.plan(ml.mesh(data=2, micro=ml.serial(count)), GATHERED)
    part, sent = TOKENS // 2, counted(plan)
    assert sent["all-gather", ("data",)] == (4 * count, part * 4 * (2 * Embed.size + 2 * K.size))
    # Results, the gradient of tokens, and that of the weights of their choices.
    assert sent["reduce-scatter", ("data",)] == (3 * count, 2 * part * 4 * (2 * Embed.size + K.size))
    report = plan.check(*drawn(skew=1.0))
    assert report.ok, report


def test_results_are_those_of_one_device():
    """Descent in float32 to 1e-6, and in float64 to 1e-12; reduced once, in each micro-batch, and in shards."""
    for dtype, tolerance in ((np.float32, 1e-6), (np.float64, 1e-12)):
        with jax.enable_x64(dtype is np.float64):
            params, x = drawn(dtype=dtype, skew=1.0)
            program = ml.trace(step(8.0), params, x)
            alone = jax.jit(step(8.0))(params, x)
            for mesh, layout in (
                (FOUR, "batch:data+micro experts:data"),
                (ml.mesh(data=2, ep=2, micro=ml.serial(2, "each")), "batch:data+ep+micro experts:ep"),
                (
                    ml.mesh(data=2, tp=2, micro=ml.serial(2, "each", "each")),
                    {"batch": "data+micro", "experts": "data", "ffn": "tp", "params/router": {"embed": "data"}},
                ),
            ):
                close(program.plan(mesh, layout).run(params, x), alone, tolerance)


@pytest.mark.parametrize(
    ("mesh", "layout", "sent"),
    [
        (
            ml.mesh(data=2, ep=2, micro=ml.serial(2)),
            {"batch": "data+ep+micro", "experts": "ep", "params/*": {"embed": "data"}},
            {("all-to-all", ("ep",)): 2 * 8 * 3},
        ),
        (ml.mesh(data=4, micro=ml.serial(2)), GATHERED, {("all-gather", ("data",)): 2 * 7 * 3}),
        # Two stages of a pipeline: each sends the rows of its own layers.
        (
            ml.mesh(data=2, pipe=ml.stages(2), micro=ml.serial(4)),
            "batch:data+micro experts:data layers:pipe",
            {("all-to-all", ("data",)): 4 * 8 * 2},
        ),
    ],
    ids=str,
)
def test_layers_that_are_computed_again(mesh, layout, sent):
    """With FSDP beside, with gathered tokens, and in a pipeline."""
    Layers = ml.Dim("layers", 4 if mesh.stages else 3)

    def loss(params, x):
        layer = ml.checkpoint(lambda x, w: x + experts(w, x, 4.0)[0])
        x, _ = ml.scan(lambda x, w: (layer(x, w), None), x, params, Layers)
        return (x**2).mean()

    def train(params, x):
        value, grads = jax.value_and_grad(loss)(params, x)
        return value, jax.tree.map(lambda p, g: p - 0.1 * g, params, grads)

    stacked = {name: ml.f32[(Layers, *x.dims)] for name, x in Params.items()}
    plan = ml.trace(train, stacked, ml.f32[Batch, Seq, Embed]).plan(mesh, layout)
    times = {key: times for key, (times, _) in counted(plan).items()}
    assert {key: times[key] for key in sent} == sent
    report = plan.check()
    assert report.ok, report


@pytest.mark.parametrize("factor", [1.0, 1.25, 2.0])
def test_each_micro_batch_has_places_of_its_own(factor):
    """What finds none is dropped, later tokens of the micro-batch first; with a factor of the devices nothing is."""
    params, x = drawn(skew=2.0)
    program = ml.trace(step(factor), Params, ml.f32[Batch, Seq, Embed])
    _, y, dropped, *_ = program.plan(TWO, "batch:data+micro experts:data").run(params, x)
    choice = choices(params, x)
    kept = np.zeros(choice.shape, bool)
    # A micro-batch has half of each device's part of the batch.
    for number in range(2):
        here = np.concatenate([part[2 * number : 2 * number + 2] for part in np.split(np.arange(8), 2)])
        kept[here] = kept_by_hand(choice[here], factor, 2)
    assert dropped == (~kept).sum()
    assert (dropped > 0) == (factor == 1)
    close(y.array, plain(params, x.array, kept), 1e-6)


def test_micro_batches_save_memory_and_no_work():
    mesh = [ml.mesh("h100:1x1x2", data=2, micro=ml.serial(count)) for count in (1, 4)]
    whole, parts = (PROGRAM.plan(each, "batch:data+micro experts:data") for each in mesh)
    assert parts.time.flops == whole.time.flops > 0
    assert parts.memory.peak_bytes < 0.6 * whole.memory.peak_bytes
    assert parts.time.given(load="zipf:1").experts == whole.time.given(load="zipf:1").experts
    assert parts.memory.range.most == whole.memory.range.most


def refused(program, mesh, layout):
    with pytest.raises(ml.LayoutError) as error:
        program.plan(mesh, layout)
    return [str(problem) for problem in error.value.problems]


def test_experts_and_places_are_in_no_micro_batch():
    texts = refused(PROGRAM, FOUR, {"experts": "micro", "ffn": "data"})
    assert re.search(r"`experts` cannot be on `micro`: `route_experts` at .* needs all of `experts` at once", texts[0])
    texts = refused(PROGRAM, FOUR, {"rows": "micro"})
    assert re.search(r"`rows` cannot be on `micro`: `route_experts` at .* needs all of `rows` at once", texts[0])


@pytest.mark.parametrize(
    ("layout", "parts", "of", "factor"),
    [
        ("batch:data experts:data seq:micro", 8, "micro", "1.25"),
        ("batch:data seq:micro", 16, r"data\+micro", "1.5"),
    ],
    ids=str,
)
def test_places_that_micro_batches_do_not_divide_are_refused(layout, parts, of, factor):
    """With a factor that fits."""
    mesh = ml.mesh(data=2, micro=ml.serial(8))
    program = ml.trace(step(1.125), Params, ml.f32[Batch, Seq, Embed])
    (text,) = refused(program, mesh, layout)
    said = rf"`seq` cannot be on `micro`: `route_experts` at .* has 36 places for each expert, which the {parts} parts"
    fix = rf"Give ml\.dispatch the factor {factor}, or take `seq` off"
    assert re.search(rf"{said} of `{of}` do not divide\. {fix}", text)
    fits = ml.trace(step(float(factor)), Params, ml.f32[Batch, Seq, Embed])
    assert fits.plan(mesh, layout).collectives
    # The zones of a board know it, with the experts where they are.
    table = program.refusals(mesh, {"batch": "data", "experts": "data"})
    assert "has 36 places" in str(table["seq"]["micro"])
    assert fits.refusals(mesh, {"batch": "data", "experts": "data"})["seq"]["micro"] is None


def test_a_factor_that_is_proposed_gives_the_places_that_fit():
    """With 3 experts 1.666666667, which is 20 / 12, gave 21 places for each."""
    for number, tokens in itertools.product((2, 3, 7, 12), (9, 12, 20, 49)):
        how = Routing.of(number, tokens, 1.0, 1)
        for room in range(how.room, 3 * how.room):
            written = float(f"{how.factor_of(room):.15g}")
            assert Routing.of(number, tokens, written, 1).room == room
    assert Routing.of(3, 36, 1.2, 1).factor_of(20) == 1.6
    assert Routing.of(4, 128, 1.125, 1).factor_of(40) == 1.25


def test_places_of_gathered_tokens_need_not_be_divided_by_devices():
    """36 for each expert are 9 in each of four micro-batches, on both devices."""
    program = ml.trace(lambda p, x: experts(p, x, 1.125), Params, ml.f32[Batch, Seq, Embed])
    params, x = drawn()
    plan = program.plan(FOUR, GATHERED)
    assert {c.kind for c in plan.collectives if c.shape} == {"all-gather", "reduce-scatter"}
    y, dropped = plan.run(params, x)
    assert y.array.shape == x.array.shape
    assert 0 <= dropped < TOKENS


def test_places_are_split_by_devices_before_time():
    """Tokens in time by their first dim, and on devices by another one: what is summed for their rows is found."""
    mesh = ml.mesh(x=2, y=2, t=ml.serial(2))
    for layout in ({"batch": "t", "@experts": {"embed": "x", "seq": "y"}}, {"batch": "t", "seq": "y", "ffn": "x"}):
        report = PROGRAM.plan(mesh, layout).check(*drawn(0))
        assert report.ok, report
