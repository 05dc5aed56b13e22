"""An address opens what it was taken of, on another board; a bad one changes nothing, and all that is wrong is said."""

from __future__ import annotations

import json
import random
import re
from typing import Any

import pytest

import meshlab as ml
from meshlab.engine.specs.layout import Layout
from meshlab.engine.verifying.random_layouts import draw
from meshlab.models import zoo
from meshlab.opening.open_explorer import explore
from meshlab.widgets.documents.address import read, read_layout, written
from meshlab.widgets.documents.document import ExplorerError
from meshlab.widgets.documents.intents import Refused
from meshlab.widgets.explorer import Explorer
from meshlab.widgets.notebook.protocol import shared_state
from meshlab.widgets.views.address import collective_names
from meshlab.widgets.views.panels import TABS
from meshlab.widgets.views.reads import read as asked
from tests.widgets import small


@pytest.fixture
def explorer() -> Explorer:
    return explore(small.program(), small.mesh(), "batch:data")


def shown(explorer: Explorer) -> tuple[Any, ...]:
    return explorer.layout, explorer.selection, explorer.tried.compared_with.layout, explorer.tab[0]


def test_it_says_the_view_the_layout_and_what_is_selected(explorer: Explorer) -> None:
    assert explorer.address() == "devices?layout=batch:data&tensor=params/w1"
    explorer.place("hidden", "model")
    assert explorer.address("traffic") == "traffic?layout=batch:data hidden:model"
    explorer.select("params/w2", dim="hidden", device=3)
    assert explorer.address() == "devices?layout=batch:data hidden:model&tensor=params/w2&dim=hidden&device=3"
    (first, *_) = explorer.view()["collectives"]["rows"]
    explorer.select(collective=first["id"], dim=None, device=None)
    # A collective brings the tensor that it moves.
    of = f"collective={first['kind']} over {first['key']} of {first['value']}"
    assert explorer.address("devices") == f"devices?layout=batch:data hidden:model&{of}"
    explorer.baseline("hidden:model")
    assert explorer.address("time") == f"time?layout=batch:data hidden:model&baseline=hidden:model&{of}"


@pytest.mark.parametrize("name", ["digits", "gpt2_adamw", "moe_switch"])
def test_another_board_shows_the_same(name: str) -> None:
    program = next(each for each in zoo.models() if each.name == name).trace()
    choose = random.Random(name)
    for mesh, layout in draw(program, seed=3, count=3):
        one = explore(program, mesh)
        one.baseline(layout)
        one.load(layout)
        identities = [*collective_names(one.plan)]
        one.select(
            choose.choice([row["place"] for row in one.view()["places"]["rows"]]),
            dim=choose.choice([None, *program.dims]),
            device=choose.choice([None, mesh.size - 1]),
        )
        if identities:
            one.select(collective=choose.choice([None, *identities]))
        view = choose.choice(TABS)
        other = explore(program, mesh, address=one.address(view))
        assert other.address() == one.address(view)
        assert (other.layout, other.tab) == (one.layout, (view, 1))
        assert other.selection.collective == one.selection.collective
        assert other.selection.place == one.selection.place or view != "devices"


def test_it_is_one_step_that_undo_takes_back(explorer: Explorer) -> None:
    told: list[str] = []
    explorer.subscribe(told.append)
    assert explorer.go("traffic?layout=hidden:model&device=2")
    assert told.count("document") == 1
    assert (str(explorer.layout), explorer.selection.device, explorer.tab) == ("hidden:model", 2, ("traffic", 1))
    assert shared_state(explorer, "tab") == {"tab": {"view": "traffic", "count": 1}, "rev": explorer.revision}
    explorer.undo()
    assert str(explorer.layout) == "batch:data"


def test_what_it_does_not_say_stays_and_nothing_else_is_selected(explorer: Explorer) -> None:
    explorer.select("params/w2", dim="hidden", device=3)
    assert explorer.go("?device=1")
    assert (str(explorer.layout), explorer.selection.place, explorer.selection.dim) == ("batch:data", "params/w2", None)
    assert (explorer.selection.device, explorer.tab) == (1, ("", 0))
    assert explorer.go("memory")
    assert (explorer.selection.device, explorer.tab) == (None, ("memory", 1))


