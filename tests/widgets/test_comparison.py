"""Auto beside the manual layout: searching, found, taken over, failed; and how the two compare as the board changes."""

from __future__ import annotations

import dataclasses
import threading
from typing import Any

import pytest

from meshlab.widgets import explorer as explorer_module
from meshlab.widgets.compare import Search
from meshlab.widgets.explorer import Explorer
from meshlab.widgets.intents import Auto


@dataclasses.dataclass(frozen=True)
class Found:
    """What `ml.auto.layout` gives, as far as the Explorer looks at it."""

    plan: Any
    proof: str = "the least of all legal layouts"

    @property
    def layout(self) -> Any:
        return self.plan.layout


@pytest.fixture
def searching(explorer: Explorer, monkeypatch: pytest.MonkeyPatch) -> Explorer:
    def search(program: Any, mesh: Any, objective: str) -> Search:
        if objective == "beauty":
            raise ValueError("there is no objective `beauty`")
        return Search(objective, Found(program.plan(mesh, "hidden:model")))

    monkeypatch.setattr(explorer_module, "search", search)
    return explorer


def test_nothing_is_compared_before_a_search(explorer: Explorer) -> None:
    assert explorer.view()["comparison"] is None


def test_the_two_are_set_side_by_side(searching: Explorer) -> None:
    searching.load("batch:data")
    choice = searching.auto("traffic")
    shown = searching.view()["comparison"]
    assert (shown["phase"], shown["same"], shown["proof"]) == ("found", False, "the least of all legal layouts")
    manual, auto = shown["rows"]
    assert (manual["layout"], auto["layout"]) == ("batch:data", "hidden:model")
    assert manual["bytes"] == searching.plan.wire_bytes
    assert auto["bytes"] == choice.plan.wire_bytes == 480
    drawn = searching.figure("comparison")
    assert sum(sum(bar.x) for bar in drawn.data) == manual["bytes"] + auto["bytes"]
    searching.auto("memory")
    rows = searching.view()["comparison"]["rows"]
    assert list(searching.figure("comparison").data[0].x) == [row["peak"] for row in rows]
    assert searching.load(choice.layout)
    assert searching.view()["comparison"]["same"]


def test_the_board_searches_in_the_background(searching: Explorer) -> None:
    done = threading.Event()
    phases = []

    def listen(what: str) -> None:
        phases.append(searching.view()["comparison"]["phase"])
        if phases[-1] == "found":
            done.set()

    searching.subscribe(listen)
    assert searching.apply(Auto("memory"))
    assert done.wait(30)
    assert phases == ["searching", "found"]


def test_a_search_that_fails_says_why(searching: Explorer) -> None:
    with pytest.raises(ValueError, match="there is no objective `beauty`"):
        searching.auto("beauty")
    shown = searching.view()["comparison"]
    assert (shown["phase"], shown["error"]) == ("failed", "there is no objective `beauty`")
