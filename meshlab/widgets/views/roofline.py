"""The kernels of a step on a roofline: operations per byte across, operations per second up.

    roofline_view(explorer)["dots"]     [{"name": "dot_general", "intensity": 85.3, "rate": 1.2e14, …}, …]

Kernels of one operation on one source line are one dot. Operations are those of matmuls, so a kernel without any has
none: it has no place in the chart, which says how long such kernels take. Groups beyond `MOST_DOTS` are one number. The
seconds of all add up to `plan.time.compute`.
"""

from __future__ import annotations

import dataclasses
from typing import TypedDict

from ...cost.machines.units import seconds_text
from ...cost.step_time.flops import multiplied
from ...cost.step_time.time import Time
from ...engine.planning.step import Step
from ..state.explorer_state import ExplorerState
from .charts.kernels import DotView, RoofView, kernels_chart
from .charts.look import ChartView
from .pending import PendingView

MOST_DOTS = 60


@dataclasses.dataclass
class Group:
    """Kernels of one operation on one line, in one pass.

    Attributes:
        name: the operation.
        source: the line.
        dtype: of its matmuls; "" of what multiplies nothing.
        dims: of the first one's result.
        count: executions in a step.
        seconds: of all.
        flops: of all.
        nbytes: of all, read from and written to memory.
        matmuls: the seconds of its matmuls alone.
    """

    name: str
    source: str
    dtype: str
    dims: list[str]
    count: int = 0
    seconds: float = 0.0
    flops: float = 0.0
    nbytes: float = 0.0
    matmuls: float = 0.0


class RooflineView(TypedDict):
    """The kernels of a step in seconds, FLOP/s and bytes per second; `left_out` groups have no dot."""

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
    return [_dot(group, time) for group in sorted(_groups(time), key=lambda group: -group.seconds)]


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


def _groups(time: Time) -> list[Group]:
    groups: dict[tuple, Group] = {}
    for step, times, cost in time.spent.kernels:
        if not cost.seconds:
            continue
        fresh = _described(step, time)
        group = groups.setdefault((fresh.name, fresh.source, fresh.dtype), fresh)
        group.count += int(times)
        for name in ("seconds", "flops", "nbytes", "matmuls"):
            setattr(group, name, getattr(group, name) + float(getattr(cost, name)) * float(times))
    return list(groups.values())


def _described(step: Step, time: Time) -> Group:
    program = time.scenario.plan.program
    operation = step.runs
    if operation is None:
        return Group(f"accumulate over {step.in_time}", "", "", [])
    real = multiplied(operation, program.code)
    dims = program.names[operation.outputs[0]] if operation.outputs else ()
    name = operation.name + (", backward" if operation.backward else "")
    source = "" if operation.source is None else str(operation.source)
    return Group(name, source, "" if real is None else str(real[0]), [dim or "1" for dim in dims])


def _dot(group: Group, time: Time) -> DotView:
    """Describes a group; without operations, or without bytes, it has no intensity."""
    launch = float(time.scenario.launch) * group.count
    bound = "compute" if group.matmuls >= group.seconds else "memory"
    waits = bound == "memory" and launch >= group.seconds * (1 - 1e-9) and launch > 0
    return {
        "name": group.name,
        "dims": group.dims,
        "source": group.source,
        "dtype": group.dtype,
        "count": group.count,
        "seconds": group.seconds,
        "flops": group.flops,
        "bytes": group.nbytes,
        "intensity": group.flops / group.nbytes if group.flops and group.nbytes else None,
        "rate": group.flops / group.seconds,
        "bound": "launch" if waits else bound,
    }
