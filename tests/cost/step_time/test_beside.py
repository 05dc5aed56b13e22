"""Collectives piece by piece beside the matmuls that need them: what is exposed, and which are not hidden so."""

import jax
import jax.numpy as jnp
import pytest

import meshlab as ml

IDEAL = ml.hardware("v5e").ideal
SEQ, EMBED, FFN = ml.dims(seq=4096, embed=2048, ffn=8192)
SPLIT = {"ffn": "model", "x": {"seq": "model"}, "out": {"seq": "model"}}
ARGS = ml.bf16[SEQ, EMBED], ml.bf16[EMBED, FFN], ml.bf16[FFN, EMBED]


def network(egress):
    """A machine without latencies, whose devices send so many bytes/s."""
    return ml.Hardware.of(
        "mine", flops={"bf16": 1e14}, memory=1e12, bandwidth=1e30, network=ml.Switch.of(8, egress=egress)
    )


def up(x, w, _):
    return ml.dot(x, w, "embed")


def down(x, w, v):
    return ml.dot(ml.dot(x, w, "embed"), v, "ffn")


def times(function, egress, layout, n=4):
    time = ml.trace(function, *ARGS).plan(ml.mesh(network(egress), model=n), layout).time
    return time, time.given(beside=True)


@pytest.mark.parametrize("egress", [1e9, 1e11, 1e13])
@pytest.mark.parametrize("n", [2, 4])
def test_a_gather_waits_for_all_of_a_matmul_or_the_matmul_for_its_last_piece(egress, n):
    """The device has one piece, and computes with it while the next one comes."""
    time, beside = times(up, egress, {"ffn": "model", "x": {"seq": "model"}}, n)
    matmul, sent = time.compute, time.communication["model"]
    assert sent > 0
    assert time.estimate == pytest.approx(matmul + sent)
    assert beside.estimate == pytest.approx(max(matmul, sent + matmul / n))
    assert (beside.compute, beside.communication) == (time.compute, time.communication)


@pytest.mark.parametrize("egress", [1e9, 1e11, 1e13])
def test_a_sum_begins_with_the_first_piece_and_ends_with_the_last(egress):
    layout = {"ffn": "model", "out": {"seq": "model"}}
    time, beside = times(down, egress, layout)
    sent = time.communication["model"]
    first, second = (cost.seconds for _, _, cost in time.spent.kernels if cost.flops)
    assert time.estimate == pytest.approx(first + second + sent)
    assert beside.estimate == pytest.approx(first + max(second / 4 + sent, second + sent / 4))


def test_both_halves_of_a_layer_hide_what_they_can():
    """Where matmuls take long, a sum's last piece alone is exposed: Wang et al. 2023."""
    time, beside = times(down, 1e12, SPLIT)
    summed = max(seconds for step, _, seconds in time.spent.rows if getattr(step, "collective", None))
    assert time.exposed == pytest.approx(time.communication["model"])
    assert beside.exposed == pytest.approx(summed / 4)
    assert beside.lower <= beside.estimate <= beside.upper == time.upper


def test_the_sum_of_what_is_added_of_matmuls_goes_beside_the_last():
    """The gradient of the input of two matmuls, of which each device has a part."""

    def gradient(dy, w, v):
        return ml.dot(dy, w, "ffn") + ml.dot(dy, v, "ffn")

    args = ml.bf16[SEQ, FFN], ml.bf16[EMBED, FFN], ml.bf16[FFN, EMBED]
    plan = ml.trace(gradient, *args).plan(ml.mesh(network(1e12), model=4), {"ffn": "model", "out": {"seq": "model"}})
    assert [row.kind for row in plan.collectives] == ["reduce-scatter"]
    assert plan.time.exposed == pytest.approx(plan.time.communication["model"])
    assert plan.time.given(beside=True).exposed == pytest.approx(plan.time.communication["model"] / 4, rel=0.05)


def test_a_gather_that_another_operation_reads_ends_before_both():
    """Its parts are in no order: a sort begins with all of it."""

    def both(x, w, _):
        return ml.dot(x, w, "embed"), ml.sort(x, "seq")

    layout = {"ffn": "model", "x": {"seq": "model"}}
    time, beside = times(both, 1e11, layout)
    assert [(row.kind, row.value) for row in ml.trace(both, *ARGS).plan(ml.mesh(model=4), layout).collectives] == [
        ("all-gather", "x")
    ]
    assert beside.estimate == time.estimate > time.compute


def test_sweeps_price_each_point_so():
    plan = ml.trace(down, *ARGS).plan(ml.mesh(IDEAL, model=4), SPLIT)
    swept = ml.sweep(plan, model=[2, 4, 8], beside=True)
    for n, estimate in zip((2, 4, 8), swept.estimate, strict=True):
        own = ml.trace(down, *ARGS).plan(ml.mesh(IDEAL, model=n), SPLIT)
        assert estimate == pytest.approx(own.time.given(beside=True).estimate)


def test_a_program_without_collectives_takes_as_long():
    x = jax.ShapeDtypeStruct((256, 256), jnp.bfloat16)
    time = ml.trace(jnp.matmul, x, x).plan(ml.mesh("h100", x=1)).time
    assert time.given(beside=True).estimate == time.estimate
    with pytest.raises(ml.HardwareError, match="`beside` must be True or False, not 'ring'"):
        time.given(beside="ring")
