"""Remedies on the board: each message that a view has is taken, at the price that was shown, as one step of undo."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

import meshlab as ml
from meshlab.engine.plans.remedies import Remedy
from meshlab.engine.verifying.drawn_meshes import MESHES_IN_TIME
from meshlab.engine.verifying.random_layouts import draw
from meshlab.models import zoo
from meshlab.opening.open_explorer import explore
from meshlab.widgets.documents.document import ExplorerError
from meshlab.widgets.documents.intents import Accepted, Refused, TakeRemedy
from meshlab.widgets.explorer import Explorer
from meshlab.widgets.notebook.protocol import answer
from meshlab.widgets.state.handlers import read_intent
from meshlab.widgets.state.selection import identities
from tests.widgets import small

pytestmark = pytest.mark.share(2, of="file")

MODELS = {model.name: model for model in zoo.models()}
MESHES = (ml.mesh("v5e", x=2, y=4), ml.mesh("v5e", x=8))


def sent(explorer: Explorer, kind: str, **content: object) -> Any:
    return answer(explorer, {"v": 2, "kind": kind, "id": 1, **content})


def remedies(explorer: Explorer, row: dict) -> list[dict]:
    """Returns the remedies of a row of the board, as the page asks for them when it opens."""
    return sent(explorer, "read", what="remedies", args={"collective": row["id"]})["data"]["rows"]


def offered(explorer: Explorer) -> dict[str, dict]:
    """Returns the remedies of the board that are buttons, each once."""
    rows = explorer.view()["collectives"]["rows"]
    return {str(each["args"]): each for row in rows for each in remedies(explorer, row) if "op" in each}


@pytest.mark.parametrize("name", ["mlp_sgd", "transformer_sgd"])
def test_each_remedy_does_what_it_shows(name: str) -> None:
    program = MODELS[name].trace()
    taken: Counter[str] = Counter()
    explorers = {mesh: explore(program, mesh) for mesh in MESHES}
    for mesh, layout in draw(program, seed=11, count=10, meshes=MESHES):
        explorer = explorers[mesh]
        explorer.load(layout)
        view = explorer.view()
        for remedy in list(offered(explorer).values())[:6]:
            message = {"op": remedy["op"], "args": remedy["args"]}
            (price,) = sent(explorer, "prices", intents=[message], peak=True)["prices"]
            assert "refused" not in price, (str(layout), remedy)
            assert sent(explorer, "intent", **message)["kind"] == "ack"
            after = explorer.view()
            assert (price["bytes"], price["seconds"]) == (after["communication"]["total"], after["time"]["estimate"])
            assert (price["peak"], price["fits"]) == (after["peak_memory"]["bytes"], after["peak_memory"]["fits"])
            assert price["work"] == after["work"]
            taken["+".join(sorted({change["how"] for change in remedy["args"]["changes"]}))] += 1
            assert explorer.undo()
            assert explorer.view()["communication"] == view["communication"]
    assert taken["off"] > 4, taken
    assert taken["stored"] > 0, taken


@pytest.mark.parametrize("meshes", [MESHES, MESHES_IN_TIME], ids=["devices", "in time"])
def test_the_remedies_are_those_of_the_plan_and_no_others(meshes: tuple[ml.Mesh, ...]) -> None:
    """What planning refuses, and what sends as much for the same cause, is legal by its rules, and not offered."""
    program = MODELS["block"].trace()
    offered, dropped = 0, 0
    for mesh, layout in draw(program, seed=5, count=8, meshes=meshes):
        explorer, plan = explore(program, mesh, layout), program.plan(mesh, layout)
        planned = dict(zip(identities(plan), plan.collectives, strict=True))
        for row in explorer.view()["collectives"]["rows"]:
            c = planned[row["id"]]
            texts = [each["text"] for each in remedies(explorer, row)]
            assert texts == [each.text for each in c.remedies]
            assert row["proposed"] == bool(c.proposed)
            others = [each for each in c.proposed if each.changes and each.text not in texts]
            dropped += sum(explorer.documents.legal(each.applied(explorer.layout)) is None for each in others)
            offered += len(texts)
    assert offered
    assert dropped


def test_a_collective_that_is_gone_has_no_remedies(explorer: Explorer) -> None:
    explorer.load("batch:data hidden:model")
    row = next(each for each in explorer.view()["collectives"]["rows"] if each["key"] == "model")
    assert remedies(explorer, row)
    explorer.load("batch:data")
    assert remedies(explorer, row) == []


def test_a_remedy_is_planned_once_for_its_trial_and_its_price(explorer: Explorer) -> None:
    explorer.load("batch:data hidden:model")
    (remedy,) = next(c for c in explorer.plan.collectives if c.axes == ("model",)).remedies
    outcome = explorer.what_if(TakeRemedy(remedy.changes))
    assert isinstance(outcome, Accepted)
    assert outcome.plan is remedy.outcome.then


def test_what_would_be_refused_is_not_offered() -> None:
    layout = {"batch": "data", "params/*": {"hidden": "data"}}
    explorer = explore(small.program(), ml.mesh(data=2, model=4), layout)
    (row, *_) = [
        each
        for each in explorer.view()["collectives"]["rows"]
        if each["value"].startswith("params/") and each["kind"] == "all-gather"
    ]
    (whole,) = remedies(explorer, row)
    assert whole["text"].startswith("store `params/w")
    assert whole["op"] == "remedy"


def test_what_a_wider_glob_says_of_other_dims_refuses_no_remedy() -> None:
    """A rule at one place is not made of the glob's rules for dims that are not there: B4."""
    program = MODELS["gpt2_adamw"].trace()
    explorer = explore(program, ml.mesh(data=4))
    explorer.load(ml.layouts.fsdp(program, explorer.mesh))
    rows = explorer.view()["collectives"]["rows"]
    row = next(each for each in rows if each["value"] == "params/embedding" and each["kind"] == "all-gather")
    (whole,) = [each for each in remedies(explorer, row) if each["text"] == "store `params/embedding` whole"]
    assert sent(explorer, "intent", op=whole["op"], args=whole["args"])["kind"] == "ack"
    rules = explorer.layout.places["params/embedding"]
    assert set(rules) <= program.place_dims["params/embedding"]
    assert not any(rules.values())