def test_links_and_what_browsers_make_of_them_are_read(explorer: Explorer) -> None:
    link = "file:///tmp/a%20board.html#devices?layout=batch:data%20hidden:model%20%C2%B7%20params/*:%20classes:data"
    assert explorer.go(link)
    assert explorer.layout == Layout.of({"batch": "data", "hidden": "model", "params/*": {"classes": "data"}})
    assert explorer.address("devices").startswith("devices?layout=batch:data hidden:model · params/*: classes:data")


BAD = "trafic?layout=batch:dat hiddn:model&baseline=x&foo=1&layout=2&device=99&dim=rws&tensor=params/w9&collective=no&y"


def test_all_that_is_wrong_is_said_at_once_and_nothing_changes(explorer: Explorer) -> None:
    before = shown(explorer)
    answer = explorer.go(BAD)
    assert isinstance(answer, Refused)
    for problem in (
        "There is no view 'trafic'. Did you mean `traffic`? There are `devices`, `program`, `traffic`",
        "There is no `foo` in an address. There are `layout`, `baseline`, `tensor`, `dim`, `device`, `collective`.",
        "`layout` appears twice.",
        "'y' is not KEY=VALUE.",
        "`layout`: `batch:dat`: the mesh has no axis `dat`.",
        "`layout`: `hiddn` is not a dim of this program.",
        "`baseline`: character 1: `x` is not a `dim:axis` pair",
        "There is no collective 'no' under this layout.",
        "There is no value at a place `params/w9`. Did you mean `params/w2`",
        "There is no dim 'rws'. Did you mean `rows`?",
        "There is no device 99. They are 0 to 7.",
    ):
        assert problem in answer.reason
    assert answer.said[0].endswith("And 10 more.")
    assert shown(explorer) == before
    assert explorer.revision == 0
    # One thing alone that is wrong, beside much that is right.
    for address in (
        "time?layout=hidden:model&device=8",
        "time?layout=hidden:model&device=x",
        "times?layout=hidden:model",
    ):
        assert not explorer.go(address)
        assert shown(explorer) == before


def test_an_explorer_is_not_opened_at_a_bad_address() -> None:
    with pytest.raises(ExplorerError, match=re.escape("There is no view 'trafic'. Did you mean `traffic`?")):
        explore(small.program(), small.mesh(), address="trafic")
    with pytest.raises(ExplorerError, match="go\\(\\) was given 7 for an address"):
        explore(small.program(), small.mesh(), address=7)  # type: ignore[arg-type]
    with pytest.raises(ExplorerError, match="There is no view 'collective'"):
        explore(small.program(), small.mesh()).address("collective")


def test_alike_collectives_have_numbers() -> None:
    program = next(each for each in zoo.models() if each.name == "gpt2_adamw").trace()
    plan = explore(program, ml.mesh(data=2, model=2), "batch:data heads:model ffn:model").plan
    names = collective_names(plan)
    assert len({*names.values()}) == len(names)
    assert any(name.endswith(" (2)") for name in names.values())


LAYOUTS: list[Any] = [
    None,
    "batch:data",
    {"batch": ["data", "model"], "params/*": {"hidden": None, "rows": "data"}},
    {"@attention": {"heads": "model", "seq": None}, "params/w?": {"embed": "data"}},
    {"dim?": "data"},
    {"a & b%#/*": {"embed": "data"}},
    {"odd: place · /*": {"embed": "data"}},
]


@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_layout_in_an_address_is_read_as_it_was(layout: Any) -> None:
    text = str(Layout.of(layout))
    assert read_layout(json.dumps(Layout.of(layout).to_dict())) == Layout.of(layout)  # as older addresses have it
    assert read_layout(text) == Layout.of(layout)
    assert read(written("time", {"layout": text})) == ("time", {"layout": text}, [])


@pytest.mark.parametrize(
    "layout", ["params/*: hidden:data rows:whole", "batch:data · @core: hidden:data; params/w1: {}"]
)
def test_a_board_opens_with_a_layout_in_one_line_and_prints_it_alike(layout: str) -> None:
    board = explore(small.program(), small.mesh(), layout.replace(" · @core: hidden:data", ""))
    again = explore(small.program(), small.mesh(), str(board.layout))
    assert again.layout == board.layout
    assert board.layout.places


def test_a_page_is_told_the_code_that_opens_a_view(explorer: Explorer) -> None:
    answer: Any = asked(explorer, "link", {"view": "traffic"})
    assert answer == {"text": 'explorer.go("traffic?layout=batch:data")'}
    assert isinstance(asked(explorer, "link", {"view": "collective"}), Refused)
