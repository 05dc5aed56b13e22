"""Why Auto's layout is the fastest: worked out while nobody waits, in the board's own numbers, of one choice alone."""

from __future__ import annotations

import threading

import pytest

from meshlab.widgets.background import reasons as reasons_module
from meshlab.widgets.background.reasons import MET, REGRETS, WAY, WAYS, Met, Reasons
from meshlab.widgets.explorer import Explorer
from tests.widgets.grown import MANUAL, opened


@pytest.fixture(scope="module")
def searched() -> Explorer:
    explorer = opened()
    explorer.auto("time")
    return explorer


def told(explorer: Explorer) -> threading.Event:
    """Is set when the explorer next tells of its search."""
    there = threading.Event()
    explorer.subscribe(lambda what: there.set() if what == "search" else None)
    return there


def test_what_is_asked_for_follows_without_a_revision(searched: Explorer) -> None:
    searched.reasons.forget()
    revision, before, there = searched.revision, searched.reasons.told, told(searched)
    assert searched.reasons.soon(WAY, searched.layout) is None
    assert there.wait(60)
    way = searched.reasons.soon(WAY, searched.layout)
    assert way.steps == searched.choice.waterfall(MANUAL).steps
    assert way.rank == searched.choice.rank(MANUAL)
    assert (searched.revision, searched.reasons.told) == (revision, before + 1)


def test_each_peak_and_step_is_the_one_that_the_board_shows(searched: Explorer) -> None:
    met: Met = searched.reasons.of(MET)
    assert met.count == len(searched.choice.alternatives)
    board = opened()
    for each in met.layouts[:6]:
        assert board.load(each.layout) or str(board.layout) == str(each.layout)
        totals = board.totals.of(board.document)
        assert (each.seconds, each.peak_bytes) == (totals.seconds, totals.peak_bytes)
    way = searched.reasons.of(WAY, searched.layout)
    for step in way.steps:
        board.load(step.layout)
        totals = board.totals.of(board.document)
        figures = step.seconds, round(step.wire_bytes), step.peak_bytes
        assert figures == (totals.seconds, totals.wire_bytes, totals.peak_bytes)


def test_of_many_the_fastest_are_shown_and_those_on_the_front(
    searched: Explorer, monkeypatch: pytest.MonkeyPatch
) -> None:
    searched.reasons.forget()
    everything: Met = searched.reasons.of(MET)
    searched.reasons.forget()
    monkeypatch.setattr(reasons_module, "MOST", 1)
    few: Met = searched.reasons.of(MET)
    lowest, front = float("inf"), []
    for each in everything.layouts:
        if each.peak_bytes < lowest:
            front.append(each)
            lowest = each.peak_bytes
    assert list(few.layouts) == front
    assert few.count == len(everything.layouts) > len(front)
    searched.reasons.forget()


def test_without_a_choice_there_are_none() -> None:
    none = Reasons(lambda: None, None, lambda: None)  # type: ignore[arg-type]
    assert none.soon(MET) is None
    assert none.of(REGRETS) is None


def test_of_another_choice_all_is_forgotten_and_ways_of_the_latest_layouts_are_kept(searched: Explorer) -> None:
    first, made = searched.choice, []

    class Counted(Reasons):
        def _worked_out(self, choice, what, about, pause):
            made.append((what, *about) not in self._known_of(choice))
            return super()._worked_out(choice, what, about, pause)

    choices = [first]
    kept = Counted(lambda: choices[-1], None, lambda: None)  # type: ignore[arg-type]
    layouts = [each.layout for each in first.alternatives[: WAYS + 1]]
    for layout in layouts:
        kept.of(WAY, layout)
    kept.of(WAY, layouts[-1])
    kept.of(WAY, layouts[0])
    assert made == [True] * (WAYS + 1) + [False, True]
    choices.append(None)
    assert kept.soon(WAY, layouts[-1]) is None
    choices.append(first)
    kept.of(WAY, layouts[-1])
    assert made[-1], "it was forgotten"


def test_what_the_search_cannot_plan_is_said(searched: Explorer) -> None:
    refused = searched.reasons.of(WAY, searched.layout.with_rule("batch", ("a", "nowhere")))
    assert "`nowhere`" in refused.refused
    assert (refused.steps, refused.rank) == ((), None)


def test_whoever_has_asked_is_told_also_where_a_script_was_first(searched: Explorer) -> None:
    searched.reasons.forget()
    there = told(searched)
    with searched.lock:  # nothing is worked out meanwhile
        assert searched.reasons.soon(REGRETS) is None
        decided = searched.reasons.of(REGRETS)
    assert there.wait(60)
    assert searched.reasons.soon(REGRETS) is decided
    assert decided.regrets == searched.choice.regrets
    assert decided.binding == searched.choice.binding