def test_a_remedy_is_a_method(explorer: Explorer) -> None:
    explorer.load("batch:data hidden:model")
    (remedy,) = next(c for c in explorer.plan.collectives if c.axes == ("model",)).remedies
    assert explorer.remedy(remedy)
    assert str(explorer.layout) == "batch:data"
    with pytest.raises(ExplorerError, match=r"remedy\(\) was given 'hidden'; it must be one of a coll"):
        explorer.remedy("hidden")  # type: ignore[arg-type]
    with pytest.raises(ExplorerError, match="remedies that has changes"):
        explorer.remedy(Remedy("write it otherwise"))


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ([{"how": "of", "dim": "hidden", "axes": ["model"]}], "Invalid enum value 'of' - at `$.changes[0].how`"),
        ([{"how": "off", "axes": ["model"]}], "missing required field `dim` - at `$.changes[0]`"),
        ("hidden", "came with invalid arguments"),
    ],
)
def test_a_message_that_is_no_remedy_is_refused(changes: object, reason: str) -> None:
    refused = read_intent("remedy", {"changes": changes})
    assert isinstance(refused, Refused)
    assert reason in refused.reason


def test_an_unknown_dim_is_refused_by_the_program(explorer: Explorer) -> None:
    made = read_intent("remedy", {"changes": [{"how": "on", "dim": "hiden", "axes": ["model"]}]})
    assert isinstance(made, TakeRemedy)
    refused = explorer.apply(made)
    assert isinstance(refused, Refused)
    assert "Did you mean `hidden`?" in refused.fix
