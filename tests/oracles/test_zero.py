"""What ZeRO stores and sends.

Source: Rajbhandari et al. 2019, ZeRO (https://arxiv.org/abs/1910.02054), figure 1, table 1 and section 7.
"""

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
    found = dict.fromkeys(expected, 0.0)
    for c in plan.collectives:
        found[c.kind] += c.wire_bytes * c.times / 2
    ring = zero.parameters("small") * (devices - 1) / devices
    assert found == {kind: times * ring for kind, times in expected.items()}
