"""What searches keep to: in the document, through edits of the mesh, in the search, and in words."""

from __future__ import annotations

import dataclasses
import json
import threading
from typing import Any

import pytest

import meshlab as ml
from meshlab.widgets.documents.document import read_document
from meshlab.widgets.documents.edits import kept_note
from meshlab.widgets.documents.intents import Accepted, Outcome, Pad, Refused
from meshlab.widgets.explorer import Explorer
from meshlab.widgets.notebook.protocol import VERSION, answer, shared_state
from meshlab.widgets.state.searches import SEARCHING
from tests.widgets import small
from tests.widgets.grown import opened, program


def kept(explorer: Explorer) -> dict[str, Any]:
    return shared_state(explorer, "search")["search"]["kept"]


def rules(explorer: Explorer) -> list[str]:
    return [rule["text"] for rule in kept(explorer)["rules"]]


def said(answer: Outcome) -> str:
    assert isinstance(answer, Accepted)
    return answer.note


def test_all_of_it_is_saved_and_opened_again(explorer: Explorer) -> None:
    for change in (explorer.pin("batch", "data"), explorer.forbid("hidden", "data"), explorer.silence("model")):
        assert change
    assert explorer.limit_auto("60 GB", "90 s")
    data = json.loads(explorer.to_json())
    assert (data["schema"], data["pins"], data["silent"]) == (4, {"batch": "data"}, ["model"])
    assert (data["forbidden"], data["search"]) == ({"hidden": ["data"]}, {"memory": "60 GB", "seconds": 90.0})
    again = Explorer.from_json(explorer.to_json(), small.program())
    assert again.document == explorer.document
    assert again.to_json() == explorer.to_json()


def test_a_document_without_it_is_written_as_before_and_older_ones_open(explorer: Explorer) -> None:
    assert explorer.pin("batch", "data")
    data = json.loads(explorer.to_json())
    assert data["schema"] == 3
    assert not data.keys() & {"forbidden", "silent", "search"}
    assert explorer.silence("model")
    assert json.loads(explorer.to_json())["schema"] == 4
    assert explorer.silence("model", silent=False)
    assert json.loads(explorer.to_json()) == data
    assert Explorer.from_json(json.dumps(data), small.program()).document == explorer.document


def test_what_is_written_twice_is_there_once(explorer: Explorer) -> None:
    assert explorer.forbid("hidden", "data")
    assert explorer.silence("model")
    data = json.loads(explorer.to_json())
    twice = {"forbidden": {"hidden": ["data", "data"]}, "silent": ["model", "model"]}
    assert Explorer.from_json(json.dumps(data | twice), small.program()).document == explorer.document
    assert read_document(json.dumps(data | twice)).to_json() == explorer.to_json()


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"forbidden": ["vocab"]}, "`forbidden` is"),
        ({"silent": "model"}, "`silent` is"),
        ({"search": {"memory": 7, "seconds": None}}, "memory=7.0 is not a share of a device's memory"),
        ({"search": {"minutes": 7}}, "`search` is"),
    ],
)
def test_what_is_wrong_with_a_saved_one_is_said(explorer: Explorer, changed: dict, said: str) -> None:
    assert explorer.silence("model")
    with pytest.raises(ml.MeshlabError, match=said):
        read_document(json.dumps(json.loads(explorer.to_json()) | changed))


def test_it_is_one_step_that_plans_nothing_and_is_undone(explorer: Explorer) -> None:
    plan = explorer.plan
    assert explorer.forbid("hidden", "model")
    assert explorer.silence("data")
    assert explorer.limit_auto(seconds=30)
    assert explorer.plan is plan
    assert rules(explorer) == ["`hidden` never on `model`", "`data` silent"]
    assert kept(explorer)["seconds"] == "30 s"
    for _ in range(3):
        assert explorer.undo()
    assert (rules(explorer), kept(explorer)["seconds"]) == ([], "")
    assert len(explorer.tried) == 1


