"""A pipeline as a program: stages are a dim, a tick hands all work to the next stage, microbatches enter in turn."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import meshlab as ml

STAGES, MICRO = 2, 6
Stage, Batch, Embed, Ffn = ml.dims(stage=STAGES, batch=4, embed=8, ffn=16)
Tick = ml.Dim("tick", MICRO + STAGES - 1)
WEIGHTS = ml.f32[Stage, Embed, Ffn], ml.f32[Stage, Ffn, Embed]


def stage(x, w, v):
    return ml.dot(ml.tanh(ml.dot(x, w, Embed)), v, Ffn)


def pipeline(w, v, xs):
    """Runs microbatches, one a tick, through all stages; what the last stage hands out comes `STAGES - 1` ticks later.

    Args:
        w: [stage, embed, ffn].
        v: [stage, ffn, embed].
        xs: [tick, batch, embed], of which the last `STAGES - 1` only empty the pipeline.
    """
    first = ml.tensor(jnp.arange(STAGES) == 0, Stage)

    def tick(state, x):
        state = ml.vmap(stage, Stage)(ml.where(first, x, ml.shift(state, Stage, 1)), w, v)
        return state, state

    start = ml.tensor(jnp.zeros((STAGES, 4, 8)), Stage, Batch, Embed)
    return ml.scan(tick, start, xs, Tick)[1]


def step(w, v, xs):
    def loss(weights):
        return ml.square(pipeline(weights[0], weights[1], xs)).mean()

    value, grads = jax.value_and_grad(loss)((w, v))
    return value, w - 0.1 * grads[0], v - 0.1 * grads[1]


@pytest.fixture(scope="module")
def program() -> ml.Program:
    return ml.trace(step, *WEIGHTS, ml.f32[Tick, Batch, Embed])


def test_it_computes_what_the_stages_do_one_after_the_other():
    draw = np.random.default_rng(0)
    w, v, xs = (
        ml.tensor(draw.normal(size=tuple(dim.size for dim in dims)).astype(np.float32), *dims)
        for dims in ((Stage, Embed, Ffn), (Stage, Ffn, Embed), (Tick, Batch, Embed))
    )
    result = pipeline(w, v, xs).array
    assert result.shape == (MICRO + STAGES - 1, STAGES, 4, 8)
    for number in range(MICRO):
        x = ml.tensor(xs.array[number], Batch, Embed)
        for each in range(STAGES):
            x = stage(x, ml.tensor(w.array[each], Embed, Ffn), ml.tensor(v.array[each], Ffn, Embed))
        np.testing.assert_allclose(result[number + STAGES - 1, -1], x.array, rtol=1e-5)


@pytest.mark.parametrize("layout", ["stage:pipe", "stage:pipe batch:data"])
def test_stages_on_a_mesh_axis_send_their_edge_to_the_next(program, layout):
    plan = program.plan(ml.mesh(pipe=2, data=2), layout)
    permutes = [c for c in plan.collectives if c.kind == "collective-permute"]
    assert {c.axes for c in permutes} == {("pipe",)}
    # Once a tick, forward and backward.
    assert [c.times for c in permutes] == [MICRO + STAGES - 1] * 2
    report = plan.check()
    assert report.ok, str(report)


def test_its_bubbles_are_flops_that_are_done(program):
    """Forward and backward of two matmuls for each stage and tick; of all ticks `MICRO` have work for a stage."""
    plan = program.plan(ml.mesh(pipe=STAGES), "stage:pipe")
    useful = STAGES * MICRO * 3 * 2 * (2 * 4 * 8 * 16)
    assert plan.work.unsharded_flops / useful == pytest.approx((MICRO + STAGES - 1) / MICRO, rel=0.1)
    assert plan.work.flops == plan.work.unsharded_flops / STAGES
    assert plan.work.is_divided


def test_the_dim_of_the_ticks_is_refused(program):
    with pytest.raises(ml.LayoutError, match="`tick` is the dim of a scan, whose iterations are sequential"):
        program.plan(ml.mesh(pipe=Tick.size), "tick:pipe")
