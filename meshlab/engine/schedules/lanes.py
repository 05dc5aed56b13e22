"""A schedule that ran as lanes, one for each stage: a figure, and a Chrome trace."""

from __future__ import annotations

import json
import os
import pathlib
from typing import Any

from ..errors import MeshError, shown
from ..whole_files import write_whole
from .cells import BACKWARD, FORWARD, INPUTS, WEIGHTS, Parts
from .clock import Clock
from .validity import written

_SAID = {
    FORWARD: "forward",
    BACKWARD: "backward",
    INPUTS: "gradients of inputs",
    WEIGHTS: "gradients of weights",
}
# Blue, orange, orange's light and a green of Okabe and Ito, which also differ in lightness.
_COLOURS = {FORWARD: "#56b4e9", BACKWARD: "#e69f00", INPUTS: "#f5c869", WEIGHTS: "#009e73"}


def figure(title: str, parts: Parts, clock: Clock) -> Any:
    """Draws the lanes; each cell has its phase's letter and its micro-batch, every second chunk a thicker edge."""
    import plotly.graph_objects as go  # noqa: PLC0415  Plotly is large, and optional

    drawn = go.Figure()
    for phase, said in _SAID.items():
        cells = [at for at in clock.begins if at[1].phase == phase]
        if not cells:
            continue
        drawn.add_bar(
            orientation="h",
            name=f"{phase}: {said}",
            y=[f"stage {stage}" for stage, _ in cells],
            base=[clock.begins[at] for at in cells],
            x=[clock.ends[at] - clock.begins[at] for at in cells],
            text=[f"{cell.phase}{cell.micro}" for _, cell in cells],
            textposition="inside",
            insidetextanchor="middle",
            marker={
                "color": _COLOURS[phase],
                "line": {"width": [1 + 1.5 * (cell.chunk % 2) for _, cell in cells], "color": "#333"},
            },
            hovertext=[_hover(parts, clock, at) for at in cells],
            hoverinfo="text",
        )
    drawn.update_layout(
        title=title,
        barmode="overlay",
        bargap=0.15,
        template="plotly_white",
        yaxis={"autorange": "reversed", "type": "category"},
        xaxis={"title": "time"},
        legend={"orientation": "h", "y": -0.2},
        height=120 + 48 * len(parts),
        margin={"l": 10, "r": 10, "t": 50, "b": 10},
    )
    return drawn


def _hover(parts: Parts, clock: Clock, at: tuple[int, Any]) -> str:
    stage, cell = at
    part = f", part {parts[stage][cell.chunk]} of the model" if len(parts[0]) > 1 else ""
    return f"{_SAID[cell.phase]}, micro-batch {cell.micro}{part}: {clock.begins[at]:g} to {clock.ends[at]:g}"


def write_trace(path: str | os.PathLike[str], name: str, parts: Parts, clock: Clock) -> None:
    """Writes the lanes in the Trace Event Format (Google, 2016): a thread for each stage; times are microseconds."""
    if not isinstance(path, str | os.PathLike):
        raise MeshError(f'write_trace() was given {shown(path)} for its file; write a path: "schedule.json".')
    events: list[dict[str, Any]] = [{"ph": "M", "pid": 1, "name": "process_name", "args": {"name": f"schedule {name}"}}]
    for stage in range(len(parts)):
        events.append({"ph": "M", "pid": 1, "tid": stage, "name": "thread_name", "args": {"name": f"stage {stage}"}})
    for (stage, cell), begin in sorted(clock.begins.items(), key=lambda item: (item[0][0], item[1])):
        events.append(
            {
                **{"ph": "X", "pid": 1, "tid": stage, "ts": begin, "dur": clock.ends[stage, cell] - begin},
                **{"name": written(cell, parts[stage][cell.chunk]), "cat": _SAID[cell.phase]},
            }
        )
    try:
        write_whole(pathlib.Path(path), json.dumps({"traceEvents": events, "displayTimeUnit": "ms"}, allow_nan=False))
    except OSError as error:
        raise MeshError(f"write_trace() cannot write {shown(str(path))}: {error.strerror}.") from None
