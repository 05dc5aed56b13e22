"""The board's charts as Plotly figures, for papers, slides and further work.

    >>> explorer.figure("communication").write_html("communication.html")

They are drawn from the very data that the board draws, in the same colours; those that people zoom, "moments",
"roofline" and "loss", are the page's own charts (`views/charts`). Plotly is imported when the first one is asked for.
"""

from __future__ import annotations

import itertools
import textwrap
from collections.abc import Callable
from typing import Any

from ...cost.machines.units import bytes_text, seconds_text
from ...engine.errors import closest, listed
from ..documents.document import ExplorerError
from ..state.explorer_state import ExplorerState
from ..tables.needed import NO_CURVE, NO_RUN, met, peaked, timed, tried, way
from ..views.charts.look import ChartView
from ..views.machine_figures import RECALLED
from ..views.peak_memory import moments_view
from ..views.roofline import roofline_view
from ..views.runs import job_view
from .palette import NEUTRAL, PATTERN, SOFT, SOLID, coloured, mark

# Pixels of a title and of a line below it, and the letters that such a line has.
_TITLE, _SUBTITLE, _WIDE = 52, 22, 72
# What is drawn for print alone (`render/print`).
PRINTED = ("board", "devices", "layout", "numbers", "program", "timeline")
_Drawer = Callable[[ExplorerState, dict], Any]
_DRAWERS: dict[str, _Drawer] = {}
# Its costs are not those that the figure waited for.
_CHANGED = "The board changed during drawing; ask again."


def _drawer(name: str) -> Callable[[_Drawer], _Drawer]:
    def register(draw: _Drawer) -> _Drawer:
        _DRAWERS[name] = draw
        return draw

    return register


def figure(name: str, explorer: ExplorerState, view: dict) -> Any:
    """Draws one chart of the board.

    Args:
        name: "communication", "lines", "memory", "moments", "time", "roofline", "comparison", "waterfall" or "loss".
        explorer: the Explorer.
        view: the board's data, from `board_view`.

    Returns:
        A `plotly.graph_objects.Figure`.
    """
    if name in PRINTED:
        raise ExplorerError(f'`{name}` is a figure for print: explorer.figure("{name}", width_mm=85).')
    if name not in _DRAWERS:
        raise ExplorerError(f"There is no chart {name!r}; there are {listed(_DRAWERS)}.{closest(name, _DRAWERS)}")
    drawn = _DRAWERS[name](explorer, view)
    # What a chart has above its area stands below the title.
    above = (drawn.layout.margin.t or 0) + _SUBTITLE * (drawn.layout.title.text or "").count("<br>")
    drawn.update_layout(template="plotly_white", font_size=14, margin={"l": 10, "r": 10, "t": _TITLE + above, "b": 10})
    # It is light wherever it is shown, and its names take nothing of its width.
    place = {"yref": "paper", "y": 1, "yanchor": "bottom", "pad": {"b": above + 18}}
    drawn.update_layout(paper_bgcolor="#ffffff", plot_bgcolor="#ffffff", title=place)
    drawn.update_layout(xaxis_automargin=True, yaxis_automargin=True)
    if drawn.layout.legend.orientation is None:
        drawn.update_layout(legend={"orientation": "h", "x": 0, "xanchor": "left", "y": -0.22, "yanchor": "top"})
    return drawn


def _titled(title: str, said: str) -> str:
    """Returns a title with a sentence below it, in lines that a narrow cell has room for."""
    return "<br>".join([title, *(f"<sub>{line}</sub>" for line in textwrap.wrap(said, _WIDE))])


def _stacked(view: dict, title: str, rows: list[tuple[str, list[dict]]]) -> Any:
    """Draws bars of parts; each mesh axis is one trace, in its mark."""
    import plotly.graph_objects as go  # noqa: PLC0415

    drawn = go.Figure()
    for group in view["groups"]:
        number = mark(view, group["key"])
        counts = [sum(part["bytes"] for part in parts if part["key"] == group["key"]) for _, parts in rows]
        if any(counts):
            drawn.add_bar(
                y=[name for name, _ in rows],
                x=counts,
                orientation="h",
                name=group["key"],
                marker={"color": SOLID[number], "pattern": {"shape": PATTERN[number], "fgcolor": "white"}},
            )
    drawn.update_layout(title=title, barmode="stack", xaxis_title="bytes", yaxis_autorange="reversed", showlegend=True)
    return drawn


