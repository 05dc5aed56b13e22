"""Random masks, as dropout draws them: what their bits hold in memory, and take, is what compilers make of them."""

import jax
import jax.numpy as jnp
import pytest

import meshlab as ml
from meshlab.cost.compilers.compile_for import compile_for

MESHES = {"h100": ml.mesh("h100:1x8", data=8), "v5e": ml.mesh("v5e:2x4", data=8)}


def dropped(key, on):
    """Three layers with dropout, planned over the batch."""

    def net(w, x, key):
        for i in range(3):
            x = jax.nn.relu(x @ w)
            x = jnp.where(jax.random.uniform(jax.random.fold_in(key, i), x.shape) < 0.9, x / 0.9, 0.0)
        return x

    arrays = (jax.ShapeDtypeStruct(shape, jnp.float32) for shape in ((256, 256), (1024, 64, 256)))
    named = [ml.named(array, names) for array, names in zip(arrays, ("embed _", "batch seq embed"), strict=True)]
    return ml.trace(net, *named, key).plan(MESHES[on], "batch:data")


@pytest.mark.parametrize("on", MESHES)
def test_how_the_key_is_written_costs_nothing(on):
    raw, typed = dropped(jax.random.PRNGKey(0), on), dropped(jax.random.key(0), on)
    assert raw.time.estimate == pytest.approx(typed.time.estimate)
    assert raw.memory.peak_bytes == pytest.approx(typed.memory.peak_bytes, rel=1e-4)


@pytest.mark.share(4)
@pytest.mark.parametrize("on", MESHES)
def test_the_peak_is_near_the_compilers(on):
    """The rounds of the hash are fused: its words and counts are nowhere in memory. (Issue 14559 of JAX.)"""
    plan = dropped(jax.random.key(0), on)
    compiled, activation = compile_for(plan), plan.program.value(plan.program.arguments[1].value).nbytes / 8
    assert abs(plan.memory.peak_bytes - compiled.memory.peak_bytes) < activation
