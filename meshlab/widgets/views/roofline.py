"""The kernels of a step on a roofline: operations per byte across, operations per second up.

    roofline_view(explorer)["dots"]     [{"name": "dot_general", "intensity": 85.3, "rate": 1.2e14, …}, …]

Kernels of one operation on one source line are one dot. Operations are those of matmuls, so a kernel without any has
none: it has no place in the chart, which says how long such kernels take. Groups beyond `MOST_DOTS` are one number. The
seconds of all add up to `plan.time.compute`. What takes most of the step is found by the same groups, and said here.
"""

from __future__ import annotations

from typing import TypedDict

from ...cost.machines.units import seconds_text
from ...cost.step_time.kernel_groups import Group, groups_of
from ...cost.step_time.time import Time
from ..state.explorer_state import ExplorerState
from .charts.kernels import DotView, RoofView, kernels_chart
from .charts.look import ChartView
from .pending import PendingView

MOST_DOTS = 60


class RooflineView(TypedDict):
    """The kernels of a step in seconds, FLOP/s and bytes per second; `left_out` groups have no dot.

    Of kernels and collectives `because` says which takes most of the step, and why.
    """

    because: str
    dots: list[DotView]
    chart: ChartView | None
    left_out: int
    left_seconds: float
    undrawn: float
    said: str
    roofs: list[RoofView]
    bandwidth: float
    compute: float


class NoRooflineView(TypedDict):
    """No time is known."""

    dots: None


def roofline_view(explorer: ExplorerState) -> RooflineView | NoRooflineView | PendingView:
    """Describes the kernels of the present step against the machine.

    Returns:
        What `roofline_of` says; None of `dots` where no time is known; `pending` while costs are worked out.
    """
    if not explorer.document.machine:
        return {"dots": None}
    costs = explorer.costs.soon(explorer.document)
    if costs is None:
        return {"pending": True}
    return {"dots": None} if costs.time is None else roofline_of(costs.time)


def roofline_of(time: Time) -> RooflineView:
    """Describes the kernels of a step against its machine: peak and bandwidth as large kernels reach them."""
    scenario, every = time.scenario, dots_of(time)
    dots, rest = every[:MOST_DOTS], every[MOST_DOTS:]
    dtypes = sorted({dot["dtype"] for dot in every if dot["dtype"]})
    roofs: list[RoofView] = [{"dtype": dtype, "peak": float(scenario.flops_per_second(dtype))} for dtype in dtypes]
    bandwidth = float(scenario.bytes_per_second)
    chart = kernels_chart(dots, roofs, bandwidth)
    left = sum(dot["seconds"] for dot in rest)
    undrawn = left + sum(dot["seconds"] for dot in dots if chart is None or dot["intensity"] is None)
    return {
        "because": time.because,
        "dots": dots,
        "chart": chart,
        "left_out": len(rest),
        "left_seconds": left,
        "undrawn": undrawn,
        "said": _said(undrawn, float(time.compute), chart is not None, bool(rest)),
        "roofs": roofs,
        "bandwidth": bandwidth,
        "compute": float(time.compute),
    }


def dots_of(time: Time) -> list[DotView]:
    """Describes all groups of kernels, the longest first."""
    return [_dot(group, time) for group in groups_of(time.scenario, time.spent)]


def _said(undrawn: float, compute: float, is_drawn: bool, is_cut: bool) -> str:
    """Says which part of the kernels' time the chart does not show."""
    if not compute:
        return "No kernel takes any time."
    if not is_drawn:
        return f"No kernel has matmuls: all {seconds_text(undrawn)} are memory- or launch-bound."
    if not undrawn:
        return f"All kernels are drawn: {seconds_text(compute)}."
    part = f"{seconds_text(undrawn)} of {seconds_text(compute)} of kernel time"
    if is_cut:
        return f"Not drawn: kernels without matmuls and the smallest groups, {part}."
    return f"Not drawn: kernels without matmuls, {part}. Only FLOPs of matmuls are counted."


def _dot(group: Group, time: Time) -> DotView:
    """Describes a group; without operations, or without bytes, it has no intensity."""
    return {
        "name": group.name,
        "dims": group.dims,
        "source": group.source,
        "dtype": group.dtype,
        "count": group.count,
        "seconds": group.seconds,
        "flops": group.flops,
        "bytes": group.nbytes,
        "intensity": group.intensity,
        "rate": group.flops / group.seconds,
        "bound": group.bound(time.scenario),
    }