@_drawer("communication")
def _communication(explorer: ExplorerState, view: dict) -> Any:
    rows = [(part["key"], [part]) for part in view["communication"]["by_axis"]]
    return _stacked(view, "Bytes that each device sends per step, by mesh axis", rows)


@_drawer("lines")
def _lines(explorer: ExplorerState, view: dict) -> Any:
    rows = [(line["line"], line["parts"]) for line in view["communication"]["by_line"]]
    return _stacked(view, "Bytes that each device sends per step, by source line", rows)


@_drawer("memory")
def _memory(explorer: ExplorerState, view: dict) -> Any:
    if view["peak_memory"]:
        return _peak(view["peak_memory"])
    parts = view["memory"]["parts"]
    title = "Bytes that each device holds: arguments, and outputs (striped)"
    return _bytes(parts, title, ["/" if part["output"] else "" for part in parts])


def _peak(memory: dict) -> Any:
    """Draws the bytes at the peak by role, and their sum against the capacity of a device."""
    parts = [*memory["parts"], {"name": "all", "bytes": memory["bytes"]}]
    title = _titled("Predicted peak memory of each device", memory["text"])
    drawn = _bytes(parts, title)
    limit = bytes_text(memory["limit"])
    drawn.add_vline(memory["limit"], line_dash="dash", annotation_text=limit, annotation_position="top left")
    longest = 1.1 * max(memory["limit"], memory["bytes"])
    return drawn.update_xaxes(tickformat="~s", ticksuffix="B", range=[0, longest])


def _bytes(parts: list[dict], title: str, shapes: list[str] | None = None) -> Any:
    import plotly.graph_objects as go  # noqa: PLC0415

    bars = go.Bar(
        y=[part["name"] for part in parts],
        x=[part["bytes"] for part in parts],
        orientation="h",
        marker={"color": NEUTRAL, "pattern": {"shape": shapes, "fgcolor": "white"}},
    )
    return go.Figure(bars).update_layout(title=title, xaxis_title="bytes", yaxis_autorange="reversed")


@_drawer("time")
def _time(explorer: ExplorerState, view: dict) -> Any:
    import plotly.graph_objects as go  # noqa: PLC0415

    time = timed(view)
    drawn = go.Figure()
    for part in time["parts"]:
        number = mark(view, part["key"])
        colour, shape = (
            (SOLID[number], PATTERN[number]) if part["sends"] else (NEUTRAL, "/" * (part["key"] == "memory"))
        )
        look = {"color": colour, "pattern": {"shape": shape, "fgcolor": "white"}}
        name = part["label"] + (f" ({RECALLED})" if part["recalled"] else "")
        drawn.add_bar(y=[part["label"]], x=[part["seconds"]], orientation="h", name=name, marker=look)
    reach = {"type": "data", "symmetric": False, "array": [time["upper"] - time["estimate"]]}
    reach["arrayminus"] = [time["estimate"] - time["lower"]]
    drawn.add_bar(
        y=["step"],
        x=[time["estimate"]],
        orientation="h",
        name="step, with its bounds",
        error_x=reach,
        marker_color=SOFT,
    )
    title = _titled(f"Predicted seconds of a step on {view['machine']['title']}", time["limit"]["text"])
    return drawn.update_layout(title=title, xaxis_title="seconds", yaxis_autorange="reversed")


