"""Kernels on the roofline: their seconds add up to the step's, and none is above the roof."""

from __future__ import annotations

import json
from typing import Any

import pytest

import meshlab as ml
from meshlab.models import zoo
from meshlab.widgets.explorer import Explorer
from meshlab.widgets.views import roofline
from meshlab.widgets.views.roofline import roofline_of, roofline_view

MODELS = {model.name: model for model in zoo.models()}


@pytest.mark.share(5)
@pytest.mark.parametrize("machine", ["v5e", "h100"])
@pytest.mark.parametrize("options", [{}, {"attention": "flash"}])
@pytest.mark.parametrize("name", ["transformer_adamw", "llama_adamw", "moe_sgd", "convnet", "mlp"])
def test_kernels_add_up_and_stay_below_the_roof(name: str, options: dict, machine: str) -> None:
    time = MODELS[name].trace().plan(ml.mesh(machine, data=2, model=2), "batch:data").time.given(**options)
    view = roofline_of(time)
    assert json.loads(json.dumps(view)) == view
    dots = view["dots"]
    assert sum(dot["seconds"] for dot in dots) + view["left_seconds"] == pytest.approx(time.compute, rel=1e-9)
    if not view["left_out"]:
        assert sum(dot["flops"] for dot in dots) == pytest.approx(time.flops, rel=1e-9)
    peaks = {roof["dtype"]: roof["peak"] for roof in view["roofs"]}
    assert peaks
    for dot in dots:
        assert (dot["intensity"] is None) == (not dot["flops"] or not dot["bytes"])
        if dot["intensity"] is not None:
            roof = min(peaks[dot["dtype"]], dot["intensity"] * view["bandwidth"])
            assert dot["rate"] <= roof * (1 + 1e-9)
    assert [dot["seconds"] for dot in dots] == sorted((dot["seconds"] for dot in dots), reverse=True)


def test_what_is_beyond_the_most_is_one_number(explorer: Explorer, monkeypatch: pytest.MonkeyPatch) -> None:
    explorer.on("v5e")
    monkeypatch.setattr(roofline, "MOST_DOTS", 2)
    view: Any = roofline_view(explorer)
    assert len(view["dots"]) == 2
    assert view["left_out"] > 0
    assert view["said"].startswith("Not drawn: kernels without matmuls and the smallest groups, ")
    seconds = sum(dot["seconds"] for dot in view["dots"]) + view["left_seconds"]
    assert seconds == pytest.approx(explorer.time.compute, rel=1e-9)


def test_without_a_machine_there_is_none(explorer: Explorer) -> None:
    assert roofline_view(explorer) == {"dots": None}


def test_small_kernels_of_a_gpu_wait_for_their_launch(explorer: Explorer) -> None:
    explorer.on("h100")
    view: Any = roofline_view(explorer)
    assert {dot["bound"] for dot in view["dots"]} == {"launch"}
