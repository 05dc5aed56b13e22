"""What ZeRO stores and sends.

Source: Rajbhandari et al. 2019, ZeRO (https://arxiv.org/abs/1910.02054), figure 1, table 1 and section 7.
"""

import math

import pytest

import meshlab as ml
from tests.oracles import zero


@pytest.mark.parametrize(
    ("layout", "expected"),
    [
        pytest.param(zero.BASELINE, {"all-reduce": 2}, id="ZR-06 data parallel"),
        pytest.param(zero.OPTIMIZER, {"reduce-scatter": 1, "all-gather": 1}, id="ZR-06 optimizer"),
        pytest.param(zero.GRADIENTS, {"reduce-scatter": 1, "all-gather": 1}, id="ZR-06 and gradients"),
        pytest.param(zero.PARAMETERS, {"reduce-scatter": 1, "all-gather": 2}, id="ZR-06 and parameters"),
    ],
)
@pytest.mark.parametrize("devices", [8, 64])
def test_what_a_step_sends(layout, expected, devices):
    """ZR-06: 2 Psi elements, of parameters too 3 Psi, each times (N-1)/N."""
    plan = zero.program("small", batch=64).plan(ml.mesh(x=devices), layout)
    sent = dict.fromkeys(expected, 0.0)
    for c in plan.collectives:
        sent[c.kind] += c.wire_bytes * c.times / 2
    ring = zero.parameters("small") * (devices - 1) / devices
    assert sent == {kind: times * ring for kind, times in expected.items()}


@pytest.mark.parametrize(
    ("size", "layout", "expected"),
    [
        pytest.param("7.5B", zero.BASELINE, 120, id="ZR-01 data parallel"),
        pytest.param("7.5B", zero.WHOLE_GRADIENTS, 31.406, id="ZR-01 optimizer"),
        pytest.param("7.5B", zero.GRADIENTS, 16.641, id="ZR-01 and gradients"),
        pytest.param("7.5B", zero.PARAMETERS, 1.875, id="ZR-01 and parameters"),
        pytest.param("128B", zero.BASELINE, 2048, id="ZR-04 data parallel"),
        pytest.param("128B", zero.WHOLE_GRADIENTS, 536, id="ZR-04 optimizer"),
        pytest.param("128B", zero.GRADIENTS, 284, id="ZR-04 and gradients"),
        pytest.param("128B", zero.PARAMETERS, 32, id="ZR-04 and parameters"),
    ],
)
def test_what_a_device_holds(size, layout, expected):
    """Table 1, in GB on each of 64 devices: 2 Psi of parameters and of gradients, 12 Psi of Adam in 32 bits.

    The optimizer alone is split where gradients stay whole; where nothing is said of them they are reduced into parts
    as soon as they are made, which is what the paper calls the next stage. There the worst moment comes later, when
    gradients are gone: compilers gather along the first axis, and a new weight is there once more before it is turned.
    """
    plan = zero.program(size).plan(ml.mesh("h100", x=64), layout)
    parts = plan.memory.donated.parts
    state = sum(parts[role] for role in ("parameters", "optimizer state", "master copies"))
    state += parts.get("gradients") or gradients(plan)
    assert state / 1e9 == pytest.approx(expected, rel=1e-3)


DEEPSPEED = (*zero.STATE, "main")


def test_what_deepspeed_estimates_with_gradients_split():
    """ZR-08: 2 Psi + 18 Psi/N, 15.934 GiB for 7.5e9 parameters on 64 devices. It adds gradients up in 32 bits.

    Source: https://github.com/deepspeedai/DeepSpeed, runtime/zero/stage_1_and_2.py, of 4 Psi + 16 Psi/N at first.
    """
    plan = zero.program("7.5B", state=DEEPSPEED).plan(ml.mesh(x=64), zero.GRADIENTS)
    assert (stored(plan) + gradients(plan)) / 2**30 == pytest.approx(15.934, rel=1e-3)


def test_what_deepspeed_estimates_with_parameters_split():
    """ZR-09: 18 Psi/N, 1.965 GiB, and four times the largest layer, which is gathered in 16 bits with its gradient.

    Source: https://github.com/deepspeedai/DeepSpeed, runtime/zero/stage3.py. It leaves out gradients in 16 bits.
    """
    plan = zero.program("7.5B", state=DEEPSPEED).plan(ml.mesh(x=64), zero.PARAMETERS)
    assert stored(plan) / 2**30 == pytest.approx(1.965, rel=1e-3)


@pytest.mark.parametrize(("state", "expected"), [(zero.STATE, 16), (DEEPSPEED, 20)], ids=["ZeRO", "DeepSpeed"])
def test_bytes_of_a_parameter_by_convention(state, expected):
    """ZR-10: Megatron counts 18 (MG-20), without gradients in 16 bits, and the scaling book 10 (SB-57)."""
    plan = zero.program("7.5B", state=state).plan(ml.mesh(x=1), {})
    assert stored(plan) + gradients(plan) == expected * zero.parameters("7.5B")


def stored(plan):
    """Bytes of parameters and of what goes with them from step to step, on a device."""
    return plan.stored.parts["params"] + plan.stored.parts["state"]


def gradients(plan):
    """Bytes of the gradients of both weights, which are as large, where they are stored."""
    value = plan.program.place("grads/params/up")
    elements = math.prod(stop - start for start, stop in plan.shard("grads/params/up", 0))
    return 2 * elements * value.nbytes // math.prod(value.shape)
