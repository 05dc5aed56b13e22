"""What a step costs over the sizes of a dim and of a mesh axis."""

from __future__ import annotations

import threading
from collections.abc import Callable

import pytest

import meshlab as ml
from meshlab.opening.open_explorer import explore
from meshlab.widgets.background.curves import AXIS, DIM, Curve, sizes_around
from meshlab.widgets.documents.intents import Sweep
from meshlab.widgets.explorer import Explorer
from meshlab.widgets.state.totals import totals_of
from tests.widgets import small


@pytest.fixture
def explorer() -> Explorer:
    return explore(small.program(), ml.mesh("v5e", data=2, model=2), "batch:data hidden:model")


def test_a_point_of_a_mesh_axis_is_what_the_board_says_once_it_is_taken(explorer: Explorer) -> None:
    curve = explorer.curve("data")
    assert (curve.kind, curve.phase, curve.present, curve.error) == (AXIS, "done", 2, "")
    assert [point.size for point in curve.points] == list(curve.sizes) == [1, 2, 4, 8, 16]
    for point in curve.points:
        taken = explorer.resize_axis("data", point.size)
        assert bool(taken) is not bool(point.refused)
        if taken:
            totals = explorer.totals.of(explorer.document)
            assert (point.seconds, point.peak_bytes) == (totals.seconds, totals.peak_bytes)
            assert (point.wire_bytes, point.argument_bytes) == (totals.wire_bytes, totals.argument_bytes)
    # "Sizes that fit: 16" would read as sizes of `data`.
    assert curve.points[-1].refused == "`batch` has size 8, which 16 (`data`) does not divide."


def test_a_point_of_a_dim_is_of_the_plan_at_that_size(explorer: Explorer) -> None:
    curve = explorer.curve("batch")
    assert (curve.kind, curve.phase, curve.error) == (DIM, "done", "")
    by_size = {point.size: point for point in curve.points}
    assert "`batch` of 1 is not divided by 2 (data)" in by_size[1].refused
    present = explorer.totals.of(explorer.document)
    assert by_size[8].seconds == pytest.approx(present.seconds, rel=1e-9)
    assert by_size[8].peak_bytes == present.peak_bytes
    explorer.resize_dim("batch", 64)
    then = totals_of(explorer.plan, explorer.costs.of(explorer.document))
    assert by_size[64].seconds == pytest.approx(then.seconds, rel=1e-9)
    assert (by_size[64].wire_bytes, by_size[64].argument_bytes) == (then.wire_bytes, then.argument_bytes)


def test_without_a_machine_there_are_bytes() -> None:
    explorer = explore(small.program(), small.mesh(), "batch:data")
    for name in ("batch", "model"):
        points = [point for point in explorer.curve(name).points if not point.refused]
        assert len(points) > 2
        assert all(point.seconds is point.peak_bytes is None for point in points)
        assert all(point.argument_bytes for point in points)


def test_it_stands_while_its_document_is_on_the_board_and_is_kept(explorer: Explorer) -> None:
    curve = explorer.curve("batch")
    assert explorer.curves.last is curve
    assert explorer.remove("hidden")
    assert explorer.curves.last is None
    assert explorer.view()["curve"] is None
    explorer.undo()
    assert explorer.curve("batch") is curve
    view = explorer.view()["curve"]
    assert (view["present"], view["limit"]) == (8, explorer.mesh.on.hardware.memory_bytes)
    assert len(view["points"]) == len(view["sizes"])


def test_points_come_one_after_the_other_and_can_be_stopped(explorer: Explorer) -> None:
    told: list[int] = []
    ended = threading.Event()

    def listen(what: str) -> None:
        curve = explorer.curves.last
        if what == "curve" and curve is not None:
            told.append(len(curve.points))
            if curve.phase == "cancelled":
                ended.set()
            elif len(curve.points) == 2:
                assert explorer.cancel_curve()

    explorer.subscribe(listen)
    explorer.curves.begin(AXIS, "data")
    assert ended.wait(60)
    curve = explorer.curves.last
    assert curve is not None
    # What is nearest to the present size comes first.
    assert [point.size for point in curve.points] in ([1, 2], [2, 4])
    assert told[:2] == [0, 1]
    assert not explorer.cancel_curve()


def test_a_curve_that_is_cancelled_or_left_is_returned_as_it_ended(explorer: Explorer) -> None:
    def on_two(then: Callable[[], object]) -> Curve:
        """Works the curve of `data` out, and does something else when two of its points are there."""
        done: list[object] = []

        def listen(what: str) -> None:
            curve = explorer.curves.last
            if what == "curve" and not done and curve is not None and curve.name == "data" and len(curve.points) == 2:
                done.append(then())

        end = explorer.subscribe(listen)
        curve = explorer.curve("data")
        end()
        assert done
        return curve

    cancelled = on_two(explorer.cancel_curve)
    assert (cancelled.phase, len(cancelled.points)) == ("cancelled", 2)
    assert explorer.curves.last is cancelled
    superseded = on_two(lambda: explorer.curves.begin(AXIS, "model"))
    assert (superseded.name, superseded.phase, len(superseded.points)) == ("data", "cancelled", 2)
    left = on_two(lambda: explorer.remove("hidden"))
    assert (left.phase, len(left.points)) == ("cancelled", 2)
    explorer.undo()
    assert explorer.curves.last is left
    assert explorer.curve("data").phase == "done"


def test_a_curve_that_cannot_be_worked_out_says_so_each_time() -> None:
    def renaming(x: ml.Tensor) -> ml.Tensor:
        return x.rename(seq="kv").sum()

    explorer = explore(ml.trace(renaming, ml.f32[ml.dims(seq=8)]), ml.mesh(data=2), "seq:data")
    for _ in range(2):
        with pytest.raises(ml.MeshlabError, match="`kv` is not a dim of an argument"):
            explorer.curve("kv")
    shown = explorer.view()["curve"]
    assert (shown["phase"], shown["points"]) == ("done", [])
    assert "`kv` is not a dim of an argument" in shown["error"]


@pytest.mark.parametrize(("name", "reason"), [("bach", "no dim `bach`. Did you mean `batch`"), ("3", "no dim `3`")])
def test_what_there_is_not_is_refused(explorer: Explorer, name: str, reason: str) -> None:
    with pytest.raises(ml.MeshlabError, match=reason):
        explorer.curve(name)
    assert "no mesh axis `batch`" in str(explorer.apply(Sweep("axis", "batch")))


def test_sizes_are_powers_of_two_divisors_and_itself() -> None:
    assert sizes_around(8, 8) == (1, 2, 4, 8, 16, 32, 64)
    assert sizes_around(6, 2, 12) == (1, 2, 3, 4, 6, 8, 12)
    assert {25, 50, 100, 200, 400, 256} <= set(sizes_around(200, 32))
    assert sizes_around(1, 8) == (1, 2, 4, 8)
    assert all(len(sizes_around(n, most)) <= 40 for n in (1, 7, 96, 131_072, 720_720) for most in (8, 32))
