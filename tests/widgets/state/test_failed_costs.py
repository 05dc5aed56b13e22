"""Costs and advice that fail, by odd figures or by a bug: the board says so, waits for nothing, and stays usable."""

from __future__ import annotations

import json
import queue
import threading
from typing import Any

import pytest

import meshlab as ml
from meshlab.widgets.documents.costing import Costing, CostsFailed, costs_of
from meshlab.widgets.documents.document import ExplorerError
from meshlab.widgets.explorer import Explorer
from meshlab.widgets.notebook.protocol import answer, shared_state
from meshlab.widgets.state import advice

SAID = "The costs of this layout could not be predicted: ZeroDivisionError: no links."


@pytest.fixture
def raised(monkeypatch: pytest.MonkeyPatch) -> queue.Queue[BaseException]:
    """The errors of threads, which would be printed."""
    errors: queue.Queue[BaseException] = queue.Queue()
    monkeypatch.setattr(threading, "excepthook", lambda args: errors.put(args.exc_value))
    return errors


class Failing:
    """Costs of one layout that raise; those of others are worked out."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, costing: Costing, layout: str, patience: float):
        self.count, self._layout = 0, ml.Layout.of(layout)
        monkeypatch.setattr(costing, "work", self.work)
        monkeypatch.setattr(costing, "patience", patience)

    def work(self, plan: Any, document: Any) -> Any:
        if document.layout != self._layout:
            return costs_of(plan, document)
        self.count += 1
        raise ZeroDivisionError("no links")


def said_of(explorer: Explorer) -> dict[str, Any]:
    return {key: shared_state(explorer)["costs"][key] for key in ("time", "peak_memory", "pending")}


def is_said(explorer: Explorer) -> None:
    costs = said_of(explorer)
    assert costs["time"]["missing"].startswith(SAID)
    assert "`explorer.time` raises it with its traceback" in costs["time"]["missing"]
    assert (costs["peak_memory"], costs["pending"]) == (None, False)
    json.dumps(shared_state(explorer))
    for what in ("step", "stages", "roofline", "moments"):
        refused: Any = answer(explorer, {"v": 2, "kind": "read", "id": 1, "what": what, "args": {}})
        assert (refused["kind"], refused["code"]) == ("nack", "costs")
        assert refused["reason"].startswith(SAID)
    with pytest.raises(ZeroDivisionError, match="no links"):
        _ = explorer.time


def test_costs_that_fail_in_the_background_are_said(explorer, monkeypatch, raised) -> None:
    explorer.on("v5e")
    failing = Failing(monkeypatch, explorer.costs, "batch:data", patience=0.0)
    words: queue.Queue[str] = queue.Queue()
    explorer.subscribe(words.put)
    explorer.load("batch:data")
    assert said_of(explorer)["pending"]
    while words.get(timeout=60) != "costs":
        pass
    error = raised.get(timeout=60)
    assert isinstance(error, CostsFailed)
    assert isinstance(error.__cause__, ZeroDivisionError)
    count = failing.count
    assert said_of(explorer)["time"]["missing"].startswith(SAID)
    assert failing.count == count, "they are not worked out again"
    is_said(explorer)


def test_a_board_whose_costs_fail_at_once_stays_usable(explorer, monkeypatch) -> None:
    explorer.on("v5e")
    Failing(monkeypatch, explorer.costs, "batch:data", patience=60.0)
    explorer.load("batch:data")
    is_said(explorer)
    assert explorer.view()["pending"] is False
    for name in ("time", "roofline"):
        with pytest.raises(ExplorerError, match=SAID):
            explorer.table(name)
    explorer.load("hidden:model")
    assert said_of(explorer)["time"]["estimate"] > 0
    # A layout that was tried has the totals of its plan.
    totals = explorer.totals.of(next(each.document for each in explorer.tried if "batch" in each.document.layout.rules))
    assert totals.wire_bytes > 0
    assert (totals.seconds, totals.peak_bytes) == (None, None)


def test_another_machine_is_asked_anew(explorer, monkeypatch) -> None:
    explorer.on("v5e")
    failing = Failing(monkeypatch, explorer.costs, "batch:data", patience=60.0)
    explorer.load("batch:data")
    is_said(explorer)
    monkeypatch.setattr(explorer.costs, "work", costs_of)
    count = failing.count
    explorer.costs.forget()
    assert said_of(explorer)["time"]["estimate"] > 0
    assert failing.count == count


def test_a_goal_on_costs_that_fail_is_missed_with_the_reason(explorer, monkeypatch) -> None:
    explorer.on("v5e")
    for costing in (explorer.costs, explorer.peaks):
        Failing(monkeypatch, costing, "batch:data", patience=60.0)
    explorer.load("batch:data")
    explorer.set_goal(ml.goal(step="1 s", fits="v5e", busy=False))
    verdict = explorer.goal
    assert [judged.value for judged in verdict.told] == ["unknown", "unknown"]
    assert all(judged.because.startswith(SAID) for judged in verdict.told)


def test_advice_that_fails_is_said(explorer, monkeypatch, raised) -> None:
    def fail(*_args: Any, **_more: Any) -> Any:
        raise ZeroDivisionError("no links")

    monkeypatch.setattr(advice, "price_of", fail)
    words: queue.Queue[str] = queue.Queue()
    explorer.subscribe(words.put)
    assert answer(explorer, {"v": 2, "kind": "advise", "id": 1})["kind"] == "ack"
    while words.get(timeout=60) != "advice":
        pass
    said = shared_state(explorer, "advice")["advice"]
    assert said == {
        "advice": None,
        "advised": True,
        "looking": None,
        "ranked": None,
        "advice_error": "ZeroDivisionError: no links",
    }
    assert isinstance(raised.get(timeout=60), ZeroDivisionError)
