"""Why Auto's layout is the fastest, as the page asks for it: pending, then what the choice says, ready to be taken."""

from __future__ import annotations

import json
import threading

import pytest

from meshlab.auto.reasons.regrets import Regret
from meshlab.engine.specs.layout import Layout
from meshlab.widgets.documents.intents import Load
from meshlab.widgets.explorer import Explorer
from meshlab.widgets.state.handlers import read_intent
from meshlab.widgets.views.reads import read
from meshlab.widgets.views.reasons import regret_view
from tests.widgets.grown import MANUAL, opened

pytestmark = pytest.mark.share(2, of="file")


@pytest.fixture(scope="module")
def searched() -> Explorer:
    explorer = opened()
    explorer.auto("time")
    return explorer


def asked(explorer: Explorer, what: str) -> dict:
    """What a page has of a reason when it has come."""
    there = threading.Event()
    stop = explorer.subscribe(lambda changed: there.set() if changed == "search" else None)
    first = read(explorer, what, {})
    if first == {"pending": True}:
        assert there.wait(60)
    stop()
    known = read(explorer, what, {})
    assert isinstance(known, dict)
    assert json.loads(json.dumps(known)) == known
    return known


def test_what_is_not_known_is_pending_and_follows(searched: Explorer) -> None:
    searched.reasons.forget()
    for what in ("met", "way", "regrets"):
        assert read(searched, what, {}) == {"pending": True}
        assert asked(searched, what) != {"pending": True}


def test_the_layouts_met_are_those_of_the_choice(searched: Explorer) -> None:
    view = asked(searched, "met")
    fastest, limit = view["layouts"][0], searched.view()["comparison"]["limit"]
    assert fastest["seconds"] == searched.choice.alternatives[0].seconds
    assert view["count"] == len(view["layouts"]) == len(searched.choice.alternatives)
    assert all(each["fits"] == (each["peak"] <= limit) for each in view["layouts"])
    assert read_intent("load", fastest["load"]["args"]) == Load(fastest["load"]["args"]["layout"])


def test_the_way_adds_up_and_each_step_can_be_taken(searched: Explorer) -> None:
    view, way = asked(searched, "way"), searched.choice.waterfall(MANUAL)
    steps = view["steps"]
    assert [step["change"] for step in steps] == [step.change for step in way.steps]
    assert steps[0]["by"] == 0
    assert steps[0]["seconds"] + sum(step["by"] for step in steps) == pytest.approx(steps[-1]["seconds"])
    assert view["rank"] == str(searched.choice.rank(MANUAL))
    board = opened()
    for step, there in zip(steps, way.steps, strict=True):
        board.load(step["load"]["args"]["layout"])
        assert board.layout == there.layout
        assert board.view()["time"]["estimate"] == step["seconds"]
        assert board.view()["peak_memory"]["bytes"] == step["peak"]
        assert board.view()["peak_memory"]["fits"] == step["fits"]


def test_the_way_follows_the_board() -> None:
    explorer = opened()
    choice = explorer.auto("time")
    assert len(asked(explorer, "way")["steps"]) > 1
    assert explorer.load(choice.layout)
    alone = asked(explorer, "way")
    assert [step["layout"] for step in alone["steps"]] == [str(choice.layout)]


def test_the_way_there_stays_once_autos_layout_is_taken() -> None:
    explorer = opened()
    choice = explorer.auto("time")
    way = asked(explorer, "way")
    assert "before" not in explorer.view()["search"]
    assert explorer.load("batch:a")
    assert explorer.load(MANUAL)
    assert explorer.load(choice.layout)
    view = explorer.view()
    before = view["search"]["before"]
    assert [card["layout"] for card in view["comparison"]["cards"] if card["key"] == before] == [MANUAL]
    assert read(explorer, "way", {"begins": before}) == way
    # A figure of it, and its numbers, begin there as well.
    assert [row["layout"] for row in explorer.table("waterfall")] == [step["layout"] for step in way["steps"]]
    assert explorer.undo()
    assert "before" not in explorer.view()["search"]


def test_regrets_are_brackets_until_each_is_searched_for(searched: Explorer) -> None:
    view = asked(searched, "regrets")
    met = searched.choice.regrets
    assert [row["change"] for row in view["rows"]] == [regret.change for regret in met]
    assert (view["phase"], view["searched"]) == ("", 0)
    assert view["binds"] == str(searched.choice.binding).splitlines()
    for row, regret in zip(view["rows"], met, strict=True):
        assert row["share"] == max(0.0, regret.share)
        assert row["least"] == max(0.0, regret.bound / regret.best - 1)
        assert row["load"]["args"]["name"] == regret.change.replace("`", "")
        assert row["layout"] == str(regret.layout)
    exact = searched.exact_regrets()
    view = asked(searched, "regrets")
    assert [row["seconds"] for row in view["rows"]] == [regret.seconds for regret in exact]
    assert (view["phase"], view["searched"]) == ("found", len(exact))


def test_a_regret_without_an_upper_end() -> None:
    view = regret_view(Regret("`ffn` off `b`", None, float("inf"), float("inf"), 2.0))
    assert (view["share"], view["least"], view["seconds"], view["load"]) == (None, None, None, None)
    faster = regret_view(Regret("`ffn` off `b`", Layout(), 1.99, 1.9, 2.0))
    assert (faster["share"], faster["least"]) == (0.0, 0.0)


def test_without_a_fastest_layout_there_is_nothing_to_tell(explorer: Explorer) -> None:
    assert read(explorer, "met", {}) == {"layouts": [], "count": 0}
    assert read(explorer, "way", {}) == {"steps": [], "order": "", "rank": "", "refused": ""}
    nothing = {"rows": [], "binds": [], "phase": "", "searched": 0, "error": ""}
    assert read(explorer, "regrets", {}) == nothing
    explorer.on("v5e")
    explorer.auto("memory")
    assert read(explorer, "regrets", {}) == nothing


def test_a_layout_that_only_padding_makes_legal_is_refused_in_words(explorer: Explorer) -> None:
    """Searches pad nothing."""
    explorer.on("v5e")
    assert explorer.pad(True)
    assert explorer.load("classes:model")
    explorer.auto("time")
    view = asked(explorer, "way")
    assert view["steps"] == []
    assert "`classes` has size 10, which 4 (`model`) does not divide" in view["refused"]
