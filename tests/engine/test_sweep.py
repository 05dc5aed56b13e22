"""A fixed sample of the sweep, and every case of it that ever failed.

The whole sweep is `python -m meshlab.verify`; a case that fails there is written to failed_cases.json (model, mesh,
layout), and stays there when it is mended.
"""

import json
from pathlib import Path

import jax
import pytest

from meshlab.engine.layout import Layout
from meshlab.engine.mesh import Mesh
from meshlab.engine.sampling import MESHES, draw
from meshlab.models.imported import imported_models
from meshlab.models.zoo import models

MODELS = {model.name: model for model in (*models(), *imported_models())}
# 60 cases in all: two of each loss and small step, one of those that take long to compile.
LONG = "adamw bfloat16 adafactor diffusion gemma_sgd unet3d_sgd moe_ gpt linen nnx equinox".split()
COUNTS = {name: 1 if any(part in name for part in LONG) else 2 for name in MODELS}
FAILED = json.loads(Path(__file__).with_name("failed_cases.json").read_text())


@pytest.mark.parametrize("name", MODELS)
def test_a_sample_of_the_sweep(name):
    model = MODELS[name]
    program, data = model.trace(), model.data(0)
    drawn = list(draw(program, seed=2026, count=COUNTS[name]))
    assert len(drawn) == COUNTS[name]
    for mesh, layout in drawn:
        report = program.plan(mesh, layout).check(*data)
        assert report.ok, f"{name}, {layout} on {mesh}:\n{report}"
    jax.clear_caches()


def test_what_failed_once_works():
    for case in FAILED:
        model = MODELS[case["model"]]
        program = model.trace()
        report = program.plan(Mesh(tuple(case["mesh"].items())), Layout.of(case["layout"])).check(*model.data(0))
        assert report.ok, f"{case}:\n{report}"


def test_layouts_are_drawn_reproducibly_legal_and_of_all_kinds():
    program = MODELS["transformer_adamw"].trace()
    drawn = list(draw(program, seed=1, count=150))
    assert drawn == list(draw(program, seed=1, count=150))
    assert len({(m, str(layout)) for m, layout in drawn}) == 150
    assert {m for m, _ in drawn} == set(MESHES)
    assert any(len(axes) > 1 for _, layout in drawn for axes in layout.rules.values())
    assert any(axes == () for _, layout in drawn for own in layout.places.values() for axes in own.values())
    assert {place for _, layout in drawn for place in layout.places} >= {"params/*", "opt_state/*", "residual", "grads"}
    for mesh, layout in drawn:
        program.plan(mesh, layout)
