"""Gestures: what they change, what is refused and why, undo and redo, what-if, selection, subscriptions, threads."""

from __future__ import annotations

import threading

import pytest

import meshlab as ml
from meshlab.api.stages import Program
from meshlab.engine.errors import LayoutError
from meshlab.engine.specs.layout import Layout
from meshlab.opening.open_explorer import explore
from meshlab.widgets.documents.document import ExplorerError
from meshlab.widgets.documents.intents import Accepted, Load, Place, Refused, Select, Undo
from meshlab.widgets.explorer import Explorer
from meshlab.widgets.state.handlers import read_intent


def test_a_gesture_changes_layout_and_plan(explorer: Explorer) -> None:
    assert explorer.plan.wire_bytes == 0
    assert explorer.place("hidden", "model") == Accepted(1)
    assert str(explorer.layout) == "hidden:model"
    # Logits of 8 x 10 floats, all-reduced over 4 devices.
    assert explorer.plan.wire_bytes == 2 * 3 / 4 * 8 * 10 * 4
    assert explorer.place(ml.Dim("batch", 8), "data")
    assert str(explorer.layout) == "batch:data hidden:model"
    assert explorer.remove("hidden")
    assert explorer.place("batch")
    assert str(explorer.layout) == ""
    assert explorer.revision == 4


def test_several_axes_and_places(explorer: Explorer) -> None:
    assert explorer.place("hidden", "data", "model")
    (chip,) = [chip for chip in explorer.view()["chips"] if chip["name"] == "hidden"]
    assert chip == {"name": "hidden", "size": 16, "axes": ["data", "model"], "local": 2}
    explorer.load("batch:data")
    assert explorer.place("hidden", "data", at="params/*")
    assert explorer.layout.to_dict() == {"batch": "data", "params/*": {"hidden": "data"}}
    assert explorer.place("hidden", "model", at="params/*")
    assert explorer.view()["layout"]["places"] == [{"at": "params/*", "dim": "hidden", "axes": ["model"]}]
    assert explorer.remove("hidden", at="params/*")
    assert str(explorer.layout) == "batch:data"


def test_a_place_keeps_its_position(explorer: Explorer) -> None:
    explorer.load({"params/*": {"hidden": "model"}, "params/w1": {"hidden": None}})
    explorer.place("hidden", "data", at="params/*")
    assert [glob for glob, _ in explorer.layout.place_rules] == ["params/*", "params/w1"]


@pytest.mark.parametrize(
    ("dim", "axes", "refusal"),
    [
        ("classes", ("model",), ("not_divisible", "`classes` has size 10, which 4", "8 or 12")),
        ("clases", ("data",), ("unknown_dim", "`clases` is not a dim", "Did you mean `classes`")),
        ("hidden", ("modle",), ("unknown_axis", "no axis `modle`", "Did you mean `model`")),
        ("rows", ("data",), ("conflict", "`batch` and `rows` cannot both be on `data`", "another axis")),
        ("hidden", ("model", "model"), ("repeated_axis", "names one axis twice", "once")),
    ],
)
def test_refusals_say_why_and_change_nothing(
    explorer: Explorer, dim: str, axes: tuple[str, ...], refusal: tuple[str, str, str]
) -> None:
    code, reason, fix = refusal
    explorer.load("batch:data")
    answer = explorer.place(dim, *axes)
    assert isinstance(answer, Refused)
    assert not answer
    assert answer.code == code
    assert reason in answer.reason
    assert fix in answer.fix
    assert repr(answer) == f"Refused: {answer.reason} Fix: {answer.fix}"
    assert (str(explorer.layout), explorer.revision) == ("batch:data", 1)


def test_all_problems_are_told_at_once(explorer: Explorer) -> None:
    answer = explorer.load("clases:data hidden:modle")
    assert isinstance(answer, Refused)
    assert "clases" in answer.reason
    assert "modle" in answer.reason


def test_removing_an_unknown_dim_is_refused(explorer: Explorer) -> None:
    answer = explorer.remove("hiden")
    assert isinstance(answer, Refused)
    assert answer.reason == "There is no dim `hiden`. Did you mean `hidden`?"


def test_the_table_of_refusals_agrees_with_what_happens(explorer: Explorer) -> None:
    for start in ("", "batch:data", "batch:data hidden:model", "rows:data classes:data"):
        explorer.load(start)
        table = explorer.documents.refusals()
        for dim in explorer.program.dims:
            for axis in explorer.mesh.axes:
                assert bool(explorer.what_if(Place(dim, (axis,)))) == (table[dim][axis] is None), (start, dim, axis)


def test_the_table_of_additions_agrees_with_what_happens(explorer: Explorer) -> None:
    explorer.load("batch:data hidden:model")
    table = explorer.view()["additions"]
    assert table.keys() == {"batch", "hidden"}
    assert table["batch"]["model"]["code"] == "conflict"
    explorer.load("hidden:model")
    assert explorer.view()["additions"] == {"hidden": {"data": None}}


