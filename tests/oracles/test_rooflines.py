"""Rooflines of single devices: How to Scale Your Model, chapters 1, 2 and "How to Think About GPUs".

Sources: https://jax-ml.github.io/scaling-book/roofline/ , /tpus/ and /gpus/. The book rounds machines as it goes along;
where a chapter takes another figure than our machine has, the machine is given that figure, and the row says so.
"""

import pytest

import meshlab as ml
from meshlab.cost.machines.hardware import hardware
from tests.oracles.programs import (
    HUGE,
    ONE,
    communication_seconds,
    compute_seconds,
    crossing,
    flops,
    host,
    machine,
    memory_seconds,
    moved,
    product,
    time,
    torus,
)


@pytest.mark.parametrize(
    ("on", "expected"),
    [
        pytest.param(machine("h100"), 1.0111e-3, id="SB-01 H100"),
        pytest.param(machine("v6e", flops=9.1e14), 1.0989e-3, id="SB-01 v6e, there 9.1e14 FLOP/s"),
    ],
)
def test_seconds_of_1e12_operations(on, expected):
    plan = product(5_000, 10_000, 10_000).plan(ONE, {})
    assert flops(plan) == 1e12
    assert compute_seconds(plan, on) == pytest.approx(expected, rel=1e-3)


def critical_batch(on, left, right, dtype):
    """The least batch of a large product at which computing takes longer than reading the weights."""

    def difference(batch):
        plan = product(batch, HUGE, HUGE, left, right).plan(ONE, {})
        return compute_seconds(plan, on, dtype) - memory_seconds(plan, on)

    return crossing(difference, 8, 4096)


@pytest.mark.parametrize(
    ("on", "left", "right", "dtype", "expected"),
    [
        # The critical intensity of a 16-bit product is its critical batch: two operations and two bytes a weight.
        pytest.param(machine("v5e", bandwidth=8.2e11), ml.bf16, None, "bfloat16", 240.24, id="SB-02 v5e, 8.2e11 B/s"),
        pytest.param(machine("h100", flops=990e12), ml.bf16, None, "bfloat16", 295.5, id="SB-03 H100, 990e12 FLOP/s"),
        pytest.param(machine("b200"), ml.bf16, None, "bfloat16", 281.25, id="SB-03 B200"),
        pytest.param(machine("v5e"), ml.i8, None, "int8", 243.2, id="SB-06 v5e, all in int8"),
        pytest.param(machine("v5e", bandwidth=8.2e11), ml.bf16, ml.i8, "bfloat16", 120.1, id="SB-07 v5e, int8 weights"),
    ],
)
def test_the_batch_from_which_a_product_is_bound_by_compute(on, left, right, dtype, expected):
    assert critical_batch(on, left, right, dtype) == pytest.approx(expected, rel=1e-3)


@pytest.mark.parametrize(("name", "expected"), [("h100", 590), ("b200", 562)])
def test_products_of_8_bit_floats_need_twice_the_intensity(name, expected):
    """SB-03."""
    on = machine(name)
    intensity = on.flops_per_second("float8_e4m3fn") / on.bytes_per_second
    assert intensity == pytest.approx(expected, rel=2e-3)


def test_a_dot_product_has_half_an_operation_for_each_byte():
    """SB-04: (2N-1)/(4N+2); a product counts as many additions as multiplications, which is one more."""
    (N,) = ml.dims(n=2**20)
    plan = ml.trace(lambda x, y: ml.dot(x, y, "n"), ml.bf16[N], ml.bf16[N]).plan(ONE, {})
    assert flops(plan) / moved(plan) == pytest.approx(0.5, rel=1e-3)


def test_a_product_split_over_two_chips_is_bound_by_compute_from_some_width():
    """SB-05: bf16, split on the contraction, one link of 4.5e10 bytes/s each way."""
    on = machine("v5e")

    def difference(embed):
        plan = product(1024, embed, 8192).plan(ml.mesh(x=2), "embed:x")
        return compute_seconds(plan, on) - communication_seconds(plan, on, (1, 2), book=False)

    assert crossing(difference, 64, 65536) == pytest.approx(8755.6, rel=1e-3)


@pytest.mark.parametrize(
    ("name", "shape", "hosts", "rate", "memory"),
    [
        pytest.param("v5e", (16, 16), 32, 5.04e16, 4.096e12, id="SB-09"),
        # Each of the 8,960 chips has two cores, which JAX lists as one device.
        pytest.param("v5p", (16, 20, 28), 2240, 4.11e18, 8.60e14, id="SB-10"),
    ],
)
def test_what_a_pod_has(name, shape, hosts, rate, memory):
    on, network = hardware(name), torus(name)
    assert network.limits == shape
    chips = network.largest
    assert chips / on.chips_per_host == hosts
    assert chips * on.flops_per_second("bfloat16") == pytest.approx(rate, rel=1e-3)
    assert chips * on.memory_bytes == pytest.approx(memory, rel=1e-3)


def test_the_batch_from_which_weights_in_the_hosts_memory_do_not_slow_a_product():
    """SB-11: v6e, all of it over PCIe, four times as wide as deep; printed as about 61,000."""
    on = machine("v6e")

    def difference(batch):
        plan = product(batch, HUGE, 4 * HUGE).plan(ONE, {})
        return compute_seconds(plan, on) - moved(plan) / host(on)

    assert crossing(difference, 1024, 262144) == pytest.approx(61_333, rel=1e-3)


def test_weights_from_the_hosts_of_a_slice_to_one_chip():
    """SB-15: int8[128Ki, 128Ki] from the hosts of a v5e 4x4 into one chip's product; the text takes 2^34 as 16e9."""
    on, side = machine("v5e"), 128 * 1024
    weights = side * side
    plan = product(8, side, side, ml.bf16, ml.i8).plan(ONE, {})
    assert weights / 16 / host(on) == pytest.approx(71.6e-3, rel=1e-3)
    assert memory_seconds(plan, on) == pytest.approx(21.2e-3, rel=2e-3)
    assert compute_seconds(plan, on) == pytest.approx(1.395e-3, rel=1e-3)
    # 15 of 16 GB come in by the two links of a corner: as long as the gather of a 4x4 without rings takes.
    gathered = product(8, 125_000, 128_000, ml.i8).plan(ml.mesh(x=4, y=4), {"w": {"ffn": ("x", "y")}})
    assert communication_seconds(gathered, on, (4, 4), book=False) == pytest.approx(166.7e-3, rel=1e-3)


def test_an_addition_of_long_vectors_takes_as_long_as_its_bytes():
    """SB-16: f32, N = 2^30, H100; 4.1 ms were measured."""
    (N,) = ml.dims(n=2**30)
    plan = ml.trace(lambda x, y: x + y, ml.f32[N], ml.f32[N]).plan(ONE, {})
    assert time(plan, machine("h100")).estimate == pytest.approx(3.846e-3, rel=1e-3)
    assert time(plan, hardware("h100")).estimate == pytest.approx(4.1e-3, rel=0.07)


@pytest.mark.parametrize(
    ("batch", "expected"),
    [pytest.param(64, 8.585e-6, id="SB-17 of memory"), pytest.param(512, 14.94e-6, id="SB-17 of compute")],
)
def test_a_small_and_a_large_batch_on_a_b200(batch, expected):
    """There 2.3e15 FLOP/s."""
    on = machine("b200", flops=2.3e15)
    plan = product(batch, 4096, 8192, ml.f16).plan(ONE, {})
    assert time(plan, on).estimate == pytest.approx(expected, rel=1e-3)
