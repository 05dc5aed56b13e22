"""Recomputation keeps its memory saving after lowering: XLA's own figures say so."""

import jax
import pytest

import meshlab as ml
from meshlab.models import transformer
from meshlab.models.initial import shapes

LAYERS, LAYOUTS = 8, ("", "batch:x", "heads:x ffn:x")


def temporaries(layout, monkeypatch, recomputed):
    """The bytes that XLA sets aside for what is neither argument nor output, on one device."""
    if not recomputed:
        monkeypatch.setattr(ml, "checkpoint", lambda fn: fn)
    config = transformer.Config(batch=8, seq=64, vocab=64, embed=32, heads=4, group=1, head=8, ffn=128, layers=LAYERS)
    step = jax.value_and_grad(transformer.loss)
    program = ml.trace(step, shapes(transformer.init, config), *transformer.inputs(config))
    return program.plan(ml.mesh(x=4), layout).compile().memory_analysis().temp_size_in_bytes


@pytest.mark.parametrize("layout", LAYOUTS)
def test_recomputed_layers_need_less_memory(layout, monkeypatch):
    with_barriers = temporaries(layout, monkeypatch, recomputed=True)
    without = temporaries(layout, monkeypatch, recomputed=False)
    # A layer keeps scores and hidden activations, several times the stream that is all that a checkpoint keeps.
    assert with_barriers < 0.5 * without
