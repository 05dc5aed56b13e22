"""A search can be stopped wherever it is: before it begins, between two plans, and while the solver solves."""

from __future__ import annotations

import itertools
import threading

import pulp
import pytest

import meshlab as ml
from meshlab.auto.request.stopping import Watch
from tests.auto.best_first.programs import grown
from tests.auto.programs import traced

pytestmark = pytest.mark.share(4, of="file")

MESH = ml.mesh(data=2, model=2)


class After:
    """Asks to stop when it is looked at for the nth time."""

    def __init__(self, looks: int):
        self.looks, self.seen = looks, 0

    def is_set(self) -> bool:
        self.seen += 1
        return self.seen > self.looks


@pytest.mark.parametrize("objective", ["traffic", "live"])
def test_it_stops_between_any_two_plans_and_programs(objective, monkeypatch):
    # While the solver works it is looked at as often as that takes; here only before and after.
    monkeypatch.setattr("meshlab.auto.request.stopping._LOOK", 600)
    program, never = traced("block"), After(10**9)
    choice = ml.auto.layout(program, MESH, objective=objective, cancel=never)
    assert choice.layout == ml.auto.layout(program, MESH, objective=objective).layout
    assert never.seen > 1  # before the solver's work, and after it
    for looks in itertools.chain(range(0, never.seen, max(1, never.seen // 6)), [never.seen - 1]):
        with pytest.raises(ml.auto.Cancelled, match="layout.. was cancelled before it had found the best layout"):
            ml.auto.layout(program, MESH, objective=objective, cancel=After(looks))


def test_it_does_not_wait_for_the_solver(monkeypatch):
    solving, gate, left, cancel = threading.Event(), threading.Event(), [], threading.Event()
    solve = pulp.LpProblem.solve

    def gated(problem, solver):
        solving.set()
        left.append(threading.current_thread())
        assert gate.wait(60)
        return solve(problem, solver)

    monkeypatch.setattr(pulp.LpProblem, "solve", gated)
    threading.Thread(target=lambda: (solving.wait(60), cancel.set()), daemon=True).start()
    with pytest.raises(ml.auto.Cancelled):
        ml.auto.layout(traced("block"), MESH, objective="live", cancel=cancel)
    assert [thread.is_alive() for thread in left] == [True]  # it is held still
    gate.set()
    for thread in left:  # what the solver says later disturbs nobody
        thread.join(60)
        assert not thread.is_alive()


def test_what_goes_wrong_beside_is_raised_here():
    def work():
        raise ZeroDivisionError("seven")

    for watch in (Watch(), Watch(threading.Event())):
        with pytest.raises(ZeroDivisionError, match="seven"):
            watch.through(work)


@pytest.mark.parametrize("objective", ["time", "memory", "traffic"])
def test_what_is_enough_ends_with_the_best_so_far(objective: str) -> None:
    program, mesh = grown("mlp_adamw"), ml.mesh("v5p:2x2x2", a=4, b=2)
    stop, told = threading.Event(), []

    def enough(found: ml.auto.Found) -> None:
        told.append(found)
        if found.plan is not None:
            stop.set()

    choice = ml.auto.layout(program, mesh, objective=objective, memory=None, progress=enough, stop=stop)
    whole = ml.auto.layout(program, mesh, objective=objective, memory=None)
    first = next(found for found in told if found.plan is not None)
    assert choice.proof.value <= first.value
    assert choice.proof.plans < whole.proof.plans / 2
    assert choice.proof.bound <= whole.proof.value
    assert choice.proof.gap == max(0.0, 1 - choice.proof.bound / choice.proof.value)
    if objective == "time":  # what is asked of the choice afterwards is searched for to its end
        assert choice.exact_pareto(2)[0].seconds == pytest.approx(whole.proof.value, rel=0.01)


def test_what_is_no_event_is_refused() -> None:
    with pytest.raises(ml.MeshlabError, match=r"was given stop=3; give a threading.Event"):
        ml.auto.layout(traced("block"), MESH, stop=3)  # pyright: ignore[reportArgumentType]
