"""Edits of the mesh, of dims, of padding and pins: the layout and the placement follow, and each is one step."""

from __future__ import annotations

import inspect
import threading

import pytest

import meshlab as ml
from meshlab.api.stages import Program
from meshlab.opening.open_explorer import explore
from meshlab.widgets.documents.document import ExplorerError
from meshlab.widgets.documents.intents import Accepted, Refused, ResizeDim
from meshlab.widgets.explorer import Explorer
from meshlab.widgets.state import searches
from meshlab.widgets.state.handlers import read_intent
from tests.engine.pipelines import stacks
from tests.widgets import small

LAYOUT = {"batch": "data", "hidden": ["model", "data"], "params/*": {"hidden": "data"}}


def keys(seq_size: int = 8) -> Program:
    """A program with an axis that is cut off `seq`, whose name is made up."""
    Seq, Embed = ml.dims(seq=seq_size, embed=4)
    return ml.trace(lambda x: (x @ x.T).sum(), ml.named(ml.f32[Seq, Embed].array, "seq embed"))


def refused(answer: object) -> str:
    assert isinstance(answer, Refused)
    return f"{answer.reason} {answer.fix}"


def unchanged(explorer: Explorer, before: str, revision: int) -> bool:
    return (explorer.to_json(), explorer.revision) == (before, revision)


class TestMeshAxes:
    def test_a_renamed_axis_is_renamed_in_every_rule(self, program: Program) -> None:
        explorer = explore(program, ml.mesh(data=2, model=4), {"hidden": "data", "params/*": {"hidden": "data"}})
        wire = explorer.plan.wire_bytes
        assert explorer.rename_axis("data", "replica") == Accepted(1)
        assert dict(explorer.mesh.axes) == {"replica": 2, "model": 4}
        assert explorer.layout.to_dict() == {"hidden": "replica", "params/*": {"hidden": "replica"}}
        assert explorer.plan.wire_bytes == wire
        assert explorer.undo()
        assert dict(explorer.mesh.axes) == {"data": 2, "model": 4}
        assert explorer.layout.to_dict() == {"hidden": "data", "params/*": {"hidden": "data"}}

    def test_a_split_axis_is_two_in_every_rule_and_merged_again(self, program: Program) -> None:
        explorer = explore(program, ml.mesh(data=4, model=2), {"batch": "data", "params/*": {"hidden": "data"}})
        before, wire = explorer.to_json(), explorer.plan.wire_bytes
        assert explorer.split_axis("data", outer=2, name="pod")
        assert list(explorer.mesh.axes.items()) == [("pod", 2), ("data", 2), ("model", 2)]
        assert explorer.layout.to_dict() == {"batch": ["pod", "data"], "params/*": {"hidden": ["pod", "data"]}}
        assert explorer.plan.wire_bytes == wire
        assert explorer.merge_axes("pod", "data")
        assert explorer.to_json() == before
        assert explorer.merge_axes("data", "model", name="all") == Refused(
            "`data`, `model` cannot be merged: `batch` is on `data`, and must be on `data+model`, side by side, or on"
            " none of them."
        )

    def test_axes_that_are_apart_in_a_rule_are_not_merged(self, program: Program) -> None:
        explorer = explore(program, ml.mesh(data=2, pod=2, model=2), {"hidden": ["data", "model", "pod"]})
        before = explorer.to_json()
        assert "`hidden` is on `data+model+pod`" in refused(explorer.merge_axes("data", "pod"))
        assert "`hidden` is on `data+model+pod`" in refused(explorer.merge_axes("model", "data"))
        assert unchanged(explorer, before, 0)
        assert explorer.merge_axes("model", "pod", name="inner")
        assert explorer.layout.to_dict() == {"hidden": ["data", "inner"]}

    def test_a_resized_axis_keeps_its_rules(self, explorer: Explorer) -> None:
        explorer.place("batch", "data")
        assert explorer.resize_axis("data", 8)
        assert (explorer.mesh.size, str(explorer.layout)) == (32, "batch:data")
        before = explorer.to_json()
        assert "`batch` has size 8, which 3 (`data`) does not divide" in refused(explorer.resize_axis("data", 3))
        assert unchanged(explorer, before, 2)

    def test_stages_that_lose_their_layers_are_said(self) -> None:
        mesh = ml.mesh(pipe=ml.stages(4, layers=(1, 3, 3, 1)), micro=ml.serial(4))
        explorer = explore(stacks.program("plain", layers=8), mesh, "batch:micro layers:pipe")
        before = explorer.mesh.stages["pipe"]
        # What still fits stays, under another name and beside another number of micro-batches.
        for answer in (explorer.resize_axis("micro", 2), explorer.rename_axis("pipe", "stage")):
            assert isinstance(answer, Accepted)
            assert answer.note == ""
        assert explorer.mesh.stages["stage"] == before
        answer = explorer.resize_axis("stage", 2)
        assert isinstance(answer, Accepted)
        said = "The 1, 3, 3 and 1 layers of `stage` do not fit 2 stages; all stages now have equally many layers."
        assert answer.note == said
        assert explorer.mesh.stages["stage"] == ml.stages(2)
        assert explorer.undo()
        assert explorer.mesh.stages["stage"] == before

    @pytest.mark.parametrize(
        ("op", "args", "reason"),
        [
            ("rename_axis", {"axis": "date", "name": "x"}, "no axis `date`. Did you mean `data`"),
            ("rename_axis", {"axis": "data", "name": "model"}, "axis `model` appears twice"),
            ("rename_axis", {"axis": "data", "name": "a b"}, "an axis was named 'a b'"),
            ("split_axis", {"axis": "model", "outer": 3, "name": "x"}, "`model` of 4 cannot be split into 3"),
            ("split_axis", {"axis": "model", "outer": 2, "name": "data"}, "axis `data` appears twice"),
            ("merge_axes", {"axes": ["data"]}, "Two or more different mesh axes"),
            ("merge_axes", {"axes": ["data", "data"]}, "Two or more different mesh axes"),
            ("merge_axes", {"axes": ["data", "modell"]}, "no axis `modell`"),
            ("resize_axis", {"axis": "data", "size": 0}, "it must be an integer of at least 1"),
            ("resize_axis", {"axis": "data", "size": 2**31}, "more than 2,147,483,647 devices"),
            ("resize_axis", {"axis": "data", "size": "many"}, "came with invalid arguments"),
            ("resize_axis", {"axis": "data"}, "missing required field `size`"),
            ("resize_dim", {"dim": "batch", "size": 0}, "a size must be an integer of at least 1"),
            ("resize_dim", {"dim": "bach", "size": 4}, "not a dim of this program. Did you mean `batch`"),
            ("rename_dim", {"dim": "batch", "name": "1"}, "a name is ASCII letters"),
            ("rename_dim", {"dim": "batch", "name": "hidden"}, "cannot be one dim `hidden`"),
            ("pin", {"dim": "classes", "axis": "model"}, "`classes` has size 10, which 4"),
            ("unpin", {"dim": "batch"}, "`batch` is not pinned"),
        ],
    )
    def test_what_does_not_fit_is_refused_whole(self, explorer: Explorer, op: str, args: dict, reason: str) -> None:
        before, intent = explorer.to_json(), read_intent(op, args)
        answer = intent if isinstance(intent, Refused) else explorer.apply(intent)
        assert reason in refused(answer)
        assert unchanged(explorer, before, 0)
        assert explorer.tracer.last is None

    def test_reset_brings_the_mesh_back(self, explorer: Explorer) -> None:
        before = explorer.to_json()
        explorer.split_axis("model", 2, "pod")
        explorer.place("hidden", "pod")
        assert explorer.reset()
        assert explorer.to_json() == before


