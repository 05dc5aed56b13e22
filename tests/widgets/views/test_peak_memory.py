"""Predicted memory on the board, held against the plan: the peak, whether it fits, and what is alive at each moment."""

from __future__ import annotations

import dataclasses
import json
from typing import Any

import pytest

import meshlab as ml
from meshlab.widgets.documents.intents import Place
from meshlab.widgets.explorer import Explorer
from meshlab.widgets.state.prices import Price, prices_of
from meshlab.widgets.views import peak_memory as peak_memory_module
from meshlab.widgets.views.peak_memory import alive_view, moments_view, phases_view, verdict
from meshlab.widgets.views.roofline import roofline_view
from tests.widgets.gates import Gate, costs_of
from tests.widgets.state.test_machines import own


def test_the_view_shows_the_memory_of_the_plan(explorer: Explorer) -> None:
    explorer.load("hidden:model")
    explorer.on("v5e")
    peak, memory = explorer.view()["peak_memory"], explorer.plan.memory.donated
    assert (peak["bytes"], peak["undonated"]) == (memory.peak_bytes, explorer.plan.memory.peak_bytes)
    assert peak["because"] == memory.because
    assert {part["name"]: part["bytes"] for part in peak["parts"]} == memory.parts
    assert sum(part["bytes"] for part in peak["parts"]) == peak["bytes"]
    assert [each["name"] for each in peak["alive"]] == [alive.name for alive in memory.at_peak]
    assert memory.timeline[peak["at"]].bytes == max(point.bytes for point in memory.timeline)


LIMIT = "16.0 GB of one device of X"
NO_FIT = f"Does not fit: peak memory is 20.0 GB with donate=True, 4.00 GB more than the {LIMIT}."


@pytest.mark.parametrize(
    ("peak", "undonated", "text"),
    [
        (5e9, 5e9, f"Fits: peak memory is 5.00 GB, 31.3% of the {LIMIT}."),
        (4e9, 5e9, f"Fits: peak memory is 4.00 GB with donate=True, 25% of the {LIMIT}. Without it, it is 5.00 GB."),
        (
            12e9,
            20e9,
            f"Fits: peak memory is 12.0 GB with donate=True, 75% of the {LIMIT}."
            " Without it, it is 20.0 GB and does not fit.",
        ),
        (20e9, 20e9, f"Does not fit: peak memory is 20.0 GB, 4.00 GB more than the {LIMIT}."),
        (20e9, 22e9, f"{NO_FIT} Without it, it is 22.0 GB."),
    ],
)
def test_whether_it_fits_is_said_in_words(peak: float, undonated: float, text: str) -> None:
    assert verdict(int(peak), int(undonated), int(16e9), "X") == text


def test_what_does_not_fit(explorer: Explorer) -> None:
    explorer.on(dataclasses.replace(own(), memory=ml.Figure(5000.0)))
    peak = explorer.view()["peak_memory"]
    assert (peak["limit"], peak["fits"]) == (5000, False)
    (price,) = prices_of(explorer.documents, [Place("hidden", ("model",))], peak=True)
    assert isinstance(price, Price)
    explorer.place("hidden", "model")
    after = explorer.view()["peak_memory"]
    assert (price.fits, price.peak_bytes) == (after["fits"], after["bytes"]) == (True, after["bytes"])


def test_what_is_alive_at_a_moment_adds_up(explorer: Explorer) -> None:
    explorer.load("batch:data hidden:model")
    explorer.on("v5e")
    view, memory = explorer.view()["peak_memory"], explorer.plan.memory.donated
    assert view["steps"] == len(memory.timeline)
    assert view["gaps"] == memory.gap_bytes
    moments: Any = moments_view(explorer)
    curve = moments["chart"]["data"][0]
    assert curve["x"] == list(range(len(memory.timeline)))
    for step, count in zip(curve["x"], curve["y"], strict=True):
        alive: Any = alive_view(explorer, step)
        assert json.loads(json.dumps(alive)) == alive
        assert alive["bytes"] == count == memory.timeline[step].bytes
        sums = sum(each["bytes"] for each in alive["values"]) + alive["left_bytes"] + alive["padding"]
        assert sums == alive["bytes"]
        assert len(alive["values"]) + alive["left_out"] == len(memory.alive_at(step))
    explorer.on(None)
    assert alive_view(explorer, 0) == {"step": 0, "bytes": None}


def test_while_costs_are_worked_out_no_curve_is_said_to_be_missing(
    explorer: Explorer, monkeypatch: pytest.MonkeyPatch
) -> None:
    explorer.on("v5e")
    gate, there = Gate(monkeypatch, explorer.costs), costs_of(explorer)
    explorer.place("batch", "data")
    views = (moments_view, lambda shown: alive_view(shown, 0), roofline_view)
    assert [view(explorer) for view in views] == [{"pending": True}] * 3
    gate.open.set()
    assert there.wait(60)
    assert not any("pending" in view(explorer) for view in views)


def test_long_lists_of_what_is_alive_are_cut_and_add_up(explorer: Explorer, monkeypatch: pytest.MonkeyPatch) -> None:
    explorer.on("v5e")
    monkeypatch.setattr(peak_memory_module, "MOST_LISTED", 2)
    alive: Any = alive_view(explorer, 1)
    assert len(alive["values"]) == 2
    assert alive["left_out"] == len(explorer.plan.memory.donated.alive_at(1)) - 2
    sums = sum(each["bytes"] for each in alive["values"]) + alive["left_bytes"] + alive["padding"]
    assert sums == alive["bytes"]


def test_the_phases_cover_the_steps_of_the_timeline(explorer: Explorer) -> None:
    explorer.on("v5e")
    phases = phases_view(explorer.plan.memory.donated)
    assert [phase["name"] for phase in phases] == ["forward", "backward", "update"]
    edges = [edge for phase in phases for edge in (phase["begin"], phase["end"])]
    assert edges == sorted(edges)
    assert (edges[0], edges[-1]) == (0, len(explorer.plan.memory.donated.timeline))
