"""How tokens fall on experts: rows as NumPy counts them, the slowest device's time, and what finds no place."""

from __future__ import annotations

import jax
import numpy as np
import pytest

import meshlab as ml
from meshlab.cost.machines.hardware import HardwareError
from meshlab.cost.workload.token_load import rows_of

Experts, K = ml.dims(experts=8, k=2)
BATCH, SEQ, EMBED, FFN = 16, 1024, 8192, 8192
CHOICES = BATCH * SEQ * K.size


def program(factor: float, batch: int = BATCH, sizes: tuple[int, int, int] = (SEQ, EMBED, FFN)) -> ml.Program:
    """A loss and its gradients, of tokens whose experts are given."""
    Batch, Seq, Embed, Ffn = (
        ml.Dim(*each) for each in zip(("batch", "seq", "embed", "ffn"), (batch, *sizes), strict=True)
    )

    def loss(weights, x, choice):
        with jax.named_scope("experts"):
            rows, sent = ml.dispatch(x, choice, Experts, factor=factor)
            hidden = ml.silu(ml.ragged_dot(rows, weights["up"], sent, Embed))
            y = ml.combine(ml.ragged_dot(hidden, weights["down"], sent, Ffn), sent)
        return (y * y).sum(), sent.dropped

    weights = {"up": ml.f32[Experts, Embed, Ffn], "down": ml.f32[Experts, Ffn, Embed]}
    step = jax.value_and_grad(loss, argnums=(0, 1), has_aux=True)
    return ml.trace(step, weights, ml.f32[Batch, Seq, Embed], ml.i32[Batch, Seq, K])


PROGRAM = program(8.0)
# Two products, each with its two gradients.
FLOPS_OF_A_ROW = 6 * 2 * EMBED * FFN


def skewed(seed: int, seq: int = SEQ) -> np.ndarray:
    """Choices of two experts a token, the first of them often."""
    random = np.random.default_rng(seed)
    logits = -np.log(np.arange(1, 9)) + random.gumbel(size=(BATCH, seq, 8))
    return np.argsort(-logits, -1)[..., :2].astype(np.int32)


def plan_on(n: int, factor: float = 8.0) -> ml.Plan:
    traced = PROGRAM if factor == 8.0 else program(factor)
    return traced.plan(ml.mesh(f"h100:1x1x{n}", data=n), "batch:data experts:data")


@pytest.mark.parametrize("devices", [64, 16])
def test_one_expert_ten_times_as_often_as_each_other(devices):
    """MaxText's example: of 256 experts, on 64 devices 3 times as long, on 16 half as long again."""
    rows = rows_of((10.0, *[1.0] * 255), 256, devices)
    assert rows.max() == pytest.approx({64: 3, 16: 1.5}[devices], rel=0.05)
    assert rows.mean() == pytest.approx(1)
    assert rows.argmax() == 0


