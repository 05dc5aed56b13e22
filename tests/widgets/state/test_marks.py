"""A colour belongs to a mesh axis's name: other axes that come and go leave it alone, on the board and in figures."""

from __future__ import annotations

import itertools
import re

import pytest

import meshlab as ml
from meshlab.opening.open_explorer import explore
from meshlab.widgets.explorer import Explorer
from meshlab.widgets.render.palette import SOLID, mark
from meshlab.widgets.state.marks import MARKS, SEVERAL, Marks, inherited, marked
from tests.widgets import small


@pytest.fixture
def explorer() -> Explorer:
    return explore(small.program(), ml.mesh("v5e", data=4, model=2), "batch:data hidden:model")


def marks(explorer: Explorer) -> dict[str, int]:
    return {group["key"]: group["mark"] for group in explorer.view()["groups"] if len(group["axes"]) == 1}


def test_splitting_an_axis_recolours_none(explorer: Explorer) -> None:
    before = marks(explorer)
    assert explorer.split_axis("data", 2, "pod")
    after = marks(explorer)
    assert list(after) == ["pod", "data", "model"]
    assert {name: after[name] for name in before} == before
    assert len(set(after.values())) == 3


def test_a_new_name_keeps_the_colour_and_so_does_the_way_back(explorer: Explorer) -> None:
    before = marks(explorer)
    explorer.rename_axis("data", "replica")
    assert marks(explorer) == {"replica": before["data"], "model": before["model"]}
    explorer.undo()
    assert marks(explorer) == before
    explorer.split_axis("data", 2, "pod")
    split = marks(explorer)
    explorer.undo()
    assert marks(explorer) == before
    explorer.redo()
    assert marks(explorer) == split


def test_what_is_sent_over_leaves_the_colours_of_axes_alone(explorer: Explorer) -> None:
    before = marks(explorer)
    for layout in (
        "",
        "batch:data",
        "hidden:data+model",
        "batch:data+model",
        "hidden:model",
        "batch:data hidden:model",
    ):
        explorer.load(layout)
        view = explorer.view()
        assert marks(explorer) == before
        assert len({group["mark"] for group in view["groups"]}) == len(view["groups"])


def test_the_layout_beside_has_the_same_colours(explorer: Explorer) -> None:
    explorer.split_axis("data", 2, "pod")
    before = marks(explorer)
    explorer.load("batch:pod+data")
    explorer.beside(explorer.history.past[-1])
    view = explorer.view()
    assert {g["key"]: g["mark"] for g in view["beside"]["groups"] if len(g["axes"]) == 1} == before == marks(explorer)


def test_snapshots_and_figures_have_the_board_s_colours(explorer: Explorer) -> None:
    explorer.view()
    explorer.split_axis("data", 2, "pod")
    view = explorer.view()
    for axis in ("pod", "data", "model"):
        head = rf"border-left:4px solid var\(--mlb-s-solid-\d, (#\w+)\)\">{axis} ×"
        assert re.findall(head, explorer.snapshot().html) == [SOLID[mark(view, axis)]]
    drawn = explorer.figure("communication")
    assert {bar.name: bar.marker.color for bar in drawn.data} == {
        group["key"]: SOLID[group["mark"]] for group in view["groups"] if group["key"] in {b.name for b in drawn.data}
    }


@pytest.mark.parametrize("count", range(1, 9))
def test_no_two_axes_share_a_colour_while_one_is_free(count: int) -> None:
    axes = [f"axis{number}" for number in range(count)]
    sets = ["+".join(pair) for pair in itertools.combinations(axes, 2)]
    of_axes = [marked({}, axes, sets)[axis] for axis in axes]
    assert len(set(of_axes)) == min(count, MARKS)
    of_sets = [marked({}, axes, sets)[each] for each in sets]
    own = [each for each in of_sets if each != SEVERAL]
    assert len(own) == len(set(own)) == min(len(sets), max(0, MARKS - count))
    assert not set(own) & set(of_axes)


def test_an_axis_goes_before_sets_and_what_is_there_before_what_comes_back() -> None:
    known = Marks()
    first = known.of(("a", "b"), ["a+b", "x", "y", "z"])
    assert sorted(first.values()) == list(range(6))
    then = known.of(("a", "b", "c"), ["a+b", "x", "y", "z"])
    assert [then["a"], then["b"]] == [0, 1]
    assert then["c"] in (2, 3, 4, 5)
    assert sorted(then.values()) == [0, 1, 2, 3, 4, 5, SEVERAL]
    # `a` leaves, all its marks are needed, and it comes back.
    full = known.of(("b", "c", "d", "e", "f", "g"), [])
    assert len(set(full.values())) == 6
    again = known.of(("a", "b", "c", "d", "e", "f"), [])
    assert {name: again[name] for name in "bcdef"} == {name: full[name] for name in "bcdef"}
    assert len(set(again.values())) == 6


def test_only_a_name_in_the_place_of_one_that_is_gone_is_a_new_name_of_it() -> None:
    assert inherited({"a": 3, "b": 1}, ("a", "b"), ("c", "b")) == {"a": 3, "b": 1, "c": 3}
    assert inherited({"a": 3, "b": 1}, ("a", "b"), ("b", "a")) == {"a": 3, "b": 1}
    assert inherited({"a": 3}, ("a",), ("c", "a")) == {"a": 3}
    assert inherited({"a": 3, "c": 5}, ("a",), ("c",)) == {"a": 3, "c": 5}