@_drawer("comparison")
def _comparison(explorer: ExplorerState, view: dict) -> Any:
    """Draws each layout that was tried as a dot: step and peak, or without a machine bytes sent and held.

    Where Auto has found the fastest one, crosses are those that its search has met.
    """
    import plotly.graph_objects as go  # noqa: PLC0415

    cards = tried(view)
    is_timed = all(card["totals"]["seconds"] is not None for card in cards)
    across, up = ("seconds", "peak") if is_timed else ("bytes", "arguments")
    drawn = go.Figure()
    for card in cards:
        totals, name = card["totals"], f"{card['name']}: {card['layout'] or 'nothing sharded'}"
        look = {"size": 14 if card["now"] else 10, "symbol": "diamond" if card["baseline"] else "circle"}
        drawn.add_scatter(
            x=[totals[across]], y=[totals[up]], name=name, text=[card["name"]], mode="markers+text", marker=look
        )
    found = met(explorer) if is_timed else None
    if found is not None:
        x, y = [each.seconds for each in found.layouts], [each.peak_bytes for each in found.layouts]
        look, names = {"symbol": "x-thin-open", "size": 7, "color": SOFT}, [str(each.layout) for each in found.layouts]
        drawn.add_scatter(x=x, y=y, hovertext=names, name="evaluated by Auto's search", mode="markers", marker=look)
    if is_timed:
        limit = view["comparison"]["limit"]
        drawn.add_hline(limit, line_dash="dash", annotation_text=f"device memory, {bytes_text(limit)}")
    titles = {"seconds": "predicted seconds of a step", "peak": "predicted peak memory, in bytes"}
    titles |= {"bytes": "bytes that each device sends per step", "arguments": "bytes of arguments on each device"}
    drawn.update_traces(textposition="top center")
    return drawn.update_layout(title="Layouts tried", xaxis_title=titles[across], yaxis_title=titles[up])


@_drawer("waterfall")
def _waterfall(explorer: ExplorerState, view: dict) -> Any:
    """Draws the way from the layout on the board to Auto's: what the step takes, and what each change adds to it."""
    import plotly.graph_objects as go  # noqa: PLC0415

    known = way(explorer)
    steps = known.steps
    changes = [after.seconds - before.seconds for before, after in itertools.pairwise(steps)]
    bars = go.Waterfall(
        x=[*(step.change for step in steps), "Auto's"],
        y=[steps[0].seconds, *changes, 0.0],
        measure=["absolute", *("relative" for _ in changes), "total"],
        text=[seconds_text(steps[0].seconds), *map(seconds_text, changes), seconds_text(steps[-1].seconds)],
        increasing={"marker": {"color": SOLID[1]}},
        decreasing={"marker": {"color": SOLID[2]}},
        totals={"marker": {"color": NEUTRAL}},
    )
    return go.Figure(bars).update_layout(
        title="Step by step, from yours to Auto's" + (f"<br><sup>{known.order}</sup>" if known.order else ""),
        yaxis_title="predicted seconds of a step",
    )


def _charted(chart: ChartView | None, title: str, missing: str) -> Any:
    """Makes a figure of a chart of the page."""
    import plotly.graph_objects as go  # noqa: PLC0415

    if chart is None:
        raise ExplorerError(missing)
    drawn = go.Figure(coloured({"data": chart["data"], "layout": chart["layout"]}))
    high = chart["layout"]["height"] + _TITLE + _SUBTITLE * title.count("<br>")
    return drawn.update_layout(title=title, margin_autoexpand=True, height=high)


@_drawer("moments")
def _moments(explorer: ExplorerState, view: dict) -> Any:
    title = _titled("Memory of each device over the step", peaked(view)["text"])
    moments = moments_view(explorer)
    if "chart" not in moments:
        raise ExplorerError(_CHANGED)
    return _charted(moments["chart"], title, NO_CURVE)


@_drawer("roofline")
def _roofline(explorer: ExplorerState, view: dict) -> Any:
    timed(view)
    described = roofline_view(explorer)
    if "chart" not in described:
        raise ExplorerError(_CHANGED)
    title = _titled(f"Kernels of a step on {view['machine']['title']}", described["said"])
    return _charted(described["chart"], title, described["said"])


@_drawer("loss")
def _loss(explorer: ExplorerState, view: dict) -> Any:
    return _charted(job_view(explorer)["chart"], "Loss", NO_RUN)