def test_undo_and_redo(explorer: Explorer) -> None:
    assert explorer.undo() == Refused("There is nothing to undo.", code="nothing")
    assert explorer.redo() == Refused("There is nothing to redo.", code="nothing")
    explorer.place("hidden", "model")
    explorer.place("batch", "data")
    assert explorer.undo()
    assert str(explorer.layout) == "hidden:model"
    assert explorer.redo()
    assert str(explorer.layout) == "batch:data hidden:model"
    assert explorer.undo()
    assert explorer.reset()
    assert str(explorer.layout) == ""
    assert not explorer.redo()
    assert explorer.undo()
    assert str(explorer.layout) == "hidden:model"


def test_a_gesture_without_effect_is_no_step(explorer: Explorer) -> None:
    explorer.place("hidden", "model")
    assert explorer.place("hidden", "model") == Accepted(1)
    assert len(explorer.history.past) == 1


def test_what_if_changes_nothing(explorer: Explorer) -> None:
    answer = explorer.what_if(Place("hidden", ("model",)))
    assert isinstance(answer, Accepted)
    assert answer.plan.wire_bytes == 480
    assert (explorer.revision, explorer.plan.wire_bytes) == (0, 0)
    assert not explorer.what_if(Undo())
    assert isinstance(explorer.what_if(Load(Layout.of("batch:data"))), Accepted)
    with pytest.raises(ExplorerError, match="Select does not change the document"):
        explorer.what_if(Select("images"))


def test_selection(explorer: Explorer) -> None:
    assert explorer.selected == "params/w1"
    assert explorer.select("images")
    assert explorer.selected == "images"
    answer = explorer.select("image")
    assert isinstance(answer, Refused)
    assert answer.reason == "There is no value at a place `image`. Did you mean `images`?"
    assert not explorer.undo(), "a selection is not a step"


def test_subscribers_are_told_and_forgotten(explorer: Explorer) -> None:
    heard: list[str] = []
    stop = explorer.subscribe(heard.append)
    explorer.place("hidden", "model")
    explorer.place("rows", "model")  # refused
    explorer.select("images")
    stop()
    stop()
    explorer.undo()
    assert heard == ["document", "tensor"]


def test_gestures_from_many_threads_are_all_counted(explorer: Explorer) -> None:
    def work() -> None:
        for _ in range(20):
            explorer.place("hidden", "model")
            explorer.remove("hidden")

    seen: list[int] = []
    explorer.subscribe(lambda _: seen.append(explorer.revision))
    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert seen == list(range(1, explorer.revision + 1))
    assert len(explorer.history.past) == explorer.revision


def test_an_illegal_layout_does_not_open(explorer: Explorer) -> None:
    with pytest.raises(LayoutError, match="`clases` is not a dim"):
        explore(explorer.program, explorer.mesh, "clases:data")


def test_repr_says_what_it_shows(explorer: Explorer) -> None:
    explorer.place("hidden", "model")
    assert repr(explorer) == "Explorer(layout='hidden:model', revision=1, wire bytes=480)"
    assert repr(Accepted(3)) == "Accepted: revision 3"


@pytest.mark.parametrize(
    ("op", "args", "reason"),
    [
        ("plce", {}, "There is no operation `plce`. Did you mean `place`?"),
        ("place", {"dim": "hidden"}, "came with invalid arguments: Object missing required field `axes`."),
        ("run", {"steps": "many"}, "came with invalid arguments"),
    ],
)
def test_messages_that_are_no_intents(op: str, args: dict, reason: str) -> None:
    answer = read_intent(op, args)
    assert isinstance(answer, Refused)
    assert reason in answer.reason


def test_a_mesh_is_wanted(program):
    with pytest.raises(
        ExplorerError, match=r"explore\(\) was given 'data=2' for its mesh; write ml.explore\(program, ml"
    ):
        explore(program, "data=2")


def test_a_preset_that_conflicts_with_the_layout_is_refused(explorer: Explorer) -> None:
    """Python's error about two layouts has its problems as texts, and none of them a fix."""
    explorer.load("hidden:data")
    answer = explorer.preset("tensor_parallel", combine=True)
    assert repr(answer) == (
        "Refused: The two layouts conflict: `hidden` is on `data` in one and on `model` in the other. Fix: Use one of"
        " them instead of the other."
    )


def test_a_preset_joins_axes_in_time_whatever_spelling_the_layout_came_in(program: Program) -> None:
    """A layout from text does not know by itself which of its axes are in time; the mesh does."""
    explorer = explore(program, ml.mesh(data=2, micro=ml.serial(2)), "batch:micro")
    assert explorer.preset("data_parallel", combine=True)
    assert str(explorer.layout) == "batch:data+micro"
