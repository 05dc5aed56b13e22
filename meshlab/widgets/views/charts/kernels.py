"""The roofline: groups of kernels as dots, FLOP per byte across, FLOP/s up, under what the machine lets them reach.

    kernels_chart(dots, roofs, bandwidth)["data"]        the roofs, then one trace of dots for each thing they wait for

A dot's area is its time; what it waits for is its shape as well as its colour, and no colour is a mesh axis's. Kernels
without matmuls do no FLOP, so they have no place in it: whoever shows the chart says how long they take.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Literal, TypedDict

from ....cost.machines.units import scaled_text, seconds_text
from .look import ACTION, INK, NOTHING, SOFT, USED, ChartView, axis, chart, legend

# Diameters of the largest dot, and of one that takes next to no time, in CSS pixels.
LARGEST, SMALLEST = 36, 7
# So many of the dots have their names beside them, if they are so far apart: shares of the width and of the height.
NAMED, APART = 5, (0.24, 0.09)
# The share of the width that the name of the slope takes in the narrowest of charts.
LEFT = 0.4
BOUNDS = {
    "compute": ("compute-bound", "circle", USED, ACTION),
    "memory": ("memory-bound", "circle", NOTHING, INK),
    "launch": ("launch-bound", "diamond", NOTHING, SOFT),
}


class DotView(TypedDict):
    """Kernels of one operation on one line: seconds, FLOP and bytes of all; intensity in FLOP/B, rate in FLOP/s."""

    name: str
    dims: list[str]
    source: str
    dtype: str
    count: int
    seconds: float
    flops: float
    bytes: float
    intensity: float | None
    rate: float
    bound: Literal["compute", "memory", "launch"]


class RoofView(TypedDict):
    """The FLOP/s that large matmuls of a dtype reach."""

    dtype: str
    peak: float


def kernels_chart(dots: Sequence[DotView], roofs: Sequence[RoofView], bandwidth: float) -> ChartView | None:
    """Draws kernels under the roofs of their machine.

    Args:
        dots: groups of kernels, the longest first, as `roofline_of` describes them.
        roofs: FLOP/s that matmuls reach, by dtype.
        bandwidth: of the memory, in bytes per second.

    Returns:
        A chart, whose dots have their seconds in `customdata`; None where no kernel multiplies.
    """
    timed = [dot for dot in dots if dot["intensity"] is not None]
    if not timed or not roofs:
        return None
    # Below the dots there is room for their names.
    across = decades([*map(_intensity, timed), *(roof["peak"] / bandwidth for roof in roofs)])
    up = decades([*(dot["rate"] / 2 for dot in timed), *(roof["peak"] for roof in roofs)])
    labels = names(timed, across, up)
    bounds = {dot["bound"] for dot in timed}
    traces = [
        *(_roof(roof, bandwidth, across, up) for roof in roofs),
        *(_dots(timed, labels, bound) for bound in BOUNDS if bound in bounds),
    ]
    layout = {
        "xaxis": axis("arithmetic intensity, FLOP/B →", type="log", range=across, tickformat=",~r", dtick="D2"),
        "yaxis": axis("FLOP/s ↑", type="log", range=up, tickformat="~s", dtick="D2"),
        "hovermode": "closest",
        "showlegend": True,
        "legend": legend() | {"itemsizing": "constant"},
        "margin": {"l": 10, "r": 16, "t": 34, "b": 10},
    }
    peaks = ", ".join(f"{scaled_text(roof['peak'], 'FLOP/s')} in {roof['dtype']}" for roof in roofs)
    return chart(traces, layout, f"roofline of {len(timed)} groups of kernels under {peaks}", 340)


def decades(values: Sequence[float]) -> list[float]:
    """Returns the ends of a logarithmic axis around values, as exponents of ten, in quarters."""
    logs = [math.log10(value) for value in values]
    # Above the highest there is room for a line of text.
    above = max(0.2, 0.1 * (max(logs) - min(logs)))
    return [math.floor(4 * (min(logs) - 0.3)) / 4, math.ceil(4 * (max(logs) + above)) / 4]


def names(dots: Sequence[DotView], across: Sequence[float], up: Sequence[float]) -> list[str]:
    """Returns the names that stand below dots: their lines; "" where none fits or the dot is not of the largest."""

    def place(dot: DotView) -> tuple[float, float]:
        x = (math.log10(_intensity(dot)) - across[0]) / (across[1] - across[0])
        return x, (math.log10(dot["rate"]) - up[0]) / (up[1] - up[0])

    taken: list[tuple[float, float]] = []
    given = []
    for dot in dots:
        x, y = place(dot)
        free = all(abs(x - a) > APART[0] or abs(y - b) > APART[1] for a, b in taken)
        fits = len(taken) < NAMED and free
        given.append(name_of(dot) if fits else "")
        taken += [(x, y)] * fits
    return given


def name_of(dot: DotView) -> str:
    """Returns the line of a group of kernels, or its operation, and whether it runs backward."""
    backward = ", backward" * dot["name"].endswith(", backward")
    return f"{dot['source'] or dot['name']}{backward * bool(dot['source'])}"


def _roof(roof: RoofView, bandwidth: float, across: Sequence[float], up: Sequence[float]) -> dict[str, Any]:
    peak, text = roof["peak"], f"{scaled_text(roof['peak'], 'FLOP/s')} in {roof['dtype']}"
    begin = max(10 ** across[0], 10 ** up[0] / bandwidth)
    # The middle is there for the name of the slope.
    x = [begin, math.sqrt(begin * peak / bandwidth), peak / bandwidth, 10 ** across[1]]
    slope = "top left" if (math.log10(x[1]) - across[0]) / (across[1] - across[0]) > LEFT else "bottom right"
    return {
        "type": "scatter",
        "mode": "lines+text",
        "name": text,
        "x": x,
        "y": [min(peak, each * bandwidth) for each in x],
        # A line higher than the largest dots reach.
        "text": ["", f"memory {scaled_text(bandwidth, 'B/s')} ", "", f"{text}<br> "],
        "textposition": ["top left", slope, "top left", "top left"],
        "textfont": {"color": SOFT},
        "hoverinfo": "skip",
        "showlegend": False,
        "line": {"color": INK, "width": 2},
    }


def _dots(dots: Sequence[DotView], labels: Sequence[str], bound: str) -> dict[str, Any]:
    name, symbol, fill, line = BOUNDS[bound]
    longest = max(dot["seconds"] for dot in dots)
    mine = [(dot, label) for dot, label in zip(dots, labels, strict=True) if dot["bound"] == bound]
    return {
        "type": "scatter",
        "mode": "markers+text",
        "name": name,
        "x": [dot["intensity"] for dot, _ in mine],
        "y": [dot["rate"] for dot, _ in mine],
        "text": [label for _, label in mine],
        "textposition": "bottom center",
        "cliponaxis": False,
        "textfont": {"color": INK},
        "customdata": [[words(dot), dot["seconds"]] for dot, _ in mine],
        "hovertemplate": "%{customdata[0]}<extra></extra>",
        "marker": {
            "symbol": symbol,
            "color": fill,
            "opacity": 0.75,
            "line": {"color": line, "width": 2},
            "size": [dot["seconds"] for dot, _ in mine],
            "sizemode": "area",
            "sizeref": 2 * longest / LARGEST**2,
            "sizemin": SMALLEST / 2,
        },
    }


def words(dot: DotView) -> str:
    """Returns what is said of a group of kernels: what and where it is, how long it takes, and what it waits for."""
    of = f" [{' '.join(dot['dims'])}]" if dot["dims"] else ""
    where = f"<br>{dot['source']}" if dot["source"] else ""
    rate = f"{_three(_intensity(dot))} FLOP/B, {scaled_text(dot['rate'], 'FLOP/s')}"
    taken = f"{seconds_text(dot['seconds'])} in {dot['count']:,}, {rate}, {dot['bound']}-bound"
    return f"{dot['name']}{of}{where}<br>{taken}"


def _intensity(dot: DotView) -> float:
    assert dot["intensity"] is not None, "what multiplies nothing has no place in the chart"
    return dot["intensity"]


def _three(value: float) -> str:
    return f"{float(f'{value:.3g}'):,.10g}"
