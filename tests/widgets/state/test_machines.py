"""Machines in the Explorer: choosing one, how the mesh lies on it, what is refused, what would fit; documents."""

from __future__ import annotations

import dataclasses
import json
import shutil
from pathlib import Path
from typing import Any

import jax
import pytest

import meshlab as ml
from meshlab.cost.machines import hardware as hardware_module
from meshlab.cost.machines.attached import file_of
from meshlab.opening.open_explorer import explore
from meshlab.widgets.documents.document import ExplorerError, Machine, read_document
from meshlab.widgets.documents.intents import Accepted, Assume, Lay, On, Refused
from meshlab.widgets.documents.machines import fit, machine_on, mesh_on, placements_of
from meshlab.widgets.explorer import Explorer
from meshlab.widgets.state.handlers import read_intent
from meshlab.widgets.views import machine as machine_module
from meshlab.widgets.views.devices import picture
from meshlab.widgets.views.runs import job_view

MACHINES = Path(hardware_module.__file__).parent / "data"


@pytest.fixture
def home(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A configuration folder in which nothing has been measured yet."""
    monkeypatch.setenv("MESHLAB_HOME", str(tmp_path))
    return tmp_path


def own() -> ml.Hardware:
    network = ml.Torus.of(8, 8, link=5e10)
    return ml.Hardware.of("mine", flops={"f32": 1e14}, memory=1e9, bandwidth=1e12, network=network)


def test_a_machine_is_chosen_and_the_layout_stays(explorer: Explorer) -> None:
    explorer.load("batch:data hidden:model")
    with pytest.raises(ml.HardwareError, match="needs a machine, and the mesh data=2 × model=4 is on none"):
        _ = explorer.time
    assert explorer.on("v5e") == Accepted(2)
    assert explorer.document.machine == Machine("v5e:2x4")
    assert str(explorer.mesh.on) == "Google TPU v5e, 2x4"
    assert explorer.layout.to_dict() == {"batch": "data", "hidden": "model"}
    assert explorer.time.estimate == explorer.plan.time.estimate
    assert explorer.on("TPU_v5e:4x2")
    assert explorer.document.machine == Machine("v5e:4x2")
    assert explorer.on(None)
    assert explorer.mesh == ml.mesh(data=2, model=4)
    assert explorer.undo()
    assert explorer.document.machine == Machine("v5e:4x2")


def test_choosing_what_is_chosen_changes_nothing(explorer: Explorer) -> None:
    explorer.on("v5e")
    assert explorer.on("v5e:2x4") == Accepted(1)


def test_a_mesh_brings_its_machine(program) -> None:
    opened = explore(program, ml.lay(ml.mesh("h100", data=2, model=4), model="inside"), "batch:data")
    assert opened.document.machine == Machine("h100:1x8", (("model", "inside"),))
    assert opened.time.estimate == opened.plan.time.estimate
    assert not opened.undo()


@pytest.mark.parametrize(
    ("on", "reason", "fix"),
    [
        ("v5g", "There is no machine `v5g`. Did you mean `v5", ""),
        ("v5e:2x3", "it has 6 devices, and the mesh 8", "Take `v5e:2x4`."),
        ("v5e:2by4", "`2by4` in `v5e:2by4` is an invalid shape", ""),
        ("attached", "have not been measured", ""),
    ],
)
def test_what_does_not_fit_is_refused_with_what_would(
    explorer: Explorer, on: str, reason: str, fix: str, home: Path
) -> None:
    explorer.load("batch:data")
    explorer.on("h100")
    answer = explorer.on(on)
    assert isinstance(answer, Refused)
    assert (answer.code, answer.fix) == ("machine", fix)
    assert reason in answer.reason
    assert (explorer.revision, str(explorer.layout)) == (2, "batch:data")
    assert explorer.document.machine == Machine("h100:1x8")


def test_a_large_mesh_is_told_to_take_several_slices(program) -> None:
    opened = explore(program, ml.mesh(data=256, model=4))
    answer = opened.on("v5e")
    assert isinstance(answer, Refused)
    assert "No slice of Google TPU v5e has 1,024 devices" in answer.reason
    assert answer.fix == "Take `v5e:4*16x16`."
    assert opened.on("v5e:4*16x16")
    assert opened.mesh.on.slices == {"data": 4, "model": 1}


def test_a_mesh_that_no_slice_of_a_machine_takes(program) -> None:
    opened = explore(program, ml.mesh(data=7919))
    assert isinstance(opened.on("v5e"), Refused)
    assert "A mesh must be placed on a machine's name" in str(opened.on(3))  # type: ignore[arg-type]
    assert fit("v5e", (("data", 7919),)) == ()
    offers = {offer["name"]: offer for group in opened.view()["machine"]["groups"] for offer in group["machines"]}
    assert offers["v5e"] == {
        "name": "v5e",
        "title": "Google TPU v5e",
        "on": "v5e",
        "slice": "",
        "fits": False,
    }
    assert offers["l4"]["slice"] == "7919x1"


def test_axes_are_laid_otherwise(explorer: Explorer) -> None:
    explorer.on("v5e:2x4")
    assert explorer.mesh.on.describe("model") == "4 along axis 1, a line"
    answer = explorer.lay(data=1)
    assert isinstance(answer, Accepted)
    assert explorer.document.to_dict()["along"] == {"data": 1}
    assert explorer.mesh.on.describe("data").startswith("2 along axis 1")
    assert explorer.lay(data=None)
    assert explorer.document.to_dict()["along"] == {}
    assert explorer.undo()
    assert explorer.document.to_dict()["along"] == {"data": 1}
    assert explorer.on("v5e:2x4", model=(1,))
    assert explorer.document.to_dict()["along"] == {"model": [1]}


def test_what_cannot_lie_so_is_refused_and_says_what_to_release(explorer: Explorer) -> None:
    nowhere = explorer.lay(model=0)
    assert isinstance(nowhere, Refused)
    assert "The mesh is placed on no machine yet" in nowhere.reason
    explorer.on("v5e:2x4")
    refusals = [explorer.lay(model=0), explorer.lay(modle=0)]
    assert [str(each)[:60] for each in refusals] == [
        "Refused: The mesh axis `model` of 4 does not fit along axis ",
        "Refused: Invalid placement: the mesh has no axis `modle` (Di",
    ]
    assert explorer.lay(data=1)
    taken = explorer.lay(model=1)
    assert isinstance(taken, Refused)
    assert taken.fix == "Release the other axes: `explorer.lay(data=None, model=1)`."
    assert explorer.lay(data=None, model=1)


def test_the_choices_of_an_axis_can_be_had(program) -> None:
    for machine, axes in (("v5p:4x4x4", {"data": 16, "model": 4}), ("h100:4x8", {"data": 8, "model": 4})):
        mesh = ml.mesh(machine, **axes)
        choices = placements_of(mesh)
        assert choices["model"]
        for name, others in choices.items():
            for where, changes in others:
                lying = ml.lay(mesh, **{axis: each for axis, each in changes.items() if each is not None})  # type: ignore[arg-type]
                assert changes[name] == where
                assert lying.on.requested[name] == where


def test_what_is_assumed(explorer: Explorer) -> None:
    explorer.on("v5e")
    assert explorer.assume(attention="flash")
    assert explorer.assume(prefetch=True)
    assert (explorer.document.options.attention, explorer.document.options.prefetch) == ("flash", True)
    answer = explorer.assume(attention="flush")
    assert isinstance(answer, Refused)
    assert "There is no attention 'flush'. Did you mean `flash`" in answer.reason
    assert explorer.undo()
    assert explorer.document.options.prefetch is False


def test_a_machine_of_ones_own(explorer: Explorer, program) -> None:
    mine = own()
    assert explorer.on(mine)
    assert explorer.document.machine == Machine("mine:2x4")
    groups = {
        group["label"]: [offer["name"] for offer in group["machines"]] for group in explorer.view()["machine"]["groups"]
    }
    assert groups["your own"] == ["mine"]
    before = explorer.time.estimate
    assert explorer.on("h100")
    slower = dataclasses.replace(mine, bandwidth=ml.Figure(1e11))
    assert explorer.on(slower)
    assert explorer.time.estimate > before
    again = Explorer.from_json(explorer.to_json(), program, machines=[slower])
    assert again.time.estimate == explorer.time.estimate
    with pytest.raises(ml.HardwareError, match="There is no machine `mine`"):
        Explorer.from_json(explorer.to_json(), program)
    opened = explore(program, ml.mesh(mine, data=2, model=4))
    assert opened.document.machine == Machine("mine:2x4")


def test_the_attached_devices_once_they_are_measured(program, home: Path) -> None:
    opened = explore(program, ml.mesh(data=2, model=4))
    labels = [group["label"] for group in opened.view()["machine"]["groups"]]
    assert labels == ["TPU", "GPU", "CPU"]
    shutil.copy(MACHINES / "cpu.toml", file_of(jax.devices()[0].device_kind))
    assert [group["label"] for group in opened.view()["machine"]["groups"]] == [*labels, "measured here"]
    assert opened.on("attached")
    assert opened.document.machine == Machine("attached:1x8")
    assert opened.time.estimate > 0
    measured = explore(program, ml.mesh("attached", data=2, model=4))
    assert measured.document.machine == Machine("attached:1x8")


def test_the_slices_that_a_mesh_fits() -> None:
    assert fit("v5e", (("data", 4), ("model", 4))) == ("4x4", "2*2x4", "4*2x2")
    assert fit("v5p", (("data", 4),)) == ("2x2x1",)
    assert fit("h100", (("data", 4), ("model", 4))) == ("2x8", "4x4", "8x2", "16x1")
    for name in hardware_module.known():
        for axes in ((("data", 8), ("model", 4)), (("data", 64), ("model", 16)), ()):
            for shape in fit(name, axes):
                mesh = mesh_on(Machine(f"{name}:{shape}"), axes)
                assert machine_on(mesh) == (Machine(f"{name}:{shape}"), {})


# What the vendor lists, in chips, up to 64 of them.
LISTED = {
    "v5e": {"1x1", "2x2", "2x4", "4x4", "4x8", "8x8"},
    "v6e": {"1x1", "2x2", "2x4", "4x4", "4x8", "8x8"},
    "v2": {"2x2", "4x4", "8x8"},
    "v3": {"2x2", "4x4", "8x8"},
    "v4": {"2x2x1", "2x2x2", "2x2x4", "2x4x4", "4x4x4"},
    "v5p": {"2x2x1", "2x2x2", "2x2x4", "2x4x4", "4x4x4"},
    "v7x": {"2x2x1", "2x2x2", "2x2x4", "2x4x4", "4x4x4"},
}


@pytest.mark.parametrize("name", LISTED)
def test_only_slices_that_can_be_had_are_offered(name: str) -> None:
    sizes = range(1, 64 * hardware_module.hardware(name).devices_per_chip + 1)
    offered = {shape for size in sizes for shape in fit(name, (("data", size),))}
    assert {shape for shape in offered if "*" not in shape} == LISTED[name]
    assert {shape.split("*")[1] for shape in offered if "*" in shape} <= LISTED[name]


def test_a_slice_that_cannot_be_had_is_planned_for_and_shown(program) -> None:
    """Whoever has one can say so; the board shows it, and offers others for the sizes that there are."""
    opened = explore(program, ml.mesh("v5e:1x4", model=4))
    assert [each["slice"] for each in opened.view()["machine"]["slices"]] == ["2x2", "1x4"]
    assert fit("v5e", (("data", 3),)) == ()


def test_documents_with_a_machine(explorer: Explorer, program) -> None:
    explorer.on("v5e:2x4", data=1)
    explorer.assume(attention="causal", prefetch=True)
    data = json.loads(explorer.to_json())
    assert (data["schema"], data["machine"], data["along"]) == (3, "v5e:2x4", {"data": 1})
    assert data["options"] == {"attention": "causal", "prefetch": True}
    again = Explorer.from_json(explorer.to_json(), program)
    assert again.document == explorer.document
    assert again.time.estimate == explorer.time.estimate
    explorer.on("v5e:2x4", model=(1, 0))
    assert read_document(explorer.to_json()).machine == explorer.document.machine


def test_documents_of_schema_1_know_no_machine(explorer: Explorer, program) -> None:
    explorer.load("batch:data")
    data = json.loads(explorer.to_json())
    old = {name: data[name] for name in ("dims", "layout", "mesh")} | {"schema": 1}
    again = Explorer.from_json(json.dumps(old), program)
    assert again.document == explorer.document
    assert again.document.machine is None


@pytest.mark.parametrize(
    "changes",
    [
        {"machine": "v5e:2x4", "along": {"model": "up"}},
        {"machine": {"on": "v5e:2x4"}},
        {"options": [1]},
        {"options": {"attention": "none"}},
    ],
)
def test_machines_that_cannot_be_read(explorer: Explorer, changes: dict) -> None:
    data = json.loads(explorer.to_json()) | changes
    with pytest.raises(ExplorerError, match=f"`{[*changes][-1]}` is .*; it must be "):
        read_document(json.dumps(data))


def test_a_figure_that_a_machine_lacks_is_told(explorer: Explorer) -> None:
    bytewise = dataclasses.replace(own(), name="bytewise", title="bytewise", flops={"int8": ml.Figure(1e14)})
    assert explorer.on(bytewise)
    with pytest.raises(ml.HardwareError, match="bytewise has no figure for matmuls in float32; it has `int8`"):
        _ = explorer.time


def test_intents_of_a_page() -> None:
    assert read_intent("on", {"machine": "v5e", "along": {"model": 0}}) == On("v5e", {"model": 0})
    assert read_intent("on", {"machine": ""}) == On("")
    assert read_intent("lay", {"along": {"model": [0, 1], "data": None}}) == Lay({"model": (0, 1), "data": None})
    assert read_intent("assume", {"prefetch": True}) == Assume(None, True)
    assert isinstance(read_intent("lay", {"along": {"model": "up"}}), Refused)
    assert isinstance(read_intent("lay", {"along": 3}), Refused)
    assert isinstance(read_intent("on", {}), Refused)


def test_a_run_is_not_stale_on_another_machine(explorer: Explorer) -> None:
    explorer.run(1).wait(60)
    explorer.on("v5e")
    before: Any = job_view(explorer)["current"]
    assert before["stale"] is False
    explorer.place("hidden", "model")
    after: Any = job_view(explorer)["current"]
    assert after["stale"] is True


def test_what_follows_from_the_mesh_alone_is_computed_once(explorer: Explorer, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each drop placed every choice of every mesh axis anew, and drew the picture of all devices."""
    explorer.on("v5e:2x4")
    before = explorer.view()
    with monkeypatch.context() as patch:
        for module, name in ((machine_module, "placements_of"), (picture, "sites_of")):
            patch.setattr(module, name, lambda *args: pytest.fail("computed again"))
        assert explorer.place("hidden", "model")
        after = explorer.view()
    assert after["layout"] != before["layout"]
    assert [after["machine"]["axes"], after["picture"]] == [before["machine"]["axes"], before["picture"]]
    assert explorer.on("v5e:4x2")
    assert explorer.view()["picture"] != before["picture"]
    assert explorer.lay(model=0)
    placed = {axis["name"]: axis["placement"] for axis in explorer.view()["machine"]["axes"]}
    assert placed == {name: explorer.mesh.on.describe(name) for name in explorer.mesh.axes}
