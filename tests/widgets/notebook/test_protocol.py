"""The conversation with a page: answers, state before them, and nothing that raises."""

from __future__ import annotations

import json

import pytest

from meshlab.widgets.explorer import Explorer
from meshlab.widgets.notebook.protocol import answer, shared_state


def message(op: str, kind: str = "intent", **args: object) -> dict:
    return {"v": 1, "kind": kind, "id": "x-1", "base_rev": 0, "op": op, "args": args}


def test_an_intent_is_acknowledged_with_the_new_revision(explorer: Explorer) -> None:
    assert answer(explorer, message("place", dim="hidden", axes=["model"])) == {"id": "x-1", "kind": "ack", "rev": 1}
    assert str(explorer.layout) == "hidden:model"


def test_a_refusal_has_reason_and_fix(explorer: Explorer) -> None:
    reply = answer(explorer, message("place", dim="classes", axes=["model"]))
    assert (reply["kind"], reply["rev"], reply["code"]) == ("nack", 0, "not_divisible")
    assert "which 4" in reply["reason"]
    assert "8 or 12" in reply["fix"]


def test_a_page_that_saw_an_older_revision_is_answered_for_the_present_one(explorer: Explorer) -> None:
    explorer.load("batch:data")
    reply = answer(explorer, message("place", dim="rows", axes=["data"]))
    assert reply["kind"] == "nack"
    assert reply["rev"] == 1


def test_a_preview_changes_nothing(explorer: Explorer) -> None:
    reply = answer(explorer, message("place", "preview", dim="hidden", axes=["model"]))
    assert (reply["kind"], reply["rev"], reply["bytes"], reply["change"]) == ("preview", 0, 480, 480)
    assert answer(explorer, message("place", "preview", dim="classes", axes=["model"]))["kind"] == "nack"
    assert answer(explorer, message("select", "preview", place="images"))["kind"] == "nack"


@pytest.mark.parametrize(
    ("sent", "reason"),
    [
        ({"v": 2, "id": 1}, "version 2 of the protocol, Python version 1"),
        ({"v": 1, "id": 1, "op": "shuffle", "args": {}}, "There is no operation `shuffle`"),
        ({"v": 1, "id": 1, "op": "place", "args": None}, "came without its 'dim'"),
        ({}, "version None of the protocol"),
    ],
)
def test_what_cannot_be_read_is_refused(explorer: Explorer, sent: dict, reason: str) -> None:
    reply = answer(explorer, sent)
    assert reply["kind"] == "nack"
    assert reason in reply["reason"]


def test_an_error_is_told_and_not_raised(explorer: Explorer, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(intent: object) -> None:
        raise ZeroDivisionError("seven")

    monkeypatch.setattr(explorer, "apply", broken)
    reply = answer(explorer, message("undo"))
    assert reply["kind"] == "nack"
    assert reply["reason"] == "ZeroDivisionError: seven"
    assert "broken" in reply["trace"]


def test_the_shared_state_is_plain_data(explorer: Explorer) -> None:
    state = shared_state(explorer)
    assert state.keys() == {"doc", "rev", "view", "job"}
    assert json.loads(json.dumps(state)) == state
    assert shared_state(explorer, "run").keys() == {"job"}