class TestMachine:
    def test_placements_of_changed_axes_are_dropped_and_said(self, program: Program) -> None:
        explorer = explore(program, ml.lay(ml.mesh("v5e:4x4", data=4, model=4), data=0, model=1))
        assert explorer.rename_axis("data", "replica") == Accepted(1)
        machine = explorer.document.machine
        assert machine
        assert dict(machine.along) == {"replica": 0, "model": 1}
        answer = explorer.split_axis("replica", 2, "pod")
        assert isinstance(answer, Accepted)
        assert answer.note == "The placement of `replica` is chosen again."
        machine = explorer.document.machine
        assert machine
        assert (machine.on, dict(machine.along)) == ("v5e:4x4", {"model": 1})

    def test_a_resized_mesh_has_another_slice(self, program: Program) -> None:
        explorer = explore(program, ml.mesh("v5e:4x4", data=4, model=4))
        answer = explorer.resize_axis("data", 8)
        assert isinstance(answer, Accepted)
        assert answer.note == "The mesh is now on `v5e:4x8`."
        assert explorer.mesh.on.slice == "4x8"
        assert explorer.undo()
        assert explorer.mesh.on.slice == "4x4"

    def test_a_mesh_that_no_slice_fits_is_refused(self, program: Program) -> None:
        explorer = explore(program, ml.mesh("v3:1x2", data=4))
        before = explorer.to_json()
        assert "No slice of `v3` fits the mesh data=3 (3 devices)" in refused(explorer.resize_axis("data", 3))
        assert unchanged(explorer, before, 0)


