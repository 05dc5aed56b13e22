"""The losses of several runs: steps across, the loss up.

    losses_chart(runs)["data"]          a line for each run that is drawn, the oldest first

Runs of one training lie on each other, so the first is drawn widest and each later one narrower above it; every run has
its own dashes and its own symbol, at steps of its own. Colours are no mesh axis's: the latest run stands out.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

from .look import ACTION, CARD, USED, ChartView, axis, chart, legend

# So many runs are drawn, and so many of their losses; what comes before them is in the table.
MOST_RUNS, MOST_LOSSES = 5, 120
# Symbols on one line.
MARKED = 5
# From this ratio of the largest to the smallest on, the axis is logarithmic.
WIDE = 8
# Powers of ten, below which 2 and 5 times each are written as well.
FEW = 2.2
SYMBOLS = ("circle", "square", "triangle-up", "diamond", "x")
DASHES = ("solid", "7px,3px", "2px,3px", "9px,3px,2px,3px", "4px,4px")


class Losses(NamedTuple):
    """One run.

    Attributes:
        number: the run's.
        layout: as text; "" where it had none.
        losses: of all steps that it took.
        is_reference: whether the others are compared with it.
    """

    number: int
    layout: str
    losses: Sequence[float]
    is_reference: bool


def drawn_runs(runs: Sequence[Losses]) -> list[Losses]:
    """Returns the runs that are drawn, the oldest first: the one that all are compared with, and the latest."""
    seen = [run for run in runs if any(math.isfinite(run.losses[i]) for i in drawn_steps(len(run.losses)))]
    others = sorted((run for run in seen if not run.is_reference), key=lambda run: -run.number)
    reference = [run for run in seen if run.is_reference]
    return sorted([*reference, *others[: MOST_RUNS - len(reference)]], key=lambda run: run.number)


def drawn_steps(count: int) -> list[int]:
    """Returns which of so many steps, from 0 on, are drawn: every n-th, and the last."""
    stride = max(1, -(-count // (MOST_LOSSES - 1)))
    return sorted({*range(0, count, stride), *range(count)[-1:]})


def losses_chart(runs: Sequence[Losses]) -> ChartView | None:
    """Draws the losses of the runs by step; None where no run has a loss that is a number."""
    drawn = drawn_runs(runs)
    if not drawn:
        return None
    traces = [_line(run, mark, len(drawn)) for mark, run in enumerate(drawn)]
    seen = [loss for trace in traces for loss in trace["y"] if loss is not None]
    wide = min(seen) > 0 and max(seen) > WIDE * min(seen)
    layout = {
        "xaxis": axis("step →", tickformat=",d", nticks=8, minallowed=0),
        "yaxis": axis("loss ↑", tickformat="~r", **(_log(min(seen), max(seen)) if wide else {"nticks": 6})),
        "hovermode": "closest",
        "showlegend": True,
        # Of a line whose first step has no symbol the legend has it all the same.
        "legend": legend() | {"itemsizing": "constant"},
        "margin": {"l": 10, "r": 16, "t": 34, "b": 10},
    }
    label = "; ".join(f"run {run.number}: from {_three(run.losses[0])} to {_three(run.losses[-1])}" for run in drawn)
    return chart(traces, layout, f"loss by step. {label}", 260, [run.number for run in drawn])


def _log(least: float, most: float) -> dict[str, Any]:
    """Describes a logarithmic axis: 1, 2 and 5 of each power of ten are written where these are few, else powers."""
    decades = math.log10(most / least)
    return {"type": "log", "dtick": "D2" if decades < FEW else math.ceil(decades / 6)}


def _line(run: Losses, mark: int, count: int) -> dict[str, Any]:
    steps = drawn_steps(len(run.losses))
    values = [run.losses[i] for i in steps]
    # Symbols of runs that lie on each other stand at steps of their own.
    marked = {int(len(values) * (i + mark / count) / MARKED) for i in range(MARKED)}
    colour = ACTION if mark == count - 1 else USED
    return {
        "type": "scatter",
        "mode": "lines+markers",
        "name": f"run {run.number}: {run.layout or 'nothing sharded'}",
        "x": [1 + i for i in steps],
        "y": [float(value) if math.isfinite(value) else None for value in values],
        "hovertemplate": f"run {run.number}, step %{{x}}: %{{y:.6r}}<extra></extra>",
        "line": {"color": colour, "width": 0.7 + 1.1 * (count - mark), "dash": DASHES[mark]},
        "marker": {
            "symbol": SYMBOLS[mark],
            "color": CARD,
            "size": [9 if i in marked else 0 for i in range(len(values))],
            "line": {"color": colour, "width": 1.6},
            "opacity": 1,
        },
    }


def _three(value: float) -> str:
    return f"{float(f'{value:.3g}'):g}"
