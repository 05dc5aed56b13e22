"""Peak memory of one device against its capacity, as the page shows it.

    peak_memory_view(plan, memory, 80e9)    {"bytes": 70e9, "limit": 16e9, "fits": False, "text": "Does not fit: …", …}

The peak is the donated one everywhere on the board: training runs so, and Auto, its front and the commands count so.
Beside the verdict it has the cause of the peak, the bytes at it by role, and the largest values then. What only the
Memory panel shows it asks for itself (`views/reads.py`):

    moments_view(explorer)                  the memory over all steps, as a chart
    alive_view(explorer, step=12)           what is in memory at any of these steps: the list adds up to the bytes there
"""

from __future__ import annotations

from typing import Any, TypedDict

from ...cost.machines.accuracy import MEMORY
from ...cost.machines.units import bytes_text, share_text
from ...cost.peak_memory.memory import Memory
from ...cost.peak_memory.stages import StageMemory
from ...cost.workload.attention import STORED
from ..state.explorer_state import ExplorerState
from .charts.look import ChartView
from .charts.moments import StepsPhaseView, moments_chart
from .machine_figures import AccuracyView, accuracy_view
from .pending import PendingView

MOST_ALIVE = 24
MOST_LISTED = 40
_NO_SCORES = "Without attention scores, which are computed block by block."


class RoleBytesView(TypedDict):
    name: str
    bytes: int


class AliveView(TypedDict):
    """A value that is in memory, with its shape and bytes on one device."""

    name: str
    role: str
    bytes: int
    dims: list[str]
    shape: list[int]
    dtype: str
    source: str


class StageBytesView(TypedDict):
    """What one stage of a pipeline needs while its cells run: `parts` by name add up to `bytes`."""

    stage: int
    bytes: int
    in_flight: int
    kept: int
    parts: list[RoleBytesView]


class PeakMemoryView(TypedDict):
    """The peak of one device in bytes, and the step `at` which it is; `undonated` where nothing is overwritten."""

    bytes: int
    undonated: int
    limit: int
    fits: bool
    note: str
    text: str
    because: str
    parts: list[RoleBytesView]
    alive: list[AliveView]
    left_out: int
    stages: list[StageBytesView]
    gaps: int
    steps: int
    at: int
    source: str
    recalled: bool
    accuracy: AccuracyView


class MomentsView(TypedDict):
    chart: ChartView | None


class AliveAtView(TypedDict):
    """What is in memory while a step runs; values, what is left out and padding add up to `bytes`."""

    step: int
    name: str
    source: str
    bytes: int
    values: list[AliveView]
    left_out: int
    left_bytes: int
    padding: int


class NoneAliveView(TypedDict):
    """No machine is chosen."""

    step: int
    bytes: None


def peak_memory_view(plan: Any, memory: Memory, undonated_bytes: int) -> PeakMemoryView:
    """Describes the peak memory of a plan, and whether it fits its machine.

    Args:
        plan: a plan on a machine.
        memory: its memory, where carried arguments are overwritten.
        undonated_bytes: its peak where none are.
    """
    machine = plan.mesh.on.hardware
    peak, limit = memory.peak_bytes, memory.limit_bytes
    alive = memory.at_peak
    return {
        "bytes": peak,
        "undonated": undonated_bytes,
        "limit": limit,
        "fits": memory.fits,
        "note": " ".join(filter(None, (_NO_SCORES * (memory.attention != STORED), memory.other_compiler))),
        "text": verdict(peak, undonated_bytes, limit, str(machine)),
        "because": memory.because,
        "parts": [{"name": role, "bytes": int(size)} for role, size in memory.parts.items()],
        "alive": [_alive(each) for each in alive[:MOST_ALIVE]],
        "left_out": max(0, len(alive) - MOST_ALIVE),
        "stages": [_stage(each) for each in memory.stages],
        "gaps": memory.gap_bytes,
        "steps": len(memory.timeline),
        "at": max(range(len(memory.timeline)), key=lambda i: memory.timeline[i].bytes),
        "source": machine.memory.source,
        "recalled": not machine.memory.verified,
        "accuracy": accuracy_view(MEMORY, machine),
    }


