"""Every run has the losses of the unsplit one; a plan that lacks an all-reduce is found, and so is where it begins."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import pytest

import meshlab as ml
from meshlab.cost.machines.units import seconds_text
from meshlab.engine.planning.steps import Move
from meshlab.engine.verifying.results import TOLERANCE
from meshlab.widgets.documents.document import Document
from meshlab.widgets.explorer import Explorer
from meshlab.widgets.state.runs import Run
from meshlab.widgets.views.charts.sameness import reference_of, same
from meshlab.widgets.views.runs import SIMULATED, job_view
from tests.widgets import small


def without_all_reduce(plan: Any, number: int) -> Any:
    """The plan with one of its all-reduces over no mesh axis at all: a device goes on with its part."""
    reduces = [step for step in plan.planned.steps if isinstance(step, Move) and step.via.kind.name == "all-reduce"]
    broken = dataclasses.replace(reduces[number], via=reduces[number].via._replace(axes=()))
    steps = tuple(broken if step is reduces[number] else step for step in plan.planned.steps)
    return dataclasses.replace(plan, planned=dataclasses.replace(plan.planned, steps=steps))


def run_with(losses: list[float], layout: Any = None, number: int = 1) -> Run:
    run = Run(number, 0, Document((), (), ml.Layout.of(layout)), len(losses))
    run.losses = losses
    return run


@pytest.mark.parametrize("layout", ["batch:data", "hidden:model", "batch:data hidden:model"])
def test_a_layout_has_the_losses_of_the_unsplit_run(explorer: Explorer, layout: str) -> None:
    explorer.run().wait(60)
    explorer.load(layout)
    explorer.run().wait(60)
    first, second = reversed(job_view(explorer)["runs"])
    assert (first["reference"], first["same"], first["sameness"]) == (True, None, "")
    assert (second["reference"], second["same"]) == (False, True)
    assert "run 1" in second["sameness"]
    assert second["sameness"].startswith(("✓ same losses as run 1, to 1e-", "✓ exactly the losses of run 1"))
    assert second["tolerance"] == TOLERANCE[4]


@pytest.mark.parametrize("number", range(4))
def test_a_plan_that_lacks_an_all_reduce_is_flagged(explorer: Explorer, number: int) -> None:
    explorer.run().wait(60)
    explorer.load("batch:data hidden:model")
    broken = without_all_reduce(explorer.plan, number)
    explorer.documents.plans.put(explorer.document, broken)
    assert explorer.plan is broken
    wrong = explorer.run().wait(60)
    assert wrong.phase == "done", wrong.error
    row = job_view(explorer)["runs"][0]
    assert row["same"] is False
    step = int(row["sameness"].split("from step ")[1].split(" ")[0].replace(",", ""))
    right = explorer.runs[0].losses
    apart = [
        abs(one - other) / math.hypot(*right) * len(right) ** 0.5
        for one, other in zip(wrong.losses, right, strict=True)
    ]
    assert step == next(at for at, each in enumerate(apart, 1) if each > TOLERANCE[4])
    assert row["sameness"].startswith("✕ differs from run 1 from step ")
    # A check of the whole plan says the same.
    assert not broken.check().ok


def test_it_is_the_unsplit_run_that_all_are_compared_with(explorer: Explorer) -> None:
    explorer.load("batch:data")
    explorer.run(2).wait(60)
    view = job_view(explorer)
    assert view["note"].startswith("Compared with run 1; run once without a layout to compare all runs with")
    explorer.load(None)
    explorer.run(2).wait(60)
    view = job_view(explorer)
    assert [row["reference"] for row in view["runs"]] == [True, False]
    assert "run 2" in view["runs"][1]["sameness"]
    assert view["note"].startswith("Compared with run 2, which shards nothing")
    assert "losses agree within 0.0002 of their root mean square" in view["note"]


def test_the_reference_stays_in_sight_however_many_runs_there_are(explorer: Explorer) -> None:
    explorer.run(1).wait(60)
    explorer.load("batch:data")
    for _ in range(8):
        explorer.run(1).wait(60)
    assert [row["number"] for row in job_view(explorer)["runs"]] == [9, 8, 7, 6, 5, 4, 3, 1]


@pytest.mark.parametrize(
    ("mine", "text"),
    [
        ([2.0, 1.0], "✓ exactly the losses of run 1"),
        ([2.0], "✓ exactly the losses of run 1"),
        ([2.0, 1.0 + 1e-6], "✓ same losses as run 1, to 1e-6"),
        ([2.0, 1.01], "✕ differs from run 1 from step 2 on: 1.01 against 1"),
        ([2.0, 1.0004, 7.0], "✕ differs from run 1 from step 2 on: 1.0004 against 1"),
        ([math.nan, 1.0], "✕ differs from run 1 from step 1 on: nan against 2"),
        ([2.0, math.inf], "✕ differs from run 1 from step 2 on: inf against 1"),
    ],
)
def test_words(mine: list[float], text: str) -> None:
    sameness = same(run_with(mine, "batch:data", 2), run_with([2.0, 1.0]), small.program())
    assert sameness is not None
    assert sameness.text == text
    assert sameness.steps == min(2, len(mine))


def test_numbers_that_are_none_are_equal_to_their_like() -> None:
    both = [run_with([math.nan, math.inf], number=number) for number in (1, 2)]
    sameness = same(both[1], both[0], small.program())
    assert sameness is not None
    assert sameness.text == "✓ exactly the losses of run 1"


def test_nothing_is_compared_with_nothing() -> None:
    empty, one = run_with([], number=1), run_with([1.0], number=2)
    assert reference_of([empty]) is None
    assert reference_of([empty, one]) is one
    assert same(empty, one, small.program()) is None
    assert same(one, one, small.program()) is None
    assert same(one, None, small.program()) is None


def test_seconds_are_measured_beside_those_predicted(explorer: Explorer) -> None:
    explorer.run(1).wait(60)
    row = job_view(explorer)["runs"][0]
    # The only step compiled the program: nothing to say.
    assert (row["measured"], row["predicted"]) == ("", "")
    explorer.on("v5e:2x4")
    run = explorer.run(4).wait(60)
    assert len(run.seconds) == 4
    assert run.platform == "cpu"
    explorer.view()
    row = job_view(explorer)["runs"][0]
    assert (row["measured_on"], row["predicted_on"]) == (SIMULATED, "v5e:2x4")
    assert row["measured"].endswith(("ms", "µs", " s"))
    assert row["predicted"] == seconds_text(explorer.time.estimate)
