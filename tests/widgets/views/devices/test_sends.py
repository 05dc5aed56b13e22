"""Edges of a collective: who sends to whom, and over all collectives of an axis the plan's wire bytes."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

import pytest

import meshlab as ml
from meshlab.engine.plans.collective import Collective, wire_bytes_by_axis
from meshlab.engine.verifying.random_layouts import draw
from meshlab.models import zoo
from meshlab.opening.open_explorer import explore
from meshlab.widgets.explorer import Explorer
from meshlab.widgets.state.selection import identities
from meshlab.widgets.views.devices.sends import sends_view
from tests.widgets import small

MODELS = {model.name: model for model in zoo.models()}
# Weights that are gathered over data, where the batch is.
STORED = {"batch": "data", "hidden": "model", "params/*": {"rows": "data"}}


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


def named(explorer: Explorer) -> Iterator[tuple[Collective, str]]:
    return zip(explorer.plan.collectives, identities(explorer.plan), strict=True)


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
    assert sends_view(explorer, "none") == {"key": "", "edges": [], "text": "", "place": ""}


def test_it_says_which_tensor_is_sent() -> None:
    """So that arrows stand on the slices of that tensor alone."""
    explorer = explore(
        small.program(), small.mesh(), {"batch": "data", "hidden": "model", "params/*": {"rows": "data"}}
    )
    places = {c.value: sends_view(explorer, name)["place"] for c, name in named(explorer)}
    assert places == {
        "params/w1": "params/w1",
        "logits": "",
        "gradient of params/w1": "grads/params/w1",
        "gradient of params/w2": "grads/params/w2",
        "out/0": "out/0",
    }


def test_a_collective_that_is_selected_shows_the_tensor_that_it_moves() -> None:
    explorer = explore(
        small.program(), small.mesh(), {"batch": "data", "hidden": "model", "params/*": {"rows": "data"}}
    )
    names = {c.value: name for c, name in named(explorer)}
    explorer.select("labels")
    changed: list[str] = []
    explorer.subscribe(changed.append)
    explorer.select(collective=names["params/w1"])
    assert (explorer.selected, changed) == ("params/w1", ["tensor"])
    # One without a place leaves the tensor as it is; so does one with which a tensor is named, and releasing it.
    explorer.select(collective=names["logits"])
    assert explorer.selected == "params/w1"
    explorer.select("images", collective=names["gradient of params/w1"])
    assert explorer.selected == "images"
    explorer.select(collective=None)
    assert explorer.selected == "images"


def test_of_very_many_devices_it_is_said_in_words() -> None:
    explorer = explore(small.program(), ml.mesh(data=8, model=16), "batch:data hidden:model")
    (first, *_) = identities(explorer.plan)
    view = sends_view(explorer, first)
    assert view["edges"] == []
    assert "each device in each of" in view["text"]
