"""Every gesture is three things that agree: a message of the page, an intent, and a method of the Explorer."""

from __future__ import annotations

import pathlib
import re
from typing import Any

import pytest

import meshlab.widgets
from meshlab.engine.plans.remedies import Change, Remedy
from meshlab.widgets.documents import intents
from meshlab.widgets.documents.intents import Accepted, Intent
from meshlab.widgets.explorer import Explorer
from meshlab.widgets.state.handlers import HANDLERS, OPERATIONS, message_of, read_intent
from meshlab.widgets.state.tried_gestures import TriedGestures

# Each operation as a message of the page has it, and as a call: positions, keywords.
EXAMPLES: dict[str, tuple[dict[str, Any], tuple, dict[str, Any]]] = {
    "predict": ({"number": 3.0}, (3.0,), {}),
    "look": ({"value": "hidden"}, ("hidden",), {}),
    "cancel_look": ({}, (), {}),
    "profile": ({}, (), {}),
    "cancel_profile": ({}, (), {}),
    "place": (
        {"dim": "hidden", "axes": ["data", "model"], "at": "params/*", "source": ""},
        ("hidden", "data", "model"),
        {"at": "params/*", "source": ""},
    ),
    "remove": ({"dim": "hidden", "at": "params/*"}, ("hidden", "params/*"), {}),
    "load": ({"layout": {"hidden": "model"}, "name": "mine"}, ("hidden:model", "mine"), {}),
    "reset": ({}, (), {}),
    "preset": ({"name": "fsdp", "combine": True}, ("fsdp",), {"combine": True}),
    "toggle": ({"name": "fsdp", "over": "data"}, ("fsdp", "data"), {}),
    "beside": ({"preset": "fsdp"}, ("fsdp",), {}),
    "remedy": (
        {"changes": [{"how": "off", "dim": "hidden", "axes": ["model"]}]},
        (Remedy("take it off", (Change("off", "hidden", ("model",)),)),),
        {},
    ),
    "restore": ({"document": "{}"}, ("{}",), {}),
    "open_saved": ({"document": "{}"}, (), {}),
    "label": ({"of": "#1", "label": "wide", "note": "long"}, ("#1", "wide"), {"note": "long"}),
    "forget": ({"of": ["#1", "#2"]}, ("#1", "#2"), {}),
    "undo": ({}, (), {}),
    "redo": ({}, (), {}),
    "on": ({"machine": "v5e:2x4", "along": {"model": 1}}, ("v5e:2x4",), {"model": 1}),
    "lay": ({"along": {"data": 0, "model": None}}, (), {"data": 0, "model": None}),
    "assume": ({"attention": "flash", "prefetch": True}, ("flash", True), {}),
    "rename_axis": ({"axis": "data", "name": "replica"}, ("data", "replica"), {}),
    "split_axis": ({"axis": "model", "outer": 2, "name": "pod"}, ("model", 2, "pod"), {}),
    "merge_axes": ({"axes": ["data", "model"], "name": "all"}, ("data", "model"), {"name": "all"}),
    "resize_axis": ({"axis": "data", "size": 4}, ("data", 4), {}),
    "resize_dim": ({"dim": "batch", "size": 16}, ("batch", 16), {}),
    "open": ({"model": "gpt2", "sizes": {"batch": 4}}, ("gpt2",), {"batch": 4}),
    "list_models": ({}, (), {}),
    "curve": ({"kind": "dim", "name": "batch"}, ("batch",), {}),
    "cancel_curve": ({}, (), {}),
    "xla": ({}, (), {}),
    "cancel_xla": ({}, (), {}),
    "rename_dim": ({"dim": "batch", "name": "images"}, ("batch", "images"), {}),
    "pad": ({"pad": True}, (True,), {}),
    "pin": ({"dim": "hidden", "axis": "model"}, ("hidden", "model"), {}),
    "unpin": ({"dim": "hidden"}, ("hidden",), {}),
    "forbid": ({"dim": "hidden", "axis": "model"}, ("hidden", "model"), {}),
    "allow": ({"dim": "hidden", "axis": "model"}, ("hidden", "model"), {}),
    "silence": ({"axis": "model", "silent": False}, ("model",), {"silent": False}),
    "limit_auto": ({"memory": "60 GB", "seconds": 60}, ("60 GB",), {"seconds": 60}),
    "baseline": ({"document": None}, (), {}),
    "select": ({"place": "params/w2"}, ("params/w2",), {}),
    "auto": ({"objective": "memory"}, ("memory",), {}),
    "cancel_auto": ({}, (), {}),
    "stop_auto": ({}, (), {}),
    "exact_regrets": ({}, (), {}),
    "run": ({"steps": 3}, (3,), {}),
    "cancel": ({}, (), {}),
}
# These give back the choice, the regrets, the run, what was seen and measured, the curve and the report.
OWN = {"auto", "exact_regrets", "run", "look", "profile", "curve", "xla", "predict"}
# This takes a file (test_saved_boards.py).
OF_FILES = {"open_saved"}
SOURCES = pathlib.Path(meshlab.widgets.__file__).parent / "js" / "src"
SENT = re.compile(r"""\b(?:send|intent|line)\(\s*"([a-z_]+)"|\bop: "([a-z_]+)\"""")
# Messages that ask, and change nothing.
QUESTIONS = {"hello", "intent", "library", "bytes", "prices", "advise", "read"}


def kinds() -> set[type]:
    """Returns the classes of all intents."""
    return set(Intent.__subclasses__())


def test_every_intent_has_a_message_and_a_method() -> None:
    said = {name: value for kind in TriedGestures.__mro__[:4] for name, value in vars(kind).items()}
    methods = {name for name, value in said.items() if callable(value) and not name.startswith("_")}
    methods -= {"apply", "apply_and_wait"}  # the door itself
    assert set(OPERATIONS) == set(EXAMPLES) == methods | OWN
    assert {type(read_intent(op, message)) for op, (message, _, _) in EXAMPLES.items()} == kinds()
    assert set(HANDLERS) == kinds()


@pytest.mark.parametrize("op", sorted(EXAMPLES.keys() - OWN - OF_FILES))
def test_the_method_makes_the_intent_of_the_message(
    explorer: Explorer, op: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    applied: list[Intent] = []
    for door in ("apply", "apply_and_wait"):
        monkeypatch.setattr(explorer, door, lambda intent: applied.append(intent) or Accepted(0))
    message, positions, keywords = EXAMPLES[op]
    assert getattr(explorer, op)(*positions, **keywords)
    assert applied == [read_intent(op, message)]
    assert read_intent(*message_of(applied[0])) == applied[0]


def test_a_search_and_a_run_are_begun_by_method_and_by_intent(explorer: Explorer) -> None:
    choice = explorer.auto("memory")
    search = explorer.searches.last
    assert search is not None
    assert (search.objective, search.choice) == ("memory", choice)
    explorer.run(3).wait(60)
    intent = read_intent("run", {"steps": 3})
    assert isinstance(intent, intents.Start)
    assert explorer.apply(intent)
    explorer.runs[-1].wait(60)
    assert [run.steps for run in explorer.runs] == [3, 3]
    assert explorer.apply(intents.Auto("memory"))
    assert explorer.searches.last is not search


def test_the_page_sends_nothing_else() -> None:
    """What the page sends is known here, so no button of it can be without a method."""
    sent = {one or other for path in SOURCES.glob("*.ts") for one, other in SENT.findall(path.read_text())}
    assert sent - QUESTIONS <= set(OPERATIONS)
    assert {"place", "remove", "toggle", "pin", "lay", "select", "auto", "run"} <= sent