def _alive(each: Any) -> AliveView:
    return {
        "name": each.name,
        "role": each.role,
        "bytes": int(each.bytes),
        "dims": list(each.dims),
        "shape": [int(size) for size in each.shape],
        "dtype": each.dtype,
        "source": "" if each.source is None else str(each.source),
    }


def _stage(each: StageMemory) -> StageBytesView:
    parts = {
        "stored": each.stored,
        "accumulated": each.accumulators,
        "in flight": each.in_flight * each.kept,
        "received": each.arrived,
        "in a cell": each.cell,
    }
    return {
        "stage": each.stage,
        "bytes": each.peak_bytes,
        "in_flight": each.in_flight,
        "kept": each.kept,
        "parts": [{"name": name, "bytes": size} for name, size in parts.items()],
    }


def moments_view(explorer: ExplorerState, beside: bool = False) -> MomentsView | PendingView:
    """Draws the memory over the steps of the layout on the board, or of the one beside it.

    Returns:
        The `chart`, None where there is no machine, no such layout, or one step alone; `pending` while costs are worked
        out.
    """
    present, other = explorer.document, explorer.other
    if not present.machine or (beside and other is None):
        return {"chart": None}
    document = other.under(present) if beside and other is not None else present
    costs = explorer.costs.soon(document, aside=beside)
    if costs is None:
        return {"pending": True}
    several = len(costs.memory.timeline) > 1
    return {"chart": moments_chart(costs.memory, phases_view(costs.memory)) if several else None}


def alive_view(explorer: ExplorerState, step: int) -> AliveAtView | NoneAliveView | PendingView:
    """Describes what is in memory while a step of the timeline runs.

    Returns:
        The largest values, and what all others and what is no value's take, so that all add up to `bytes`, None where
        there is no machine; `pending` while costs are worked out.
    """
    if not explorer.document.machine:
        return {"step": step, "bytes": None}
    costs = explorer.costs.soon(explorer.document)
    if costs is None:
        return {"pending": True}
    memory = costs.memory
    alive = memory.alive_at(step)
    point, shown = memory.timeline[step], alive[:MOST_LISTED]
    return {
        "step": step,
        "name": point.step,
        "source": "" if point.source is None else str(point.source),
        "bytes": point.bytes,
        "values": [_alive(each) for each in shown],
        "left_out": len(alive) - len(shown),
        "left_bytes": sum(int(each.bytes) for each in alive[MOST_LISTED:]),
        "padding": memory.padding_at(step),
    }


def phases_view(memory: Memory) -> list[StepsPhaseView]:
    """Describes which steps are the forward pass, the backward pass, and the update; none without a backward pass.

    A compiler makes what starts empty in the backward pass ahead of all, so the border is where the fewest operations
    are on the wrong side of it.
    """
    points = memory.liveness.points
    backward = [getattr(getattr(step, "operation", None), "backward", None) for step in points]
    if True not in backward:
        return []
    last = len(backward) - backward[::-1].index(True)
    ahead, behind = 0, backward[:last].count(False)
    wrong = [behind]
    for each in backward[:last]:
        ahead, behind = ahead + (each is True), behind - (each is False)
        wrong.append(ahead + behind)
    edges = (0, wrong.index(min(wrong)), last, len(points))
    names = ("forward", "backward", "update")
    return [
        {"name": name, "begin": begin, "end": end}
        for name, begin, end in zip(names, edges, edges[1:], strict=False)
        if end > begin
    ]


def verdict(peak: int, undonated: int, limit: int, machine: str) -> str:
    """Says whether the peak fits where carried arguments are overwritten (`donate=True`), and where they are not."""
    of, how = f"{bytes_text(limit)} of one device of {machine}", " with donate=True" if undonated > peak else ""
    if peak <= limit:
        share = share_text(peak / limit) if peak >= limit / 1000 else "less than 0.1%"
        said = f"Fits: peak memory is {bytes_text(peak)}{how}, {share} of the {of}."
    else:
        over = bytes_text(peak - limit)
        said = f"Does not fit: peak memory is {bytes_text(peak)}{how}, {over} more than the {of}."
    but = " and does not fit" if peak <= limit < undonated else ""
    return f"{said} Without it, it is {bytes_text(undonated)}{but}." if how else said
