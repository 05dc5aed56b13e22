"""Mesh and layout together: every arrangement once, and the best of what `ml.auto.layout` finds on each."""

from __future__ import annotations

import math

import pytest

import meshlab as ml
from meshlab.auto.arrangements import meshes
from tests.auto.best_first.programs import grown
from tests.auto.best_first.test_pipelines import grown as stack

pytestmark = pytest.mark.share(2, of="file")


def test_every_arrangement_is_there_once() -> None:
    found = meshes("v5e:4x4", None)
    assert {tuple(sorted(mesh.axes.values())) for mesh in found} == {(16,), (2, 8), (4, 4), (2, 2, 4), (2, 2, 2, 2)}
    assert all(math.prod(mesh.axes.values()) == 16 for mesh in found)
    lying = [tuple(sorted((n, mesh.on.describe(axis)) for axis, n in mesh.axes.items())) for mesh in found]
    assert len(set(lying)) == len(lying)
    assert [len(mesh.axes) for mesh in found] == sorted(len(mesh.axes) for mesh in found)
    # In a node or across: two meshes of the same sizes.
    assert len([mesh for mesh in meshes("h100:2x8", 16) if sorted(mesh.axes.values()) == [2, 8]]) == 2


@pytest.mark.nightly
def test_the_best_of_all_meshes() -> None:
    program = grown("mlp_adamw")
    found = ml.auto.mesh(program, on="v5p:2x2x2", exact=True)
    each = [ml.auto.layout(program, mesh, exact=True).proof.value for mesh in meshes("v5p:2x2x2", None)]
    assert found.proof.value == pytest.approx(min(each), rel=1e-12)
    assert found.proof.gap == 0
    assert found.plan.time.estimate == found.proof.value
    assert (found.mesh, found.layout) == (found.plan.mesh, found.plan.layout)
    assert len(found.tried) == len(each)
    lines = str(found).splitlines()
    assert len(lines) == len(each) + 1
    assert lines[0].startswith(str(found.mesh).split(" on ")[0])
    assert "<table>" in found._repr_html_()


def test_little_time_leaves_a_gap_and_a_good_answer() -> None:
    heard = []
    found = ml.auto.mesh(grown("mlp_adamw"), 8, on="v5p", seconds=1e-6, progress=heard.append)
    assert 0 < found.proof.bound <= found.proof.value
    assert len(heard) >= len(found.tried)


def test_meshes_with_micro_batches_and_stages() -> None:
    """Each axis is stages once, in each schedule; what is best under a cap is best of all that was tried."""
    program = stack()
    found = ml.auto.mesh(program, on="h100:4", micro=(4, 8), schedules=("paired", "gpipe"), memory=0.02)
    axes = [each.mesh.axes for each in found.tried]
    assert len(axes) == 2 + 2 * 2 + 2 * 2 * 2  # 4 and 2 × 2; with micro-batches; and one axis of each as stages
    assert [dict(each.mesh.stages)["pipe"].schedule for each in found.tried if each.mesh.stages].count("gpipe") == 4
    for each in found.tried:
        if each.layout is not None:
            plan = program.plan(each.mesh, each.layout)
            assert plan.time.estimate == pytest.approx(each.seconds, rel=1e-12)
            assert plan.memory.donated.peak_bytes <= 0.02 * found.mesh.on.hardware.memory_bytes
    assert found.proof.value == min(each.seconds for each in found.tried)
    assert any("pipe" in str(each.layout) for each in found.tried)
    alone = ml.auto.mesh(program, on="h100:4", micro=4, schedules=(), memory=None)
    assert not any(each.mesh.stages for each in alone.tried)


def test_axes_that_cannot_be_stages_are_none() -> None:
    """Eight layers are divided by 2 stages, not by 3 or 6; one device is none; and a number twice counts once."""
    found = ml.auto.mesh(stack(), 6, on="h100", micro=(4, 4), memory=None, seconds=1e-6)
    sizes = [(each.mesh.axes, dict(each.mesh.stages)) for each in found.tried]
    assert sorted(axes["pipe"] for axes, stages in sizes if stages) == [2]
    assert len(sizes) == 2 + 2 + 1  # 6 and 2 × 3, with micro-batches, and stages
    assert not [each for each in ml.auto.mesh(stack(), on="h100:1", micro=4, memory=None).tried if each.mesh.stages]


def test_layers_that_no_stages_divide() -> None:
    with pytest.raises(ml.LayoutError, match="No scan steps through a named dim of its weights"):
        ml.auto.mesh(grown("mlp_sgd"), on="h100:4", micro=8)
    assert ml.auto.mesh(grown("mlp_sgd"), on="h100:2", micro=8, schedules=(), memory=None).proof.gap <= 0.01
    for wrong in (1, (4, 1), "8", 2.0):
        with pytest.raises(ml.MeshlabError, match="give numbers of micro-batches, integers of at least 2"):
            ml.auto.mesh(grown("mlp_sgd"), on="h100:4", micro=wrong)  # pyright: ignore[reportArgumentType]
    with pytest.raises(ml.MeshlabError, match="schedules='zb'; give some of `paired`, `gpipe`, .*, or none"):
        ml.auto.mesh(grown("mlp_sgd"), on="h100:4", micro=8, schedules="zb")


def test_what_is_no_mesh() -> None:
    program = grown("mlp_sgd")
    with pytest.raises(ml.MeshlabError, match=r'given devices=None on "?.v5e.*give their number, as in'):
        ml.auto.mesh(program, on="v5e")
    with pytest.raises(ml.MeshlabError, match="given devices=0 on"):
        ml.auto.mesh(program, 0, on="v5e")
    with pytest.raises(ml.MeshlabError, match=r"ml.auto.mesh\(\) was given 7 for its program; write"):
        ml.auto.mesh(7, 8, on="v5e")  # pyright: ignore[reportArgumentType]
    with pytest.raises(ml.HardwareError, match="must be placed on a machine's name, .* not None"):
        ml.auto.mesh(program)
    with pytest.raises(ml.MeshlabError, match=r"^ml.auto.mesh\(\) cannot search: seconds=0: give a number"):
        ml.auto.mesh(program, on="v5e:2x1", seconds=0)
    with pytest.raises(ml.HardwareError, match=r"ml.auto.mesh\(\) was given options=3; they are a dict"):
        ml.auto.mesh(program, on="v5e:2x1", options=3)  # pyright: ignore[reportArgumentType]
    with pytest.raises(ml.auto.NothingFits, match="found no layout that fits 95.0 kB"):
        ml.auto.mesh(program, 2, on="v5p", memory=95e3 / ml.hardware("v5p").memory_bytes)
