"""What panels ask for: each by its name, with its arguments; a refusal says what there is."""

from __future__ import annotations

import json
from typing import Any

import pytest

from meshlab.widgets.explorer import Explorer
from meshlab.widgets.notebook.protocol import answer


def asked(explorer: Explorer, what: str, **args: object) -> Any:
    return answer(explorer, {"v": 2, "kind": "read", "id": "x-1", "what": what, "args": args})


def test_an_answer_has_the_data_of_the_present_revision(explorer: Explorer) -> None:
    explorer.load("batch:data")
    reply = asked(explorer, "forms")
    assert (reply["id"], reply["kind"], reply["rev"]) == ("x-1", "read", 1)
    forms = {form["name"]: form["text"] for form in reply["data"]["forms"]}
    assert json.loads(forms["JSON"]) == {"batch": "data"}


@pytest.mark.parametrize(
    ("what", "args", "reason"),
    [
        ("form", {}, "There is nothing to read named `form`. Did you mean `forms`?"),
        ("forms", {"scope": 1}, "`forms` was asked for with {'scope': 1}: got an unexpected keyword argument 'scope'."),
    ],
)
def test_what_cannot_be_read_is_refused(explorer: Explorer, what: str, args: dict, reason: str) -> None:
    reply = asked(explorer, what, **args)
    assert reply["kind"] == "nack"
    assert reason in reply["reason"]