@pytest.mark.parametrize("n", [2, 4, 8])
def test_the_device_with_most_rows_decides(n):
    choice = skewed(n)
    counts = np.bincount(choice.ravel(), minlength=8)
    on_device = counts.reshape(n, -1).sum(1)
    plan = plan_on(n)
    time, even = plan.time.given(load=counts), plan.time
    (found,) = time.experts
    assert (found.device, found.of, found.axes) == (on_device.argmax(), n, ("data",))
    assert found.asked == found.rows == pytest.approx(on_device.max() / (CHOICES / n))
    assert found.experts == (found.device * 8 // n, (found.device + 1) * 8 // n - 1)
    assert not found.dropped
    # All products are those of rows.
    assert even.flops == pytest.approx(CHOICES / n * FLOPS_OF_A_ROW)
    assert time.flops == pytest.approx(on_device.max() * FLOPS_OF_A_ROW)
    assert time.estimate > even.estimate
    # Places are sent, whether there is a row or not.
    assert time.communication == even.communication
    assert dict(time.rows())["experts"] == str(found)
    assert f"`experts` {found.experts[0]}" in str(found)


def test_tpus_send_the_rows_of_the_busiest_device_and_others_all_places():
    """By the compilers: `tests/cost/compilers/test_ragged_rows.py`."""
    sent = {}
    for machine, width in (("v5e:2x2", 8192), ("v5e:2x2", 96), ("h100:1x1x4", 8192)):
        for factor in (2.0, 4.0):
            traced = program(factor, sizes=(SEQ, width, FFN))
            time = traced.plan(ml.mesh(machine, data=4), "batch:data experts:data").time
            sent[machine, width, factor] = [
                time.given(load=load).communication["data"] for load in ("balanced", (3, 1, 1, 1, 1, 1, 0, 0))
            ]
    # A device with half of all rows has twice the mean, of which a factor of 2 has places for all.
    even, skewed = sent["v5e:2x2", 8192, 4.0]
    assert skewed == pytest.approx(2 * even, rel=0.05)
    assert sent["v5e:2x2", 8192, 2.0] == pytest.approx([even, skewed], rel=0.05)
    for machine, width in (("v5e:2x2", 96), ("h100:1x1x4", 8192)):
        even, skewed = sent[machine, width, 4.0]
        assert skewed == even == pytest.approx(2 * sent[machine, width, 2.0][0], rel=0.1)


@pytest.mark.parametrize("factor", [1.0, 1.25, 2.0])
def test_what_finds_no_place_is_what_a_run_drops(factor):
    """Where each device chooses alike, as is assumed."""
    mesh = ml.mesh("h100:1x1x4", data=4)
    choice = np.tile(skewed(0, 64)[:4], (4, 1, 1))
    counts = np.bincount(choice.ravel(), minlength=8)
    small = program(factor, sizes=(64, 8, 8))
    plan = small.plan(mesh, "batch:data experts:data")
    (found,) = plan.time.given(load=tuple(counts.tolist())).experts
    dropped = np.maximum(counts.reshape(4, -1).sum(1) - factor * choice.size / 4, 0).sum() / choice.size
    assert found.dropped == pytest.approx(dropped)
    assert found.rows == pytest.approx(min(found.asked, factor))
    up = ml.tensor(np.ones((8, 8, 8), np.float32), Experts, "embed", "ffn")
    weights = {"up": up, "down": up.rename(embed="ffn", ffn="embed")}
    x = ml.tensor(np.ones((BATCH, 64, 8), np.float32), "batch", "seq", "embed")
    (_, lost), _ = plan.run(weights, x, ml.tensor(choice, "batch", "seq", K))
    assert int(lost) == round(dropped * choice.size)
    assert ("are dropped" in str(found)) == (lost > 0)


def test_balanced_is_the_default_and_zipf_of_nothing():
    plan = plan_on(4)
    for load in ("balanced", "zipf:0", [3] * 8, np.ones(8)):
        assert plan.time.given(load=load).estimate == plan.time.estimate
        assert "has equally many rows of `experts`" in str(plan.time.given(load=load))
    times = [plan.time.given(load=f"zipf:{power}").estimate for power in (0.5, 1.0, 2.0)]
    assert plan.time.estimate < times[0] < times[1] < times[2]
    shares = 1 / np.arange(1, 9)
    (found,) = plan.time.given(load="zipf:1").experts
    assert found.asked == pytest.approx(shares[:2].sum() / shares.sum() * 4)


def test_experts_on_every_device_take_their_time_whoever_is_chosen():
    plan = PROGRAM.plan(ml.mesh("h100:1x1x4", data=4), "batch:data")
    skew = plan.time.given(load="zipf:2")
    assert skew.estimate == plan.time.estimate
    assert "each device has all `experts`" in str(skew)


def test_groups_of_devices_have_places_of_their_own():
    plan = PROGRAM.plan(ml.mesh("h100:1x1x8", data=2, ep=4), "batch:data+ep experts:ep")
    (found,) = plan.time.given(load=(9, 1, 1, 1, 1, 1, 1, 1)).experts
    assert (found.axes, found.device, found.of) == (("ep",), 0, 4)
    assert found.asked == pytest.approx(10 / 16 * 4)


def test_a_sweep_takes_it_and_other_sizes_are_those_of_plans_made_for_them():
    """Places grow with the tokens: what is sent and stored for them does."""
    swept = ml.sweep(plan_on(4, 2.0), batch=[16, 32, 64], load="zipf:1")
    for at, size in enumerate((16, 32, 64)):
        plan = program(2.0, size).plan(ml.mesh("h100:1x1x4", data=4), "batch:data experts:data")
        assert swept.estimate[at] == pytest.approx(plan.time.given(load="zipf:1").estimate, rel=1e-6)
        assert swept.communication["data"][at] == pytest.approx(plan.time.communication["data"], rel=1e-6)
        assert swept.peak_bytes[at] == pytest.approx(plan.memory.peak_bytes, rel=0.2)
    devices = ml.sweep(plan_on(2, 2.0), data=[2, 4, 8], load="zipf:1").estimate
    for n, seconds in zip((2, 4, 8), devices, strict=True):
        assert seconds == pytest.approx(plan_on(n, 2.0).time.given(load="zipf:1").estimate, rel=1e-6)


def test_auto_knows_the_load():
    """Where one expert gets all tokens, layouts of experts take longer, and are not the fastest any more."""
    mesh = ml.mesh("h100:1x1x4", data=4)
    one = (1, 0, 0, 0, 0, 0, 0, 0)
    even, best = (ml.auto.layout(PROGRAM, mesh, objective="time", options=each) for each in ({}, {"load": one}))
    assert "experts" in even.layout.rules
    assert "experts" not in best.layout.rules
    assert best.proof.value == pytest.approx(best.plan.time.given(load=one).estimate)
    assert best.proof.value < 0.5 * even.plan.time.given(load=one).estimate


def test_without_experts_it_has_no_effect():
    Rows, Width, Out = ml.dims(rows=64, width=64, out=64)
    traced = ml.trace(lambda x, w: ml.dot(x, w, Width), ml.f32[Rows, Width], ml.f32[Width, Out])
    time = traced.plan(ml.mesh("h100:1x1x4", data=4), "rows:data").time
    assert "`load` has no effect" in str(time.given(load="zipf:1"))
    assert "experts" not in dict(time.rows())


@pytest.mark.parametrize(
    "load", ["zipf", "zipf:-1", "zipf:inf", "even", (), (0,) * 8, (1, -1), [[1, 2]], None, 3, ("a", "b"), object()]
)
def test_what_is_no_load_is_refused(load):
    with pytest.raises(HardwareError, match='load must be "balanced", "zipf:1.2"'):
        plan_on(4).time.given(load=load)


def test_counts_are_one_for_each_expert():
    with pytest.raises(HardwareError, match="load has 3 counts; there are 8 `experts`, and each of them needs one"):
        plan_on(4).time.given(load=(1, 2, 3))


def test_all_that_is_wrong_is_said_at_once():
    with pytest.raises(HardwareError, match="There is no attention 'x'.*`book` must be True.*load must be"):
        plan_on(4).time.given(attention="x", book=3, load="x")
