"""Edges of a collective: who sends to whom, and over all collectives of an axis the plan's wire bytes."""

from __future__ import annotations

from collections import defaultdict

import pytest

import meshlab as ml
from meshlab.engine.plans.collectives import wire_bytes_by_axis
from meshlab.engine.verifying.random_layouts import draw
from meshlab.models import zoo
from meshlab.opening.open_explorer import explore
from meshlab.widgets.explorer import Explorer
from meshlab.widgets.state.selection import identities
from meshlab.widgets.views.devices.sends import sends_view
from tests.widgets import small

MODELS = {model.name: model for model in zoo.models()}


@pytest.mark.parametrize("name", ["transformer_adamw", "moe_switch", "unet3d_sgd"])
def test_edges_add_up_to_the_wire_bytes_of_their_axes(name: str) -> None:
    program = MODELS[name].trace()
    for mesh, layout in draw(program, seed=7, count=3):
        explorer = explore(program, mesh, layout)
        sent: dict[str, float] = defaultdict(float)
        kept: set[str] = set()
        for c, collective in zip(explorer.plan.collectives, identities(explorer.plan), strict=True):
            view = sends_view(explorer, collective)
            sent[view["key"]] += sum(count for _, _, count in view["edges"])
            if c.kind == "collective-permute":
                kept.add(view["key"])
        wanted = wire_bytes_by_axis(explorer.plan.collectives)
        assert sent.keys() == wanted.keys()
        for key, count in sent.items():
            if key in kept:  # a permute leaves some blocks where they are, which the plan counts all the same
                assert count <= wanted[key] * mesh.size + 1e-6
            else:
                assert count == pytest.approx(wanted[key] * mesh.size, rel=1e-9)


def test_a_ring_goes_around(explorer: Explorer) -> None:
    explorer.load("hidden:model")
    (collective,) = [
        name
        for c, name in zip(explorer.plan.collectives, identities(explorer.plan), strict=True)
        if c.axes == ("model",)
    ][:1]
    view = sends_view(explorer, collective)
    assert sorted((i, j) for i, j, _ in view["edges"]) == [
        (0, 1), (1, 2), (2, 3), (3, 0), (4, 5), (5, 6), (6, 7), (7, 4),
    ]  # fmt: skip
    assert view["text"].startswith("all-reduce over model of logits: each device sends")
    assert view["text"].endswith("to the next of its group of 4, as on a ring.")


def test_a_collective_that_there_is_not_has_no_edges(explorer: Explorer) -> None:
    assert sends_view(explorer, "none") == {"key": "", "edges": [], "text": ""}


def test_of_very_many_devices_it_is_said_in_words() -> None:
    explorer = explore(small.program(), ml.mesh(data=8, model=16), "batch:data hidden:model")
    (first, *_) = identities(explorer.plan)
    view = sends_view(explorer, first)
    assert view["edges"] == []
    assert "each device in each of" in view["text"]
