"""Mesh axes that must stay silent: the answer is the best of all layouts that send nothing over them."""

from __future__ import annotations

import functools
from typing import Any

import pytest

import meshlab as ml
from benchmarks import optima
from meshlab.api.silent import sent_over
from meshlab.auto.best_first.pricer import LayoutPrice
from meshlab.auto.brute_force import priced_layouts
from meshlab.auto.objective import OBJECTIVES
from tests.auto.best_first.programs import grown

pytestmark = pytest.mark.share(4, of="file")

MESHES = {"v5p": ml.mesh("v5p:2x2x2", a=4, b=2), "h100": ml.mesh("h100:8", a=2, b=4)}
WORK = 1.01  # of the least: what a search for traffic lets a device do


@functools.cache
def forward() -> ml.Program:
    """Two layers that are applied, not trained: what splits the batch sends nothing."""
    rows, wide, out = ml.dims(rows=1024, wide=2048, out=512)

    def apply(params: dict[str, Any], x: Any) -> Any:
        return ml.dot(ml.relu(ml.dot(x, params["up"], out)), params["down"], wide)

    return ml.trace(apply, {"up": ml.f32[out, wide], "down": ml.f32[wide, out]}, ml.f32[rows, out])


@functools.cache
def priced(name: str, on: str) -> list[LayoutPrice]:
    """Every layout of the space, whatever it sends."""
    return list(priced_layouts(program(name), MESHES[on]))


def program(name: str) -> ml.Program:
    return forward() if name == "forward" else grown(name)


@pytest.mark.parametrize(
    ("name", "on", "silent"),
    [(name, on, axis) for name in ("mlp_sgd", "autoencoder", "forward") for on in MESHES for axis in "ab"]
    + [("mlp_adamw", "v5p", "b"), ("two_layer", "h100", "ab"), ("forward", "v5p", "ab")],
)
def test_the_answer_is_the_best_of_all_layouts_that_are_silent(name: str, on: str, silent: str) -> None:
    quiet = [price for price in priced(name, on) if not sent_over(price.plan, silent)]
    for objective in ("time", "memory", "traffic"):
        choice = ml.auto.layout(
            program(name), MESHES[on], objective=objective, memory=None, silent=[*silent], exact=True
        )
        choice.plan.assert_silent(*silent)
        cost = OBJECTIVES[objective].of_plan
        least_work = min(price.plan.work.amount for price in quiet)
        able = [p.plan for p in quiet if objective != "traffic" or p.plan.work.amount <= least_work * WORK]
        least = min(cost(plan, choice.asked.options) for plan in able)
        if not choice.proof.made:  # by single changes that lead out of the space it may be better
            assert choice.proof.value == pytest.approx(least, rel=1e-9)
        assert optima.of_space(choice) == pytest.approx(least, rel=1e-9) or objective == "traffic"
        assert choice.proof.value <= least * (1 + 1e-9)
        assert choice.proof.gap == 0
        assert all(not sent_over(price.plan, silent) for price in choice.answer.search.met.values())


def test_what_is_applied_splits_its_rows_over_an_axis_that_is_silent() -> None:
    choice = ml.auto.layout(forward(), MESHES["v5p"], silent="a")
    assert "a" in choice.layout.rules["rows"]
    assert choice.plan.wire_bytes == 0 or "b" in {axis for c in choice.plan.collectives for axis in c.axes}


def test_what_is_pinned_and_forbidden_holds_beside_it() -> None:
    mesh, given = MESHES["v5p"], {"pin": "batch:b", "forbid": {"ffn": "b"}, "silent": ["a"]}
    choice = ml.auto.layout(grown("mlp_adamw"), mesh, memory=None, exact=True, **given)
    others = [
        p for p in priced_layouts(grown("mlp_adamw"), mesh, "batch:b", {"ffn": "b"}) if not sent_over(p.plan, ["a"])
    ]
    assert choice.layout.rules["batch"] == ("b",)
    assert choice.proof.value == pytest.approx(min(price.seconds for price in others), rel=1e-9)


def test_all_that_is_told_of_it_is_silent_too() -> None:
    choice = ml.auto.layout(grown("mlp_adamw"), MESHES["v5p"], memory=None, silent="b")
    told = [*choice.alternatives, *choice.pareto, *choice.exact_pareto(3)]
    told += [each for each in (*choice.regrets, *choice.exact_regrets()) if each.layout is not None]
    for each in told:
        grown("mlp_adamw").plan(MESHES["v5p"], each.layout).assert_silent("b")


@pytest.mark.parametrize(
    ("silent", "problem"),
    [
        ("model", "silent: The mesh a=4 × b=2 .* has no axis of devices `model`. It has `a`, `b`"),
        (["a", 3], "has no axis of devices `3`"),
        (7, "silent=7: give mesh axes, as in .*model"),
    ],
)
def test_axes_that_there_are_not_are_refused(silent: object, problem: str) -> None:
    with pytest.raises(ml.LayoutError, match=problem):
        ml.auto.layout(forward(), MESHES["v5p"], silent=silent)  # pyright: ignore[reportArgumentType]


def test_live_bytes_know_no_silence() -> None:
    with pytest.raises(
        ml.LayoutError, match='a search for "live" counts bytes in memory, not sent bytes: leave `a` out'
    ):
        ml.auto.layout(forward(), ml.mesh(a=2), objective="live", silent="a")
    with pytest.raises(ml.LayoutError, match="no axis of devices `micro`"):
        ml.auto.layout(forward(), ml.mesh(a=2, micro=ml.serial(2)), silent="micro")
