"""The latest search as the page draws it: between which bounds, with what pinned, as good as what, and out of date."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest

import meshlab as ml
from meshlab.auto.objective import OBJECTIVES
from meshlab.cost.machines.units import seconds_text
from meshlab.widgets.documents.intents import Refused
from meshlab.widgets.explorer import Explorer
from meshlab.widgets.notebook.protocol import shared_state
from meshlab.widgets.state import searches as searches_module
from meshlab.widgets.state.handlers import read_intent
from meshlab.widgets.state.searches import OFTEN, Search
from meshlab.widgets.views import search as search_module
from tests.widgets.grown import opened, tied


def shown(explorer: Explorer) -> dict:
    return shared_state(explorer, "search")["search"]["search"]


def take(explorer: Explorer, view: dict) -> None:
    """Does what a click on a layout's button does."""
    intent = read_intent(view["load"]["op"], view["load"]["args"])
    assert not isinstance(intent, Refused)
    assert explorer.apply(intent)


def test_what_was_found_stands_between_its_bounds() -> None:
    explorer = opened()
    choice = explorer.auto("time")
    search, proof = shown(explorer), choice.proof
    bracket = search["bracket"]
    assert (bracket["value"], bracket["bound"], bracket["gap"]) == (proof.value, proof.bound, proof.gap)
    assert bracket["plans"] == proof.plans
    assert bracket["texts"]["value"] == OBJECTIVES["time"].text(proof.value)
    assert bracket["texts"]["seconds"] == seconds_text(proof.seconds)
    assert (search["layout"], search["same"], search["reasons"]) == (str(choice.layout), False, True)
    take(explorer, search)
    assert shown(explorer)["same"]
    assert json.loads(json.dumps(search)) == search


def test_the_proof_and_what_was_searched_are_said_and_ties_are_listed(monkeypatch: pytest.MonkeyPatch) -> None:
    explorer = tied()
    choice = explorer.auto("time")
    ties, search = choice.proof.ties, shown(explorer)
    assert f", {len(ties)} more within 0.5% (" in search["proof"] == str(choice.proof)
    assert (search["searched"], search["not_searched"]) == (choice.proof.searched, choice.proof.not_searched)
    assert "at most " in search["searched"]
    assert "rules in scopes" in search["not_searched"]
    assert [tie["layout"] for tie in shown(explorer)["ties"]] == [str(tie) for tie in ties]
    assert shown(explorer)["tied"] == len(ties) > 1
    monkeypatch.setattr(search_module, "TIES", 1)
    assert (len(shown(explorer)["ties"]), shown(explorer)["tied"]) == (1, len(ties))
    take(explorer, shown(explorer)["ties"][0])
    assert explorer.layout == ties[0]


def test_what_is_pinned_is_kept_and_said() -> None:
    explorer = opened()
    assert explorer.pin("batch", "a")
    assert explorer.pin("ffn")
    part = shared_state(explorer, "search")["search"]
    assert part["search"] is None
    assert [rule["text"] for rule in part["kept"]["rules"]] == ["`batch` on `a`", "`ffn` whole"]
    choice = explorer.auto("time")
    assert "a" in choice.layout.rules["batch"]
    assert "ffn" not in choice.layout.rules
    assert (shown(explorer)["kept"], shown(explorer)["changed"]) == ("`batch` on `a`, `ffn` whole", False)
    assert explorer.unpin("ffn")
    assert (shown(explorer)["kept"], shown(explorer)["changed"]) == ("`batch` on `a`, `ffn` whole", True)
    assert explorer.choice is choice


@pytest.mark.share(3)
@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda explorer: explorer.on("v5e:2x4"), "The machine has changed since: search again."),
        (lambda explorer: explorer.rename_axis("a", "c"), "The mesh has changed since: search again."),
        (
            lambda explorer: explorer.assume(prefetch=True),
            "The assumptions about the run have changed since: search again.",
        ),
    ],
)
def test_what_was_found_for_something_else_is_said_to_be(change: Any, said: str) -> None:
    explorer = opened()
    explorer.auto("time")
    assert shown(explorer)["outdated"] == ""
    assert change(explorer)
    assert (shown(explorer)["outdated"], shown(explorer)["reasons"]) == (said, False)
    assert explorer.undo()
    assert (shown(explorer)["outdated"], shown(explorer)["reasons"]) == ("", True)


def test_progress_is_a_part_of_its_own_and_no_revision(monkeypatch: pytest.MonkeyPatch) -> None:
    """A better layout is told at once; how far the search is, a few times a second."""
    explorer, now = opened(), [100.0]
    heard: list[str] = []
    monkeypatch.setattr(searches_module.clock, "monotonic", lambda: now[0])

    def best(search: Search, progress: Any) -> Any:
        first, second = (search.program.plan(search.mesh, layout) for layout in ("batch:a", "batch:a+b"))
        heard.clear()
        revision = explorer.revision
        progress(ml.auto.Found(None, math.inf, 0.0, 1, 0.1))
        progress(ml.auto.Found(first, 2e-3, 1e-3, 2, 0.1))
        assert heard == ["search", "search"]
        progress(ml.auto.Found(first, 2e-3, 1.5e-3, 12, 0.1))
        assert heard == ["search", "search"]
        assert shown(explorer)["bracket"]["plans"] == 12
        now[0] += OFTEN
        progress(ml.auto.Found(first, 2e-3, 1.6e-3, 22, 0.1))
        progress(ml.auto.Found(second, 1.9e-3, 1.6e-3, 23, 0.1))
        assert heard == ["search"] * 4
        assert explorer.revision == revision
        return ml.auto.layout(search.program, search.mesh)

    monkeypatch.setattr(searches_module, "best", best)
    explorer.subscribe(heard.append)
    explorer.auto("time")
    assert shared_state(explorer, "search").keys() == {"rev", "search"}
