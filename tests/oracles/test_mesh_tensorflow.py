"""The table of Mesh TensorFlow's paper: two dense layers, y = relu(x w) v, under the layouts of its section 3.

Source: Shazeer et al. 2018, Mesh-TensorFlow (https://arxiv.org/abs/1811.02084), table 1, which leaves constant factors
out. Element for element its own counters are held against plans in tests/engine/verifying/test_mesh_tf.py, and the
least memory that its automatic layouts look for (MT-06) in tests/auto.
"""

import pytest

import meshlab as ml
from meshlab.models.basic import mesh_tf
from meshlab.models.parts.initial import shapes
from tests.oracles.programs import flops

P = 4
SIZES = mesh_tf.TwoLayer(batch=32, io=16, hidden=64)
BATCH, IO, HIDDEN = SIZES.batch, SIZES.io, SIZES.hidden


def planned(layout):
    x = ml.f32[SIZES.dims("batch io")]
    program = ml.trace(mesh_tf.train(mesh_tf.two_layer_loss), shapes(mesh_tf.init_two_layer, SIZES), x, x)
    return program.plan(ml.mesh(all=P), layout)


@pytest.mark.parametrize(
    ("layout", "share", "sent", "parameters"),
    [
        pytest.param({}, 1, 0, BATCH * IO + BATCH * HIDDEN + IO * HIDDEN, id="MT-01 none"),
        pytest.param(
            "batch:all",
            P,
            2 * IO * HIDDEN,
            BATCH * IO // P + BATCH * HIDDEN // P + IO * HIDDEN,
            id="MT-02 batch",
        ),
        pytest.param(
            "hidden:all",
            P,
            BATCH * IO,
            BATCH * IO + BATCH * HIDDEN // P + IO * HIDDEN // P,
            id="MT-03 hidden",
        ),
    ],
)
def test_two_layers(layout, share, sent, parameters):
    """Operations, elements sent and elements held by one processor; both layers' weights are sent, so twice d_x d_h."""
    plan = planned(layout)
    # Five products: the gradient of x is not asked for.
    assert flops(plan) == 5 * 2 * BATCH * IO * HIDDEN / share
    # But for the loss, which is one number.
    assert sum(c.payload_bytes // 4 * c.times for c in plan.collectives if c.payload_bytes > 4) == sent
    hidden = next(value for value in plan.program.values if value.dims == ("batch", "hidden"))
    values = (plan.program.place("inputs0"), hidden, plan.program.place("params/w"))
    ranges = [plan.shard(value, 0) for value in values]
    assert sum((a[1] - a[0]) * (b[1] - b[0]) for a, b in ranges) == parameters
