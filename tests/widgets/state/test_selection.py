"""The selection: one for all views, kept while what is selected exists, and small to send."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterator

import jax
import pytest

import meshlab as ml
from meshlab.engine.specs.mesh import Mesh
from meshlab.models.language import llama
from meshlab.models.parts import training
from meshlab.models.parts.initial import shapes
from meshlab.opening.open_explorer import explore
from meshlab.widgets.documents.intents import Refused
from meshlab.widgets.explorer import Explorer
from meshlab.widgets.notebook.protocol import answer
from meshlab.widgets.state.selection import identities
from meshlab.widgets.views.selection import MOST_DEVICES, group_view

LAYOUT = {"batch": "data", "heads": "model", "ffn": "model", "params/*": {"embed": "data"}}


def selected(explorer: Explorer) -> dict:
    view = explorer.view()["selection"]
    return {name: view[name] for name in ("place", "dim", "device", "collective", "moment")}


def test_what_is_not_named_stays_selected(explorer: Explorer) -> None:
    explorer.load("hidden:model")
    (name,) = identities(explorer.plan)
    nothing = {"place": "params/w1", "dim": None, "device": None, "collective": None, "moment": None}
    assert selected(explorer) == nothing
    assert explorer.select(dim="hidden")
    assert explorer.select(device=5, collective=name)
    assert explorer.select("images")
    assert selected(explorer) == nothing | {"place": "images", "dim": "hidden", "device": 5, "collective": name}
    assert explorer.select(dim=None, device=None, collective=None)
    assert selected(explorer) == nothing | {"place": "images"}
    assert explorer.revision == 1


def test_a_chip_that_is_where_it_was_takes_no_selection_along(explorer: Explorer) -> None:
    """Nothing has changed then, so that no page is told: its selection would be another one than Python's."""
    explorer.place("classes", "data")
    explorer.select("params/w1")
    told: list[str] = []
    explorer.subscribe(told.append)
    assert explorer.place("classes", "data")
    assert explorer.selected == "params/w1"
    assert told == []


@pytest.mark.parametrize(
    ("args", "reason"),
    [
        ({"dim": "hiden"}, "There is no dim 'hiden'. Did you mean `hidden`?"),
        ({"device": 8}, "There is no device 8. They are 0 to 7."),
        ({"device": "five"}, "Expected `int | null`, got `str` - at `$.device`."),
        ({"collective": "never"}, "The plan has no such collective."),
        ({"moment": "m" * 80}, "There is no such moment."),
        ({"place": None}, "A tensor is always shown."),
        ({"place": ["images"]}, "Expected `str | null`, got `array` - at `$.place`."),
        ({"colour": "red"}, "came with invalid arguments"),
    ],
)
def test_what_there_is_not_is_refused(explorer: Explorer, args: dict, reason: str) -> None:
    before = explorer.selection
    reply = answer(explorer, {"v": 2, "id": 1, "op": "select", "args": args})
    assert reply["kind"] == "nack"
    assert reason in f"{reply['reason']} {reply['fix']}"
    assert explorer.selection == before


def test_what_another_layout_has_as_well_stays_selected(explorer: Explorer) -> None:
    explorer.load("batch:data hidden:model")
    over = {c.axes: name for c, name in zip(explorer.plan.collectives, identities(explorer.plan), strict=True)}
    explorer.select(dim="hidden", device=7, collective=over["model",])
    answer(explorer, {"v": 2, "id": 1, "op": "select", "args": {"moment": f"{over['model',]}#1"}})
    explorer.remove("batch")
    kept = explorer.selection
    assert (kept.dim, kept.device, kept.collective) == ("hidden", 7, over["model",])
    explorer.remove("hidden")
    assert (explorer.selection.dim, explorer.selection.collective, explorer.selection.moment) == ("hidden", None, None)
    explorer.rename_dim("hidden", "wide")
    explorer.resize_axis("model", 2)
    assert (explorer.selection.dim, explorer.selection.device) == (None, None)


def test_names_are_of_one_collective_each(explorer: Explorer) -> None:
    explorer.load("batch:data hidden:model")
    names = identities(explorer.plan)
    assert len(set(names)) == len(names)
    assert {row["id"] for row in explorer.view()["collectives"]["rows"]} == set(names)


@pytest.mark.parametrize("axes", [("data",), ("model",), ("data", "model"), ("model", "data"), ("model", "pod")])
def test_a_device_talks_with_those_that_differ_from_it_on_the_axes_alone(axes: tuple[str, ...]) -> None:
    mesh = Mesh((("data", 2), ("model", 4), ("pod", 3)))
    for device in (0, 7, 23):
        here = mesh.coordinates(device)
        expected = [
            other
            for other in range(mesh.size)
            if all(at == here[axis] for axis, at in mesh.coordinates(other).items() if axis not in axes)
        ]
        group = group_view(mesh, device, axes)
        assert (group["devices"], group["size"]) == (expected, len(expected))
    assert len(group_view(Mesh((("data", 512),)), 500, ("data",))["devices"]) == MOST_DEVICES


def llama_explorer(layers: int, unrolled: bool) -> Explorer:
    config = dataclasses.replace(llama.Config.llama3_8b(batch=64), layers=layers, unrolled=unrolled)
    optimizer = training.adamw()
    params = shapes(llama.init, config)
    state = jax.eval_shape(optimizer.init, params)
    program = ml.trace(training.adamw_step(llama.loss, optimizer), params, state, *llama.inputs(config))
    return explore(program, ml.mesh(data=16, model=4), LAYOUT)


@pytest.fixture(params=[(32, False), (32, True)], ids=["scanned", "unrolled"])
def large(request: pytest.FixtureRequest) -> Iterator[Explorer]:
    yield llama_explorer(*request.param)
    jax.clear_caches()


@pytest.mark.share(3)
def test_a_selection_sends_few_bytes_of_a_large_program(large: Explorer, monkeypatch: pytest.MonkeyPatch) -> None:
    session, messages = large.session, []
    monkeypatch.setattr(session, "_send", lambda message, buffers=None: messages.append(json.dumps(message)))
    place = next(place for place in large.program.places if place.startswith("params/") and place != large.selected)
    # Any name of a collective; the largest group of devices.
    for args in ({"place": place}, {"dim": "embed"}, {"device": 37}, {"collective": identities(large.plan)[-1]}):
        messages.clear()
        assert answer(large, {"v": 2, "id": 1, "op": "select", "args": args})["kind"] == "ack"
        assert 0 < sum(map(len, messages)) <= 20_000, args
    assert not isinstance(large.select(dim=None), Refused)


def test_the_tensor_that_is_shown_follows_the_chip_that_was_placed(explorer: Explorer) -> None:
    explorer.select("params/w1")
    explorer.place("hidden", "model")
    assert explorer.selected == "params/w1"  # it has the dim
    explorer.place("batch", "data")
    assert explorer.selected == "images"  # the largest that has
    explorer.remove("batch")
    assert explorer.selected == "images"
    explorer.place("hidden", "data", at="params/w2")
    assert explorer.selected == "params/w2"
    explorer.place("rows", "data")
    assert explorer.selected in ("params/w1", "images")
