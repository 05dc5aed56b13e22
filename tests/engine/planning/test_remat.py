"""Recomputation keeps its memory saving after lowering: XLA's own figures say so."""

import os
import pathlib
import subprocess
import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import meshlab as ml
from meshlab.models.language import transformer
from meshlab.models.parts.initial import shapes
from tests.engine.small_programs import temporary_bytes

ROOT = pathlib.Path(__file__).parents[3]
LAYERS, LAYOUTS = 8, ("", "batch:x", "heads:x ffn:x")


def temporaries(layout, monkeypatch, recomputed):
    if not recomputed:
        monkeypatch.setattr(ml, "checkpoint", lambda fn: fn)
    config = transformer.Config(batch=8, seq=64, vocab=64, embed=32, heads=4, group=1, head=8, ffn=128, layers=LAYERS)
    step = jax.value_and_grad(transformer.loss)
    program = ml.trace(step, shapes(transformer.init, config), *transformer.inputs(config))
    return temporary_bytes(program.plan(ml.mesh(x=4), layout))


@pytest.mark.share(3)
@pytest.mark.parametrize("layout", LAYOUTS)
def test_recomputed_layers_need_less_memory(layout, monkeypatch):
    with_barriers = temporaries(layout, monkeypatch, recomputed=True)
    without = temporaries(layout, monkeypatch, recomputed=False)
    # A layer keeps scores and hidden activations, several times the stream that is all that a checkpoint keeps.
    assert with_barriers < 0.5 * without


def small_loop():
    """Recomputation in a loop whose arrays are of a few bytes."""
    (a,) = ml.dims(a=8)
    turn = ml.checkpoint(lambda x, _: (jnp.sin(jnp.sin(x)), None))

    def fn(x):
        return jax.grad(lambda x: jax.lax.scan(turn, x, None, length=3)[0].sum())(x.array)

    x = np.arange(8, dtype=np.float32)
    for layout in ("", "a:x"):
        plan = ml.trace(fn, ml.f32[a]).plan(ml.mesh(x=2), layout)
        np.testing.assert_allclose(plan.run(x), jax.jit(lambda x: fn(ml.tensor(x, a)))(x), rtol=1e-6)


def test_a_small_loop_recomputes_without_ending_the_process():
    """In a process of its own, as users compile: with XLA's usual generator (jaxlib 0.10.0 to 0.12.0.1)."""
    code = "from tests.engine.planning.test_remat import small_loop; import meshlab as ml; ml.simulate(2); small_loop()"
    subprocess.run([sys.executable, "-c", code], check=True, env=os.environ | {"XLA_FLAGS": ""}, cwd=ROOT)
