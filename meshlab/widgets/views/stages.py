"""The schedule of a pipeline as a lane for each stage: when its cells run, when it sends, and how long it waits.

    view = stages_view(explorer)
    view["lanes"][0]["cells"]       {"begin": [0.0, 0.01, …], "end": […], "backward": [False, …], "micro": [0, 1, …], …}

The page asks for it while Time is shown: in lockstep, as the plan runs, or as if each stage ran by itself. Seconds are
those of `plan.time`, from the beginning of the pipeline; what a step computes in front of it, and behind it, is not in
it. Between cells a stage waits, but for what `sends` has: then all stages exchange.
"""

from __future__ import annotations

from typing import TypedDict

from ...cost.machines.units import seconds_text, share_text
from ...cost.step_time.lockstep import Cells
from ...cost.step_time.time import Time
from ...engine.planning.staged import Staged
from ...engine.planning.step import only
from ...engine.schedules.cells import FORWARD, At
from ..state.explorer_state import ExplorerState
from .pending import PendingView

# Digits of times.
_DIGITS = 9


class CellsView(TypedDict):
    """The cells of a stage as columns, in the order of time."""

    begin: list[float]
    end: list[float]
    backward: list[bool]
    micro: list[int]
    chunk: list[int]


class StageLaneView(TypedDict):
    """A stage: how long it runs no cell and sends nothing, in seconds and as text, and its cells."""

    waits: float
    text: str
    cells: CellsView


class StagesView(TypedDict):
    """A schedule as it runs; `sends` are the beginnings of exchanges, each of which takes `hop` seconds."""

    schedule: str
    said: str
    axis: str
    seconds: float
    chunks: int
    hop: float
    sends: list[float]
    lanes: list[StageLaneView]


class NoStagesView(TypedDict):
    """The layout is no pipeline, or no time is predicted."""

    lanes: None


def stages_view(explorer: ExplorerState, free_running: bool = False) -> StagesView | NoStagesView | PendingView:
    """Describes the schedule of the layout on the board; `pending` while its costs are worked out.

    Args:
        explorer: the Explorer.
        free_running: as if each stage ran by itself; else as the plan runs.
    """
    document = explorer.document
    costs = explorer.costs.soon(document) if document.machine else None
    if costs is None and document.machine:
        return {"pending": True}
    time = None if costs is None else costs.time
    if time is not None and free_running:
        time = time.free_running
    cells = None if time is None else time.spent.cells
    return {"lanes": None} if cells is None or time is None else schedule_view(time, cells)


def schedule_view(time: Time, cells: Cells) -> StagesView:
    """Describes the cells of a pipeline, stage by stage."""
    axis = next(step.axis for step in only(Staged, time.scenario.plan.planned.steps))
    sends = _sends(cells)
    seconds = cells.clock.makespan + (cells.hop if sends else 0.0)
    lanes = [_lane(cells, stage, seconds - len(sends) * cells.hop) for stage in range(cells.schedule.stages)]
    return {
        "schedule": str(cells.schedule),
        "said": said(time),
        "axis": axis,
        "seconds": _placed(seconds),
        "chunks": cells.schedule.chunks,
        "hop": _placed(cells.hop),
        "sends": [_placed(each) for each in sends],
        "lanes": lanes,
    }


def said(time: Time) -> str:
    """Says how long the stages of a pipeline wait."""
    how = "Each stage runs by itself" if time.scenario.options.free_running else "All stages exchange after each tick"
    share = share_text(float(time.bubble))
    return f"{how}: the busiest one waits for {seconds_text(float(time.idle))}, a bubble of {share} of the step."


def _sends(cells: Cells) -> list[float]:
    """When all stages exchange: after each tick, where they run in lockstep."""
    if not cells.lockstep or not cells.hop:
        return []
    ends: dict[int, float] = {}
    for at, tick in cells.schedule.tick_of.items():
        ends[tick] = max(ends.get(tick, 0.0), cells.clock.ends[at])
    return [ends[tick] for tick in sorted(ends)]


def _lane(cells: Cells, stage: int, seconds: float) -> StageLaneView:
    """One stage, in so many seconds without those in which it sends."""
    clock = cells.clock
    ats: list[At] = sorted((at for at in clock.begins if at[0] == stage), key=lambda at: clock.begins[at])
    waits = max(0.0, seconds - sum(clock.ends[at] - clock.begins[at] for at in ats))
    return {
        "waits": _placed(waits),
        "text": seconds_text(waits),
        "cells": {
            "begin": [_placed(clock.begins[at]) for at in ats],
            "end": [_placed(clock.ends[at]) for at in ats],
            "backward": [cell.phase != FORWARD for _, cell in ats],
            "micro": [cell.micro for _, cell in ats],
            "chunk": [cell.chunk for _, cell in ats],
        },
    }


def _placed(time: float) -> float:
    """Returns a time as precisely as it is drawn: the digits behind are half of what is sent."""
    return float(f"{time:.{_DIGITS}g}")
