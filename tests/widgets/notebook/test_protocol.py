"""The conversation with a page: answers, state before them, and nothing that raises."""

from __future__ import annotations

import json
import queue
import time
from typing import Any, get_args

import pytest

from meshlab.widgets.explorer import Explorer
from meshlab.widgets.notebook import protocol
from meshlab.widgets.notebook.protocol import answer, shared_state
from meshlab.widgets.state.changes import Word
from meshlab.widgets.views.board import PARTS


def message(op: str, kind: str = "intent", **args: object) -> dict:
    return {"v": 2, "kind": kind, "id": "x-1", "base_rev": 0, "op": op, "args": args}


def test_an_intent_is_acknowledged_with_the_new_revision(explorer: Explorer) -> None:
    reply: Any = answer(explorer, message("place", dim="hidden", axes=["model"]))
    assert (reply["id"], reply["kind"], reply["rev"]) == ("x-1", "ack", 1)
    assert str(explorer.layout) == "hidden:model"


def test_a_refusal_has_reason_and_fix(explorer: Explorer) -> None:
    reply: Any = answer(explorer, message("place", dim="classes", axes=["model"]))
    assert (reply["kind"], reply["rev"], reply["code"]) == ("nack", 0, "not_divisible")
    assert "which 4" in reply["reason"]
    assert "8 or 12" in reply["fix"]


def test_a_page_that_saw_an_older_revision_is_answered_for_the_present_one(explorer: Explorer) -> None:
    explorer.load("batch:data")
    reply: Any = answer(explorer, message("place", dim="rows", axes=["data"]))
    assert reply["kind"] == "nack"
    assert reply["rev"] == 1


def prices(explorer: Explorer, *intents: tuple[str, dict], peak: bool = False) -> list[dict]:
    asked = [{"op": op, "args": args} for op, args in intents]
    reply: Any = answer(explorer, {"v": 2, "kind": "prices", "id": 1, "intents": asked, "peak": peak})
    assert (reply["kind"], reply["rev"]) == ("prices", explorer.revision)
    return reply["prices"]


def test_prices_change_nothing(explorer: Explorer) -> None:
    hidden, classes = ({"dim": dim, "axes": ["model"]} for dim in ("hidden", "classes"))
    there, refused = prices(explorer, ("place", hidden), ("place", classes))
    assert (explorer.revision, there["bytes"], there["seconds"], there["peak"]) == (0, 480, None, None)
    assert refused["refused"]["code"] == "not_divisible"
    (unknown,) = prices(explorer, ("shuffle", {}))
    assert "There is no operation `shuffle`" in unknown["refused"]["text"]
    selects = {"op": "select", "args": {"place": "images"}}
    reply: Any = answer(explorer, {"v": 2, "kind": "prices", "id": 1, "intents": [selects]})
    assert "does not change the document" in reply["reason"]


def test_no_question_of_prices_takes_long(explorer: Explorer, monkeypatch: pytest.MonkeyPatch) -> None:
    """A drop stands behind it: on a busy machine the first of them are answered, and the page asks for the rest."""
    asked = [("place", {"dim": dim, "axes": ["model"]}) for dim in ("hidden", "rows", "classes")]
    monkeypatch.setattr(protocol, "LONG", 3600.0)
    assert len(prices(explorer, *asked)) == 3
    monkeypatch.setattr(protocol, "LONG", 0.0)
    assert len(prices(explorer, *asked)) == 1


def test_a_refusal_among_the_compute_rules_names_the_columns_that_take_the_dim(explorer: Explorer) -> None:
    explorer.load("batch:data")
    compute, stored = {"dim": "hidden", "axes": ["data"]}, {"dim": "hidden", "axes": ["data"], "at": "params/*"}
    refused, legal = prices(explorer, ("place", compute), ("place", stored))
    columns = [{"at": "params/*", "label": "params"}, {"at": "grads/*", "label": "grads"}]
    assert refused["refused"]["columns"] == columns
    assert "refused" not in legal