class TestPadding:
    def test_padding_is_switched_and_the_table_follows(self, explorer: Explorer) -> None:
        assert not explorer.place("classes", "model")
        assert explorer.pad(True)
        assert explorer.documents.refusals()["classes"]["model"] is None
        assert explorer.place("classes", "model")
        view = explorer.view()
        assert view["pad"] is True
        assert {chip["name"]: chip["local"] for chip in view["chips"]}["classes"] == 3
        before = explorer.to_json()
        assert "`classes` has size 10, which 4" in refused(explorer.pad(False))
        assert unchanged(explorer, before, 2)
        assert Explorer.from_json(before, explorer.program).document == explorer.document
        with pytest.raises(ExplorerError, match="pad"):
            explorer.pad("yes")  # type: ignore[arg-type]

    def test_a_layout_that_was_padded_is_loaded_with_its_padding(self, explorer: Explorer) -> None:
        explorer.pad(True)
        explorer.place("classes", "model")
        explorer.reset()
        assert explorer.document.pad is False
        card = explorer.view()["comparison"]["cards"][-1]
        assert (card["layout"], card["load"]["op"]) == ("classes:model", "restore")
        intent = read_intent(card["load"]["op"], card["load"]["args"])
        assert not isinstance(intent, Refused)
        assert explorer.apply(intent)
        assert (str(explorer.layout), explorer.document.pad) == ("classes:model", True)


class TestNames:
    def test_a_made_up_dim_gets_a_name_and_can_be_sharded(self) -> None:
        explorer = explore(keys(), ml.mesh(data=2))
        assert explorer.view()["made_up"] == {"~seq": 8}
        assert explorer.rename_dim("~seq", "kv")
        assert explorer.view()["made_up"] == {}
        assert explorer.place("kv", "data")
        assert explorer.pin("kv", "data")
        assert explorer.rename_dim("kv", "keys")
        assert explorer.layout.to_dict() == {"keys": "data"}
        assert dict(explorer.document.pins) == {"keys": "data"}
        assert dict(explorer.document.renamed) == {"~seq": "keys"}
        again = Explorer.from_json(explorer.to_json(), keys())
        assert again.document == explorer.document
        assert "keys" in again.program.dims
        for _ in range(4):
            assert explorer.undo()
        assert "~seq" in explorer.program.made_up

    def test_rules_at_places_follow(self, program: Program) -> None:
        explorer = explore(program, ml.mesh(data=2), {"hidden?": "data", "params/*": {"hidden": None}})
        assert explorer.rename_dim("hidden", "features")
        assert explorer.layout.to_dict() == {"features?": "data", "params/*": {"features": None}}


class TestPins:
    def test_pins_go_to_the_search(self, explorer: Explorer, monkeypatch: pytest.MonkeyPatch) -> None:
        seen = []

        def best(search, progress):
            seen.append(search.kept)
            return real(search, progress)

        real = searches.best
        monkeypatch.setattr(searches, "best", best)
        assert explorer.pin("batch", "model")
        assert explorer.pin("hidden")
        choice = explorer.auto()
        assert seen == [{"pin": {"batch": "model", "hidden": None}}]
        assert choice.layout.rules["batch"] == ("model",)
        assert "hidden" not in choice.layout.rules
        assert explorer.unpin("batch")
        assert dict(explorer.document.pins) == {"hidden": None}

    def test_a_pin_is_one_step_and_plans_nothing(self, explorer: Explorer) -> None:
        plan = explorer.plan
        assert explorer.pin("batch", "data")
        assert explorer.plan is plan
        assert explorer.view()["pins"] == {"batch": "data"}
        assert explorer.undo()
        assert explorer.view()["pins"] == {}

    def test_a_pin_that_no_longer_holds_is_dropped_and_said(self, explorer: Explorer) -> None:
        assert explorer.pin("batch", "model")
        answer = explorer.split_axis("model", 2, "pod")
        assert isinstance(answer, Accepted)
        assert answer.note == "The pin of `batch` is gone."
        explorer.undo()
        assert dict(explorer.document.pins) == {"batch": "model"}
        assert explorer.rename_axis("model", "tensor")
        assert dict(explorer.document.pins) == {"batch": "tensor"}


