"""Remedies on the board: each message that a view has is taken, at the price that was shown, as one step of undo."""

from __future__ import annotations

from collections import Counter

import pytest

import meshlab as ml
from meshlab.engine.plans.remedies import Remedy
from meshlab.engine.verifying.random_layouts import draw
from meshlab.models import zoo
from meshlab.widgets.explorer import Explorer, explore
from meshlab.widgets.notebook.protocol import answer
from meshlab.widgets.state.document import ExplorerError
from meshlab.widgets.state.intents import Refused, TakeRemedy, read_intent
from tests.widgets import small

MODELS = {model.name: model for model in zoo.models()}
MESHES = (ml.mesh("v5e", x=2, y=4), ml.mesh("v5e", x=8))


def offered(explorer: Explorer) -> dict[str, dict]:
    """Returns the remedies of the board that are buttons, each once."""
    rows = explorer.view()["collectives"]["rows"]
    return {str(each["args"]): each for row in rows for each in row["remedies"] if "op" in each}


def sent(explorer: Explorer, kind: str, **content: object) -> dict:
    return answer(explorer, {"v": 2, "kind": kind, "id": 1, **content})


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


def test_the_words_are_those_of_the_plan() -> None:
    explorer = explore(MODELS["mlp"].trace(), ml.mesh(data=2, model=2), "batch:data hidden:model")
    rows = explorer.view()["collectives"]["rows"]
    texts = {tuple(each["text"] for each in row["remedies"]) for row in rows}
    assert texts == {tuple(each.text for each in c.remedies) for c in explorer.plan.collectives}


def test_what_would_be_refused_is_not_offered() -> None:
    layout = {"batch": "data", "params/*": {"hidden": "data"}}
    (row, *_) = [
        each
        for each in explore(small.program(), ml.mesh(data=2, model=4), layout).view()["collectives"]["rows"]
        if each["value"].startswith("params/") and each["kind"] == "all-gather"
    ]
    (whole,) = row["remedies"]
    assert whole["text"].startswith("store `params/w")
    assert whole["op"] == "remedy"


def test_what_a_wider_glob_says_of_other_dims_refuses_no_remedy() -> None:
    """A rule at one place is not made of the glob's rules for dims that are not there: B4."""
    program = MODELS["gpt2_adamw"].trace()
    explorer = explore(program, ml.mesh(data=4))
    explorer.load(ml.layouts.fsdp(program, explorer.mesh))
    rows = explorer.view()["collectives"]["rows"]
    row = next(each for each in rows if each["value"] == "params/embedding" and each["kind"] == "all-gather")
    (whole,) = [each for each in row["remedies"] if each["text"] == "store `params/embedding` whole"]
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
        ([{"how": "of", "dim": "hidden", "axes": ["model"]}], "'of' is no change of a layout. Did you mean `off`?"),
        ([{"how": "off", "axes": ["model"]}], "came without its 'dim'"),
        ("hidden", "came with invalid arguments"),
    ],
)
def test_a_message_that_is_no_remedy_is_refused(changes: object, reason: str) -> None:
    refused = read_intent("remedy", {"changes": changes})
    assert isinstance(refused, Refused)
    assert reason in refused.reason


def test_an_unknown_dim_is_refused_by_the_program(explorer: Explorer) -> None:
    made = read_intent("remedy", {"changes": [{"how": "on", "dim": "hiden", "axes": "model"}]})
    assert isinstance(made, TakeRemedy)
    refused = explorer.apply(made)
    assert isinstance(refused, Refused)
    assert "Did you mean `hidden`?" in refused.fix
