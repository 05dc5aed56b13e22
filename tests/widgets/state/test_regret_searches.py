"""The search for what each decision of the fastest layout costs otherwise: as a gesture, its progress, and its end."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from meshlab.auto import Cancelled
from meshlab.widgets.documents.document import ExplorerError
from meshlab.widgets.documents.intents import Auto, Refused, SearchRegrets
from meshlab.widgets.explorer import Explorer
from meshlab.widgets.state.regret_searches import RegretSearch, RegretSearches
from tests.widgets.grown import opened

pytestmark = pytest.mark.share(2, of="file")


@pytest.fixture
def searched() -> Explorer:
    explorer = opened()
    explorer.auto("time")
    return explorer


class Held:
    """A choice whose search for regrets goes on until it is let, or cancelled."""

    def __init__(self, error: Exception | None = None):
        self.begun, self.open, self.error = threading.Event(), threading.Event(), error

    def exact_regrets(self, *, progress: Any, cancel: threading.Event) -> tuple:
        progress(("one",))
        self.begun.set()
        assert self.open.wait(60)
        if cancel.is_set():
            raise Cancelled("It was cancelled.")
        if self.error is not None:
            raise self.error
        return ("one", "two")


@pytest.fixture
def searches() -> RegretSearches:
    return RegretSearches(threading.RLock(), lambda: None)


def last(searches: RegretSearches) -> RegretSearch:
    assert searches.last is not None
    return searches.last


def ended(name: str = "meshlab-regrets") -> None:
    """Waits until no search goes on."""
    for thread in threading.enumerate():
        if thread.name == name:
            thread.join(60)
            assert not thread.is_alive()


def test_a_script_finds_them_and_the_board_shows_them(searched: Explorer) -> None:
    heard: list[int] = []
    searched.subscribe(
        lambda what: heard.append(sum(r.exact for r in search.regrets)) if (search := searched.regrets.last) else None
    )
    found = searched.exact_regrets()
    assert found == searched.choice.exact_regrets()
    assert all(regret.exact for regret in found)
    search = searched.regrets.last
    assert search is not None
    assert (search.phase, search.regrets) == ("found", found)
    assert heard == [0, *range(1, len(found) + 1), len(found)]
    assert len(found) > 1


def test_it_is_told_of_the_fastest_layout_alone(searched: Explorer) -> None:
    searched.on(None)
    assert searched.searches.fastest is None
    with pytest.raises(ExplorerError, match=r'needs the fastest layout; call explorer.auto\("time"\) first'):
        searched.exact_regrets()
    assert searched.apply(SearchRegrets()) == Refused(
        "There is no fastest layout for this board yet, so there are no decisions to search.",
        "Search for the fastest that fits first.",
        "nothing",
    )
    searched.auto("memory")
    assert (searched.choice is None, searched.searches.fastest) == (False, None)


def test_the_board_searches_in_the_background(searched: Explorer) -> None:
    there = threading.Event()

    def listen(what: str) -> None:
        search = searched.regrets.last
        if search is not None and search.phase == "found":
            there.set()

    searched.subscribe(listen)
    revision = searched.revision
    assert searched.apply(SearchRegrets())
    assert there.wait(60)
    assert searched.revision == revision


def test_it_is_cancelled_and_what_was_found_stays(searches: RegretSearches) -> None:
    choice: Any = Held()
    assert searches.cancel() == Refused("There is no search to cancel.", code="nothing")
    assert searches.start(choice) is None
    assert choice.begun.wait(60)
    again = searches.start(choice)
    assert again == Refused("Each decision is already being searched.", code="going_on")
    assert searches.cancel() is None
    assert last(searches).phase == "cancelled"
    choice.open.set()
    ended()
    assert (last(searches).phase, last(searches).regrets) == ("cancelled", ("one",))
    assert searches.of(choice) is last(searches)
    assert searches.of(None) is None


def test_a_failure_is_said(searches: RegretSearches) -> None:
    choice: Any = Held(ValueError("seven"))
    choice.open.set()
    with pytest.raises(ValueError, match="seven"):
        searches.find(choice)
    assert (last(searches).phase, last(searches).error) == ("failed", "seven")


def test_a_new_search_forgets_it_and_what_it_finds_all_the_same(
    searched: Explorer, monkeypatch: pytest.MonkeyPatch
) -> None:
    choice: Any = Held()
    with monkeypatch.context() as held:
        held.setattr(type(searched.searches), "fastest", property(lambda explorer: choice))
        assert searched.apply(SearchRegrets())
        assert choice.begun.wait(60)
        search = searched.regrets.last
        assert search is not None
        searched.auto("time")
        assert search.stop.is_set()
        assert searched.regrets.last is None
    choice.open.set()
    ended()
    assert searched.regrets.last is None


def test_cancel_auto_cancels_whichever_goes_on(searched: Explorer, monkeypatch: pytest.MonkeyPatch) -> None:
    choice: Any = Held()
    monkeypatch.setattr(type(searched.searches), "fastest", property(lambda explorer: choice))
    assert not searched.cancel_auto()
    assert searched.apply(SearchRegrets())
    assert choice.begun.wait(60)
    assert searched.cancel_auto()
    assert searched.regrets.last is not None
    assert searched.regrets.last.phase == "cancelled"
    choice.open.set()
    ended()


def test_the_choice_holds_while_the_board_is_of_its_program_mesh_machine_and_run(searched: Explorer) -> None:
    choice, document = searched.choice, searched.document
    assert searched.searches.fastest is choice
    assert searched.load("batch:a+b")
    assert searched.choice is choice
    changes = {
        "machine": lambda: searched.on("v5e:2x4"),
        "mesh": lambda: searched.merge_axes("a", "b"),
        "program": lambda: searched.resize_dim("batch", 2 * searched.program.dims["batch"]),
        "run": lambda: searched.assume(prefetch=True),
    }
    for what, change in changes.items():
        assert change(), what
        assert (searched.searches.outdated, searched.choice) == (what, None)
        assert searched.undo()
        assert (searched.searches.outdated, searched.choice) == ("", choice)
    assert searched.document.mesh == document.mesh
    assert searched.apply(Auto("memory"))
    assert searched.choice is None
