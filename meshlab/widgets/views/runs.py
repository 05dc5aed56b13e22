"""The runs as JSON-like data, for the table and the loss curve of the Run panel.

What was measured and what is predicted stand side by side and are never put in one number: here devices are most often
simulated by one CPU, whose seconds say nothing of the machine.
"""

from __future__ import annotations

import math
import statistics
from typing import TypedDict

from ...cost.machines.units import seconds_text
from ..state.explorer_state import ExplorerState
from ..state.runs import Run
from .charts.look import ChartView
from .charts.losses import Losses, drawn_runs, losses_chart
from .charts.sameness import reference_of, same, tolerance_of

MOST_RUNS = 8
CPU = "cpu"
SIMULATED = "simulated on this CPU: not a measure of the machine"


class SamenessView(TypedDict):
    """How a run compares with the reference: a tolerance is a share of the root mean square of its losses."""

    reference: bool
    same: bool | None
    sameness: str
    tolerance: float | None


class StepSecondsView(TypedDict):
    """The seconds of a step as text, and what they were measured on and predicted for; empty where there are none."""

    measured: str
    measured_on: str
    predicted: str
    predicted_on: str


class RunView(SamenessView, StepSecondsView):
    """A run; its loss is text where it is not finite."""

    number: int
    revision: int
    layout: str
    stale: bool
    phase: str
    taken: int
    steps: int
    loss: float | str | None
    error: str


class RunRowView(RunView):
    """A run with the number of its mark in the chart."""

    mark: int | None


class JobView(TypedDict):
    current: RunView | None
    runs: list[RunRowView]
    note: str
    chart: ChartView | None


def job_view(explorer: ExplorerState) -> JobView:
    """Describes the latest run, the last few, latest first, and the one that they are compared with."""
    reference = reference_of(explorer.runs)
    latest = [*reversed(explorer.runs)][:MOST_RUNS]
    if reference is not None and all(run.number != reference.number for run in latest):
        latest = [*latest[:-1], reference]
    runs = [run_view(run, reference, explorer) for run in latest]
    losses = losses_of(explorer)
    marks = {run.number: mark for mark, run in enumerate(drawn_runs(losses))}
    return {
        "current": runs[0] if runs else None,
        "runs": [{**run, "mark": marks.get(run["number"])} for run in runs],
        "note": _note(reference, explorer),
        "chart": losses_chart(losses),
    }


def losses_of(explorer: ExplorerState) -> list[Losses]:
    """Returns the losses of every run."""
    reference = reference_of(explorer.runs)
    return [Losses(run.number, str(run.document.layout), list(run.losses), run is reference) for run in explorer.runs]


def _note(reference: Run | None, explorer: ExplorerState) -> str:
    """Returns what the runs are compared with, and within which bounds."""
    if reference is None:
        return ""
    if reference.document.layout.to_dict():
        unsplit = "; run once without a layout to compare all runs with the original function"
    else:
        unsplit = ", which shards nothing: the original function"
    return (
        f"Compared with run {reference.number}{unsplit}. Devices add in a different order, which rounds differently:"
        f" losses agree within {tolerance_of(explorer.program):g} of their root mean square, as results are for"
        " plan.check()."
    )


def compared(run: Run, reference: Run | None, explorer: ExplorerState) -> SamenessView:
    is_reference = reference is not None and run.number == reference.number
    sameness = same(run, reference, explorer.program)
    return {
        "reference": is_reference,
        "same": None if sameness is None else sameness.differs_from is None,
        "sameness": "" if sameness is None else sameness.text,
        "tolerance": None if sameness is None else sameness.tolerance,
    }


def timed(run: Run, explorer: ExplorerState) -> StepSecondsView:
    """Describes the seconds of a step: the median of those measured but the first, which compiles; the prediction."""
    warm = run.seconds[1:]
    costs = explorer.costs.known(run.document) if run.document.machine else None
    predicted = costs.time.estimate if costs is not None and costs.time is not None else None
    return {
        "measured": seconds_text(statistics.median(warm)) if warm else "",
        "measured_on": SIMULATED if run.platform == CPU else run.platform,
        "predicted": "" if predicted is None else seconds_text(float(predicted)),
        "predicted_on": run.document.machine.on if run.document.machine else "",
    }


def run_view(run: Run, reference: Run | None, explorer: ExplorerState) -> RunView:
    """Describes a run; one of another layout than the present is stale."""
    losses = list(run.losses)
    return {
        "number": run.number,
        "revision": run.revision,
        "layout": str(run.document.layout),
        "stale": run.document.layout != explorer.document.layout,  # the machine changes no result
        "phase": run.phase,
        "taken": run.taken,
        "steps": run.steps,
        "loss": _plain(losses[-1]) if losses else None,
        "error": run.error,
        **compared(run, reference, explorer),
        **timed(run, explorer),
    }


def _plain(loss: float) -> float | str:
    """Returns a loss for JSON: as text where it is not finite, since Jupyter sends a page no such number."""
    return loss if math.isfinite(loss) else str(loss)