def test_a_rule_takes_itself_away(explorer: Explorer) -> None:
    assert explorer.pin("batch")
    assert explorer.forbid("hidden", "model")
    assert explorer.silence("data")
    for rule in kept(explorer)["rules"]:
        op, args = rule["undo"]["op"], rule["undo"]["args"]
        assert answer(explorer, {"v": VERSION, "id": 1, "kind": "intent", "op": op, "args": args})["kind"] == "ack"
    assert explorer.document.kept == {}


def test_what_goes_with_an_edit_is_said(explorer: Explorer) -> None:
    assert explorer.pin("batch", "data")
    assert explorer.forbid("batch", "model")
    assert explorer.forbid("hidden", "model")
    assert said(explorer.merge_axes("data", "model", name="all")) == "Nothing keeps `batch` off `model` any more."
    assert explorer.document.kept == {"pin": {"batch": "all"}, "forbid": {"hidden": ["all"]}}
    assert explorer.undo()
    assert said(explorer.split_axis("data", 2, "pod")) == "The pin of `batch` is gone."
    # No edit lets an axis be loud yet; one that does will say so.
    before = dataclasses.replace(explorer.document, silent=("data", "model"))
    after = dataclasses.replace(before, silent=("model",))
    assert kept_note(before, after, Pad(True)) == "`data` need not be silent any more."


def test_it_follows_the_mesh_and_the_names_of_dims(explorer: Explorer) -> None:
    assert explorer.forbid("hidden", "model")
    assert explorer.silence("model")
    assert said(explorer.rename_axis("model", "tensor")) == ""
    assert explorer.document.kept == {"forbid": {"hidden": ["tensor"]}, "silent": ["tensor"]}
    assert said(explorer.split_axis("tensor", 2, "pod")) == ""
    assert explorer.document.kept == {"forbid": {"hidden": ["pod", "tensor"]}, "silent": ["pod", "tensor"]}
    assert said(explorer.merge_axes("pod", "tensor", name="all")) == ""
    assert explorer.document.kept == {"forbid": {"hidden": ["all"]}, "silent": ["all"]}
    assert explorer.rename_dim("hidden", "wide")
    assert explorer.document.kept == {"forbid": {"wide": ["all"]}, "silent": ["all"]}
    assert explorer.resize_axis("all", 2)
    assert explorer.document.kept == {"forbid": {"wide": ["all"]}, "silent": ["all"]}


@pytest.mark.parametrize(
    ("ask", "reason"),
    [
        (lambda e: e.forbid("batch", "data"), "`batch` is pinned to `data`: unpin it to forbid it there."),
        (lambda e: e.pin("hidden", "model"), "`hidden` is never on `model` in searches: allow it there to pin it."),
        (lambda e: e.allow("rows", "data"), "`rows` may be on `data` in searches: nothing forbids it."),
        (lambda e: e.silence("modle"), "has no axis of devices `modle`. Did you mean `model`?"),
        (lambda e: e.forbid("hidden", "modle"), "Did you mean `model`?"),
        (
            lambda e: e.limit_auto(memory="60 GX"),
            "explorer.limit_auto() cannot search: memory='60 GX' is not a share",
        ),
        (lambda e: e.limit_auto(memory=2), "explorer.limit_auto() cannot search: memory=2 is not a share"),
        (lambda e: e.limit_auto(seconds="2 fortnights"), "there is no unit `fortnights`"),
        (lambda e: e.limit_auto(seconds=-1), "explorer.limit_auto() cannot search: seconds=-1"),
        (lambda e: e.stop_auto(), "There is no search to stop."),
    ],
)
def test_what_cannot_be_is_refused_and_changes_nothing(explorer: Explorer, ask: Any, reason: str) -> None:
    assert explorer.pin("batch", "data")
    assert explorer.forbid("hidden", "model")
    before = explorer.document
    refusal = ask(explorer)
    assert isinstance(refusal, Refused)
    assert reason in refusal.reason
    assert explorer.document == before


