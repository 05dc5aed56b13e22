"""The widget: state goes out when the Explorer changes, messages come in, and a snapshot stays beside it."""

from __future__ import annotations

import json
import pathlib
import threading
from typing import Any

import ipywidgets
import pytest

from meshlab.widgets.documents.document import ExplorerError
from meshlab.widgets.explorer import Explorer
from meshlab.widgets.notebook import protocol, saved_picture
from meshlab.widgets.notebook.session import STATIC, Session
from meshlab.widgets.notebook.standalone import VIEWS
from meshlab.widgets.views.board import PARTS

SENT: list[tuple[dict, int]] = []  # each answer, with the revision that the page has been told by then


@pytest.fixture
def session(explorer: Explorer, monkeypatch: pytest.MonkeyPatch) -> Session:
    session = explorer.session
    monkeypatch.setattr(session, "send", lambda content: SENT.append((content, session.rev)))
    SENT.clear()
    return session


def receive(session: Session, op: str, **args: object) -> None:
    session._handle_custom_msg({"v": 2, "kind": "intent", "id": "a", "base_rev": 0, "op": op, "args": args}, [])


def test_its_names_are_not_those_of_every_widget() -> None:
    own = {"rev", "notice", *PARTS}
    assert own <= set(Session.class_trait_names())
    assert not own & set(ipywidgets.DOMWidget.class_trait_names())


def test_state_is_shared_before_the_answer_is_sent(session: Session, explorer: Explorer) -> None:
    receive(session, "place", dim="hidden", axes=["model"])
    ((reply, revision),) = SENT
    assert (reply["id"], reply["kind"], reply["rev"], revision) == ("a", "ack", 1, 1)
    assert session.board["communication"]["total"] == explorer.plan.wire_bytes == 480
    assert session.board["layout"]["text"] == "hidden:model"


def test_what_a_script_does_is_shared_too(session: Session, explorer: Explorer) -> None:
    explorer.load("batch:data")
    assert (session.rev, session.board["layout"]["text"]) == (1, "batch:data")
    explorer.run(2).wait(60)
    assert session.job["current"]["phase"] == "done"


def test_a_board_that_cannot_be_drawn_says_so(session: Session, explorer: Explorer, monkeypatch) -> None:
    def broken(*args: object) -> None:
        raise ZeroDivisionError("seven")

    monkeypatch.setattr(protocol, "parts_view", broken)
    explorer.place("hidden", "model")
    assert session.notice["reason"] == "The board could not be drawn: ZeroDivisionError: seven"


def test_one_session_for_all_views(explorer: Explorer) -> None:
    data, _ = explorer._repr_mimebundle_()
    again, _ = explorer._repr_mimebundle_()
    key = "application/vnd.jupyter.widget-view+json"
    assert data[key]["model_id"] == again[key]["model_id"]
    assert data["text/plain"] == repr(explorer)


def test_a_selection_sends_few_bytes(session: Session, explorer: Explorer, monkeypatch: pytest.MonkeyPatch) -> None:
    sent: list[dict] = []
    monkeypatch.setattr(session, "_send", lambda message, buffers=None: sent.append(message["state"]))
    explorer.select("images")
    assert [state.keys() for state in sent] == [{"devices", "selection"}]
    assert len(json.dumps(sent)) < 20_000


def test_a_view_by_itself_follows_the_same_explorer(explorer: Explorer) -> None:
    view = explorer.views.memory
    data, _ = view._repr_mimebundle_()
    assert data["text/plain"].startswith("View(memory of Explorer(")
    assert view is explorer.views.memory
    assert view.session is not explorer.session
    explorer.place("hidden", "model")
    assert (view.session.panel, view.session.rev, view.session.board["layout"]["text"]) == ("memory", 1, "hidden:model")
    assert dir(explorer.views) == sorted(VIEWS)


def test_a_view_that_there_is_not(explorer: Explorer) -> None:
    with pytest.raises(ExplorerError, match=r"no view `memori`. Did you mean `memory`\?"):
        _ = explorer.views.memori


def test_the_bundle_is_small() -> None:
    size = {name: pathlib.Path(STATIC / name).stat().st_size for name in ("session.js", "session.css")}
    assert size["session.js"] < 280_000
    assert size["session.css"] < 75_000


class Displayed:
    """What a notebook would show: each output by its display id, replaced as it is."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch):
        self.outputs: dict[str, str] = {}
        self.replaced = threading.Event()
        monkeypatch.setattr(saved_picture, "display", self.display)

    def display(self, shown: dict[str, str], raw: bool, display_id: bool = False, **options: Any) -> Displayed | None:
        assert raw
        self.outputs["picture" if display_id else "widget"] = shown.get("text/html", shown["text/plain"])
        self.metadata = options["metadata"]
        return self if display_id else None

    def update(self, shown: dict[str, str], raw: bool, metadata: dict[str, Any]) -> None:
        assert raw
        self.metadata = metadata
        assert shown["text/plain"].startswith("Explorer(layout=")
        self.outputs["picture"] = shown["text/html"]
        self.replaced.set()


def test_a_picture_of_the_present_revision_is_an_output_of_its_own(explorer: Explorer, monkeypatch) -> None:
    displayed = Displayed(monkeypatch)
    explorer._ipython_display_()
    # A text there would say for ever what the first layout was, wherever the widget is not shown.
    assert displayed.outputs["widget"] == ""
    first = displayed.outputs["picture"]
    assert "<script" not in first
    assert "nothing sharded" in first
    assert f'data-mlb-picture="{explorer.session.saved}" data-revision="0"' in first
    explorer.place("hidden", "model")
    assert displayed.replaced.wait(60)
    assert 'data-revision="1"' in displayed.outputs["picture"]
    assert displayed.metadata["meshlab"]["board"]["layout"] == {"hidden": "model"}
    assert displayed.metadata["meshlab"]["opened"]["layout"] == {}
    assert "hidden:model" in displayed.outputs["picture"]