def test_what_comes_after_the_page_gave_up_is_not_carried_out(explorer: Explorer) -> None:
    """Python was busy, the board put the chip back: the drop is not carried out then."""
    sent = message("place", dim="hidden", axes=["model"])
    reply: Any = answer(explorer, sent | {"good": time.time() - 1})
    assert (reply["kind"], reply["code"], explorer.revision) == ("nack", "late", 0)
    assert answer(explorer, sent | {"good": time.time() + 60})["kind"] == "ack"


@pytest.mark.parametrize("op", ["cancel", "cancel_auto"])
def test_what_stops_something_is_never_too_late(explorer: Explorer, op: str) -> None:
    on_time, late = (answer(explorer, message(op) | {"good": time.time() + by}) for by in (60, -60))
    assert (late["kind"], late.get("code")) == (on_time["kind"], on_time.get("code"))
    assert late.get("code") != "late"
    assert abs(answer(explorer, message("", "hello"))["now"] - time.time()) < 60


@pytest.mark.parametrize(
    ("sent", "reason"),
    [
        ({"v": 1, "id": 1}, "version 1 of the protocol, Python version 2"),
        ({"v": 2, "id": 1, "op": "shuffle", "args": {}}, "There is no operation `shuffle`"),
        ({"v": 2, "id": 1, "op": "place", "args": None}, "missing required field `dim`"),
        ({}, "version None of the protocol"),
    ],
)
def test_what_cannot_be_read_is_refused(explorer: Explorer, sent: dict, reason: str) -> None:
    reply = answer(explorer, sent)
    assert reply["kind"] == "nack"
    assert reason in reply["reason"]


def test_an_error_is_changes_and_not_raised(explorer: Explorer, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(intent: object) -> None:
        raise ZeroDivisionError("seven")

    monkeypatch.setattr(explorer, "apply", broken)
    reply: Any = answer(explorer, message("undo"))
    assert reply["kind"] == "nack"
    assert reply["reason"] == "ZeroDivisionError: seven"
    assert "broken" in reply["trace"]


def test_the_shared_state_is_plain_data(explorer: Explorer) -> None:
    state = shared_state(explorer)
    assert state.keys() == {"rev", *PARTS}
    assert json.loads(json.dumps(state)) == state


def test_advice_follows_and_its_message_does_what_it_says(explorer: Explorer) -> None:
    changes: queue.Queue[str] = queue.Queue()
    explorer.subscribe(changes.put)
    assert answer(explorer, {"v": 2, "kind": "advise", "id": 1})["kind"] == "ack"
    assert changes.get(timeout=60) == "advice"
    while not shared_state(explorer, "advice")["advice"]["advised"]:  # it says first what it looks at
        assert changes.get(timeout=60) == "advice"
    advice = shared_state(explorer, "advice")["advice"]["advice"]
    assert answer(explorer, message(advice["op"], **advice["args"]))["kind"] == "ack"
    assert explorer.plan.wire_bytes == advice["bytes"]
    # It was for the layout before.
    assert shared_state(explorer, "document")["advice"] == {
        "advice": None,
        "advised": False,
        "looking": None,
        "ranked": None,
        "advice_error": "",
    }


def test_each_word_for_a_change_describes_some_part_anew() -> None:
    assert {word for part in PARTS.values() for word in part.after} == set(get_args(Word))


def test_a_change_sends_the_parts_that_it_touches(explorer: Explorer) -> None:
    sent = {
        what: shared_state(explorer, what).keys() - {"rev"}
        for what in ("document", "tensor", "selection", "costs", "goal", "task", "run")
    }
    assert sent["document"] == {name for name, part in PARTS.items() if part.drawn}
    assert sent["tensor"] == {"devices", "selection"}
    assert sent["selection"] == {"selection"}
    assert sent["costs"] == {"costs", "comparison", "beside", "goal"}
    assert sent["goal"] == {"goal"}
    assert sent["task"] == {"task"}
    assert sent["run"] == {"job"}
