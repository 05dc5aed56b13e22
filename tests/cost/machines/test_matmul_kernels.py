"""How a GPU's kernels multiply: tiles, waves, parts, and what they wait for."""

import dataclasses
import re
from typing import cast

import jax
import numpy as np
import pytest

import meshlab as ml
from meshlab.cost.machines.hardware import HardwareError
from meshlab.cost.machines.matmul_kernels import Narrow

# Ten processors of 1e12 FLOP/s each that lose nothing.
EXACT = ml.MatmulKernels.of(10, base=0.0, share=1.0, smaller=0.0, prologue=0.0, memory=1.0, joining=0.0, partial=1e30)
RATE = 1e13
H100 = cast("ml.MatmulKernels", ml.hardware("h100").matmuls)
TILE = 2 * 256 * 128 * 1024 / 1e12  # seconds of one tile of the largest size with 1,024 products


def seconds(kernels, rows, columns, inner=64, times=1):
    return kernels.multiplying(rows, columns, inner, times, RATE)


def test_a_wave_of_tiles_takes_as_long_for_one_as_for_all():
    slow = dataclasses.replace(EXACT, smaller=ml.Figure(5.0))  # so that no smaller tile pays
    one_wave = seconds(slow, 2560, 128)
    assert one_wave == pytest.approx(TILE / 16)
    assert seconds(slow, 2561, 128) == seconds(slow, 5120, 128) == pytest.approx(2 * one_wave)
    assert seconds(slow, 256, 128, times=10) == one_wave
    assert seconds(slow, 256, 128, times=11) == 2 * one_wave


def test_rows_and_columns_are_padded_to_a_tile_whichever_way_it_lies():
    slow = dataclasses.replace(EXACT, smaller=ml.Figure(5.0))
    assert seconds(slow, 1, 1) == seconds(slow, 256, 128) == seconds(slow, 128, 256)


def test_few_tiles_are_made_in_parts_whose_sums_are_added():
    alone = 2 * 64 * 64 * 4096 / 1e12
    assert seconds(EXACT, 64, 64, 4096) == pytest.approx(alone / 8)  # of 1, 2, 3, 4, 6, 8 and 16 parts: 10 processors
    dear = dataclasses.replace(EXACT, joining=ml.Figure(1.0))
    assert seconds(dear, 64, 64, 4096) == pytest.approx(alone)
    written = dataclasses.replace(EXACT, partial=ml.Figure(8 * 64 * 64 * 8 / alone))
    assert seconds(written, 64, 64, 4096) < alone
    assert seconds(EXACT, 64, 64, 255) == pytest.approx(2 * 64 * 64 * 255 / 1e12)  # too short to be split


def test_filling_a_tile_is_worth_some_products_and_long_runs_lower_the_clocks():
    filled = dataclasses.replace(EXACT, prologue=ml.Figure(64.0))
    assert seconds(filled, 2560, 1280) == pytest.approx(2 * seconds(EXACT, 2560, 1280))
    long = dataclasses.replace(EXACT, sustained=ml.Figure(0.5))
    assert seconds(long, 2560, 1280) == pytest.approx(2 * seconds(EXACT, 2560, 1280))


def test_many_sizes_at_once_are_those_of_each():
    sizes = np.array([1.0, 63.0, 64.0, 200.0, 4097.0])
    at_once = H100.multiplying(sizes, 512, 4096, 1, 989e12)
    assert at_once.tolist() == [H100.multiplying(int(size), 512, 4096, 1, 989e12) for size in sizes]


def test_a_matmul_begins_multiplies_and_reads_meanwhile():
    """Of [m, k] x [k, n] in 16 bits: its base, and the longer of its tiles and its bytes."""
    for m, n, k in ((8, 8192, 8192), (4096, 4096, 4096)):
        program = ml.trace(lambda x, w: x @ w, *(jax.ShapeDtypeStruct(s, "bfloat16") for s in ((m, k), (k, n))))
        multiplying = H100.multiplying(m, n, k, 1, 989e12)
        reading = 2 * (m * k + k * n + m * n) / (3.35e12 * H100.memory.value)
        time = program.plan(ml.mesh("h100", x=1)).time
        assert time.estimate == pytest.approx(H100.base.value + max(multiplying, reading))
        assert (time.compute_bound > 0) == (multiplying > reading)


def test_a_tiny_matmul_waits_for_its_launch_not_for_the_matrix_units():
    program = ml.trace(lambda x, w: x @ w, *[jax.ShapeDtypeStruct((16, 16), "bfloat16")] * 2)
    time = program.plan(ml.mesh("h100", x=1)).time
    assert time.compute_bound == 0
    assert time.memory_bound == time.estimate > 2.67e-6


def test_fused_attention_reaches_a_share_of_its_own():
    b, h, s, d = ml.dims(batch=2, heads=4, seq=512, head=128)

    def attention(q, k, v):
        scores = ml.dot(q, k.rename(seq="kv"), d)
        weights = ml.exp(scores) / ml.exp(scores).sum("kv")
        return ml.dot(weights, v.rename(seq="kv"), "kv")

    plan = ml.trace(attention, *[ml.bf16[b, h, s, d]] * 3).plan(ml.mesh("h100", x=1))
    time = plan.time.given(attention="flash")
    flops = 2 * 2 * 2 * 4 * 512 * 512 * 128
    assert time.flops == flops
    assert sum(cost.matmuls for _, _, cost in time.spent.kernels) == pytest.approx(flops / (0.5 * 989e12), rel=1e-3)


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"share": 1.2}, "Invalid matmul kernels: `share` must be a share of the figures, 0 < share ≤ 1, not 1.2"),
        ({"memory": 0}, "`memory` must be above zero, not 0"),
        ({"base": -1}, "`base` must be a finite number of .*, 0 or more, not -1"),
        ({"processors": 0}, "`processors` must be a positive integer, not 0"),
    ],
)
def test_kernels_that_cannot_be_are_refused(changed, said):
    given = {"processors": 10, "base": 0.0, "share": 1.0, "smaller": 0.0, "prologue": 0.0, "memory": 1.0}
    given |= {"joining": 0.0, "partial": 1e12} | changed
    with pytest.raises(HardwareError, match=said):
        ml.MatmulKernels.of(given.pop("processors"), **given)


def test_a_machine_refuses_what_are_no_kernels():
    said = re.escape("`matmuls` must be an ml.MatmulKernels, not 3")
    with pytest.raises(HardwareError, match=said):
        dataclasses.replace(ml.hardware("h100"), matmuls=3)  # type: ignore[arg-type]


def test_narrower_numbers_have_figures_of_their_own():
    narrow = H100.narrow["fp8"]
    fp8 = H100.of_kind("fp8")
    assert (fp8.base, fp8.share, fp8.memory) == (narrow.base, narrow.share, narrow.memory)
    assert fp8.prologue == narrow.prologue
    assert fp8.joining == H100.joining
    assert H100.of_kind("bf16") is H100
    assert "aiconfigurator" in ml.hardware("h100").figures["matmuls.narrow.fp8.share"].source


def test_what_narrower_numbers_reach_is_checked():
    said = re.escape(
        "Invalid matmul kernels: `memory` must be above zero, not 0; `share` must be a share of the figures"
    )
    with pytest.raises(HardwareError, match=said):
        Narrow(ml.Figure(0.0), ml.Figure(1.5), ml.Figure(0.0), ml.Figure(1.0), ml.Figure(0.0))