@pytest.mark.parametrize(
    ("memory", "seconds", "read"),
    [
        ("50%", "60", (0.5, 60.0)),
        ("any", "", (None, None)),
        ("", "500 ms", (None, 0.5)),
        ("1 GiB", None, ("1 GiB", None)),
        (0.25, 5, (0.25, 5.0)),
    ],
)
def test_limits_are_read_as_people_write_them(explorer: Explorer, memory: Any, seconds: Any, read: tuple) -> None:
    assert explorer.limit_auto(memory, seconds)
    assert (explorer.document.memory, explorer.document.seconds) == read


def test_the_search_keeps_to_it_and_says_so() -> None:
    explorer = opened()
    explorer.auto("time")
    assert explorer.pin("batch", "a")
    assert explorer.forbid("embed", "b")
    assert explorer.silence("b")
    assert explorer.limit_auto("30 MB", 60)
    assert shared_state(explorer, "search")["search"]["search"]["changed"]
    assert (
        "at most 30 MB"
        in shared_state(explorer, "comparison")["comparison"]["comparison"]["objectives"][0]["condition"]
    )
    choice = explorer.auto("time")
    assert choice.layout.rules["batch"] == ("a",)
    choice.plan.assert_silent("b")
    assert choice.plan.memory.donated.peak_bytes <= 30e6
    view = shared_state(explorer, "search")["search"]["search"]
    text = "`batch` on `a`, `embed` never on `b`, `b` silent, at most 30 MB, within 60 s"
    assert (view["kept"], view["changed"]) == (text, False)
    assert view["searched"].partition("with ")[2].startswith(kept(explorer)["space"])
    given: dict[str, Any] = {"pin": "batch:a", "forbid": "embed:b", "silent": "b", "memory": "30 MB"}
    assert choice.proof.value == ml.auto.layout(program(), explorer.mesh, **given).proof.value


def test_a_search_that_finds_nothing_says_what_is_in_the_way() -> None:
    explorer = opened()
    assert explorer.pin("batch", "a")
    assert explorer.silence("a")
    with pytest.raises(ml.auto.NothingAllowed):
        explorer.auto("time")
    view = shared_state(explorer, "search")["search"]["search"]
    assert view["phase"] == "failed"
    assert "Without the pin `batch:a`, `" in view["error"]
    assert "Without `a` silent, `" in view["error"]


def test_a_search_is_stopped_and_the_best_so_far_comes_on_the_board() -> None:
    explorer, stopped, found = opened(""), [], threading.Event()

    def listen(what: str) -> None:
        search = explorer.searches.last
        if search is not None and search.phase == SEARCHING and search.found and not stopped:
            stopped.append(explorer.stop_auto())
        if what == "document":
            found.set()

    explorer.subscribe(listen)
    assert explorer.searches.start("time") is None
    assert found.wait(60)
    assert len(stopped) == 1
    assert isinstance(stopped[0], Accepted)
    choice = explorer.choice
    assert explorer.layout == choice.layout
    card = explorer.tried.known(explorer.document)
    assert card is not None
    assert card.name == "Auto (time)"


def test_what_was_met_before_a_search_was_cancelled_has_its_name(monkeypatch: pytest.MonkeyPatch) -> None:
    from tests.browser.held_search import Held

    held, explorer = Held(monkeypatch), opened()
    assert explorer.searches.start("time") is None
    assert held.told.wait(60)
    assert explorer.cancel_auto()
    load = shared_state(explorer, "search")["search"]["search"]["load"]
    assert answer(explorer, {"v": VERSION, "id": 1, "kind": "intent", **load})["kind"] == "ack"
    held.end()
    card = explorer.tried.known(explorer.document)
    assert card is not None
    assert card.name == "Auto (time) so far"