class TestSizes:
    def test_a_dim_is_resized_in_one_step_and_back(self, explorer: Explorer) -> None:
        traced = explorer.program
        explorer.place("batch", "data")
        changes: list[str] = []
        explorer.subscribe(changes.append)
        assert explorer.resize_dim("batch", 128) == Accepted(2)
        assert changes == ["tracing", "document", "tracing"]
        assert explorer.program.dims["batch"] == 128
        (chip,) = [chip for chip in explorer.view()["chips"] if chip["name"] == "batch"]
        assert chip == {"name": "batch", "size": 128, "axes": ["data"], "local": 64}
        assert explorer.undo()
        assert explorer.program.dims["batch"] == 8
        assert explorer.redo()
        again = Explorer.from_json(explorer.to_json(), small.program())
        assert (again.program.dims["batch"], again.document) == (128, explorer.document)
        assert explorer.resize_dim("batch", 8)
        assert explorer.to_json() == explorer.history.past[-2].to_json()
        assert explorer.tracer.last is not None
        assert explorer.program is traced

    def test_a_size_that_is_closed_over_is_refused_with_its_line(self, explorer: Explorer) -> None:
        before = explorer.to_json()
        text = refused(explorer.resize_dim("rows", 8))
        line = 'hidden = ml.relu(ml.dot(images, params["w1"], Rows, Cols))'
        number = inspect.getsource(small).splitlines().index(f"    {line}") + 1
        assert f"small.py:{number}, `{line}`" in text
        assert "Read sizes from the arguments in that line" in text
        assert unchanged(explorer, before, 0)
        assert explorer.view()["tracing"]["phase"] == "refused"

    def test_a_size_that_the_layout_does_not_divide_is_refused(self, explorer: Explorer) -> None:
        explorer.place("batch", "data")
        before = explorer.to_json()
        assert "`batch` has size 7, which 2 (`data`) does not divide" in refused(explorer.resize_dim("batch", 7))
        assert unchanged(explorer, before, 1)

    def test_dims_that_follow_are_said(self) -> None:
        explorer = explore(keys(), ml.mesh(data=2))
        explorer.rename_dim("~seq", "kv")
        explorer.place("kv", "data")
        answer = explorer.resize_dim("seq", 16)
        assert isinstance(answer, Accepted)
        assert answer.note == "Resized: `seq=16`, `kv=16`."
        assert "`kv` is not a dim of an argument" in refused(explorer.resize_dim("kv", 8))
        assert str(explorer.layout) == "kv:data"

    def test_training_data_keep_their_sizes(self, explorer: Explorer) -> None:
        explorer.resize_dim("batch", 16)
        with pytest.raises(ExplorerError, match="The data have the sizes of the original trace"):
            explorer.run()


class Held:
    """Tracing that ends when it is let."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch):
        self.reached, self.open, self.resize = threading.Event(), threading.Event(), Program.resize
        held = self

        def resized(program: Program, **sizes: int) -> Program:
            if threading.current_thread().name == "meshlab-trace" and not held.open.is_set():
                held.reached.set()
                assert held.open.wait(60)
            return held.resize(program, **sizes)

        monkeypatch.setattr(Program, "resize", resized)


class TestTracing:
    def test_the_board_goes_on_while_the_program_is_traced(
        self, explorer: Explorer, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        held, ended = Held(monkeypatch), threading.Event()
        answer = explorer.apply(ResizeDim("batch", 16))
        assert isinstance(answer, Accepted)
        assert answer.note == "The program is traced again."
        assert held.reached.wait(60)
        assert explorer.view()["tracing"] == {
            "sizes": "batch=16",
            "model": "",
            "phase": "tracing",
            "text": "",
        }
        assert "is being traced" in refused(explorer.apply(ResizeDim("hidden", 32)))
        assert "has to be traced again" in refused(explorer.what_if(ResizeDim("batch", 32)))
        assert explorer.place("batch", "data")
        explorer.subscribe(lambda what: ended.set() if what == "tracing" else None)
        held.open.set()
        assert ended.wait(60)
        assert (str(explorer.layout), explorer.program.dims["batch"]) == ("batch:data", 16)
        assert explorer.undo()
        assert (str(explorer.layout), explorer.program.dims["batch"]) == ("batch:data", 8)

    def test_undo_cancels_it(self, explorer: Explorer, monkeypatch: pytest.MonkeyPatch) -> None:
        explorer.place("batch", "data")
        held, before = Held(monkeypatch), explorer.to_json()
        explorer.apply(ResizeDim("batch", 16))
        assert held.reached.wait(60)
        assert explorer.undo()
        assert explorer.tracer.last is not None
        assert (explorer.tracer.last.phase, explorer.tracer.last.outcome) == (
            "cancelled",
            Refused("It was cancelled.", code="cancelled"),
        )
        held.open.set()
        for thread in threading.enumerate():
            if thread.name == "meshlab-trace":
                thread.join(60)
        assert unchanged(explorer, before, 1)
