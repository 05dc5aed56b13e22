"""Kinds of mesh axes are a table: what reads it knows a kind that is added, and the engine names none."""

from __future__ import annotations

import dataclasses
import json
import re
from typing import Any

import pytest

import meshlab as ml
from meshlab.commands.words import mesh_of
from meshlab.engine.axes.axis import Axis, InTime
from meshlab.engine.axes.axis_kinds import KINDS
from meshlab.engine.specs.mesh import Mesh
from meshlab.widgets.explorer import Explorer
from meshlab.widgets.views.plan import mesh_view
from tests.test_layers import sources
from tests.widgets import small


@dataclasses.dataclass(frozen=True)
class Pods(Axis):
    """Devices that stand apart from each other."""

    maker, noun = "pods", "an axis of pods"
    meaning = "An axis of pods: between them the network is slow."


@dataclasses.dataclass(frozen=True)
class Rounds(InTime):
    """Each device runs one round after the other."""

    maker, noun = "rounds", "an axis of rounds"


@pytest.fixture
def mesh(monkeypatch: pytest.MonkeyPatch) -> Mesh:
    for kind in (Pods, Rounds):
        monkeypatch.setitem(KINDS, kind.maker, kind)
    return ml.mesh("v5e:2x2", pod=Pods(2), data=2, round=Rounds(2, gather="each"))


def test_a_kind_that_is_added_is_sharded_over_run_priced_saved_and_drawn(mesh: Mesh) -> None:
    assert (mesh.size, dict(mesh.axes), [*mesh.in_time]) == (4, {"pod": 2, "data": 2, "round": 2}, ["round"])
    assert ml.mesh("v5e:2x2", **json.loads(json.dumps(mesh.to_dict()))) == mesh
    assert mesh_of("pod=pods(2),data=2,round=rounds(2,gather=each)", "v5e:2x2") == mesh
    explorer = ml.explore(small.program(), mesh, "batch:pod+data+round")
    plan = explorer.plan
    assert plan.check().ok
    assert {axes for each in plan.collectives for axes in each.axes} == {"pod", "data"}
    assert plan.time.estimate > 0
    assert plan.memory.peak_bytes > 0
    assert Explorer.from_json(explorer.to_json(), small.program()).mesh == mesh
    view: Any = mesh_view(mesh)
    pod, data, rounds = view["axes"]
    assert (pod["meaning"], pod["inTime"], rounds["inTime"]) == (Pods.meaning, False, True)
    assert (data["meaning"], data["size"]) == ("", 2)


def test_what_is_refused_names_the_kind(mesh: Mesh) -> None:
    with pytest.raises(ml.LayoutError, match=r"`batch:round\+data` has an axis of rounds in front"):
        small.program().plan(mesh, "batch:round+data")
    with pytest.raises(ml.MeshError, match=r'given the size \{.*an axis of pods has \{"pods": 8\}; an axis of rounds'):
        ml.mesh(pod={"pods": 0})
    with pytest.raises(ml.MeshError, match=r"ml\.pods\(\) was given the size 0.*Write ml\.pods\(8\)"):
        Pods(0)


def test_few_modules_name_a_kind() -> None:
    """Where it is made, and where it is proposed."""
    rooms = ("meshlab.engine.", "meshlab.cost.", "meshlab.auto.")
    named = [
        module
        for module, text in sources().items()
        if module.startswith(rooms) and re.search(r"serial(?!i[sz])", text, re.IGNORECASE)
    ]
    assert 2 < len(named) <= 13, named
