"""The memory of a device over the steps of the program, with the phases, the limit, and the moment that is looked at.

    moments_chart(plan.memory, phases)["data"][0]["y"]        the bytes at each step

Each point is one step; of more than `MOST_POINTS` it is the highest of each stretch, so that no peak is lost.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypedDict

from ....cost.machines.units import bytes_text
from ....cost.peak_memory.alive import Moment
from ....cost.peak_memory.memory import Memory
from .look import ACTION, BAD, CARD, EDGE, INK, SOFT, USED, ChartView, axis, chart

MOST_POINTS = 1000
# A limit that is further above than this would leave the curve flat: it is named, and not drawn.
NEAR = 1.6
# A phase that is narrower has its name on a second line, where the names beside it do not reach.
NARROW = 0.12


class StepsPhaseView(TypedDict):
    """A phase of the program, from its first step to the one behind its last."""

    name: str
    begin: int
    end: int


def moments_chart(memory: Memory, phases: Sequence[StepsPhaseView]) -> ChartView:
    """Draws the memory over the step.

    Args:
        memory: of a plan.
        phases: their names, and where they begin and end, from `phases_view`.

    Returns:
        A chart. Its first trace is the curve, where `x` is the step; its second the moment that is looked at, here
        the peak.
    """
    points, limit = memory.timeline, memory.limit_bytes
    drawn = highest(points)
    most = max(point.bytes for point in points)
    top = 1.18 * max(most, limit if limit < NEAR * most else 0) or 1
    at = max(drawn, key=lambda i: points[i].bytes)
    curve = {
        "type": "scatter",
        "mode": "lines",
        "name": "memory",
        "x": drawn,
        "y": [int(points[i].bytes) for i in drawn],
        "customdata": [words(points[i], i, phases) for i in drawn],
        "hovertemplate": "operation %{x}, %{customdata[0]}: %{customdata[1]}<extra>%{customdata[2]}</extra>",
        "line": {"shape": "hvh", "color": USED, "width": 1},
        "fill": "tozeroy",
        "fillcolor": USED,
    }
    ends = [0, max(1, len(points) - 1)]
    layout = {
        "xaxis": axis("operation →", range=ends, minallowed=ends[0], maxallowed=ends[1]),
        "yaxis": axis("memory ↑", range=[0, top], minallowed=0, tickformat="~s", ticksuffix="B", nticks=6),
        "hovermode": "x",
        "shapes": [*(_border(phase) for phase in phases if phase["begin"]), *_limit_line(limit, top)],
        "annotations": [
            *_names(phases, len(points)),
            *_limit_name(limit, top, 2 * at < len(points)),
        ],
        "margin": {"l": 10, "r": 16, "t": 40, "b": 10},
    }
    label = f"memory of a device over {len(points):,} operations, at most {bytes_text(most)} in operation {at:,}"
    return chart([curve, _moment(at, int(points[at].bytes))], layout, label, 240, [curve["x"], curve["y"]])


def highest(points: Sequence[Moment], most: int = MOST_POINTS) -> list[int]:
    """Returns the steps that are drawn: all, or the highest of each of `most` stretches."""
    stride = max(1, -(-len(points) // most))
    stretches = (range(i, min(i + stride, len(points))) for i in range(0, len(points), stride))
    return [max(stretch, key=lambda i: points[i].bytes) for stretch in stretches]


def words(point: Moment, step: int, phases: Sequence[StepsPhaseView]) -> list[str]:
    """Returns what is said of a step: its operation with the line, its bytes, and its phase."""
    source = "" if point.source is None else f" at {point.source}"
    phase = next((each["name"] for each in phases if each["begin"] <= step < each["end"]), "")
    return [f"{point.step}{source}", bytes_text(point.bytes), phase]


def _moment(at: int, count: int) -> dict[str, Any]:
    return {
        "type": "scatter",
        "mode": "lines+markers+text",
        "name": "moment",
        "x": [at, at],
        "y": [0, count],
        "text": ["", bytes_text(count)],
        "textposition": "top center",
        "textfont": {"color": INK},
        "hoverinfo": "skip",
        "cliponaxis": False,
        "line": {"color": ACTION, "width": 3},
        "marker": {"color": ACTION, "size": [0, 10], "symbol": "diamond", "line": {"color": CARD, "width": 1}},
    }


def _border(phase: StepsPhaseView) -> dict[str, Any]:
    line = {"color": EDGE, "width": 2}
    return {"type": "line", "x0": phase["begin"], "x1": phase["begin"], "yref": "paper", "y0": 0, "y1": 1.1} | {
        "line": line,
        "layer": "below",
    }


def _names(phases: Sequence[StepsPhaseView], steps: int) -> list[dict[str, Any]]:
    names, second = [], False
    for phase in phases:
        # Of two narrow ones beside each other one is on each line.
        second = (phase["end"] - phase["begin"]) / steps < NARROW and not second
        last = phase["end"] == steps
        place = {"x": phase["end"] - 1, "xanchor": "right"} if last else {"x": phase["begin"], "xanchor": "left"}
        text = {"text": phase["name"], "showarrow": False, "font": {"color": SOFT}}
        names.append(place | text | {"yref": "paper", "y": 1, "yanchor": "bottom", "yshift": 15 if second else 0})
    return names


def _limit_line(limit: int, top: float) -> list[dict[str, Any]]:
    if limit > top:
        return []
    line = {"type": "line", "xref": "paper", "x0": 0, "x1": 1, "y0": limit, "y1": limit}
    return [line | {"line": {"color": BAD, "width": 2, "dash": "6px,3px"}}]


def _limit_name(limit: int, top: float, right: bool) -> list[dict[str, Any]]:
    if limit > top:
        return []
    # On the side where the peak is not: its own bytes stand there, often as high.
    side = {"x": 1, "xanchor": "right"} if right else {"x": 0, "xanchor": "left"}
    place = {"xref": "paper", "y": limit, "yanchor": "bottom"} | side
    return [place | {"text": f"device memory {bytes_text(limit)}", "showarrow": False, "font": {"color": BAD}}]
