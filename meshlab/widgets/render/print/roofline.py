"""The roofline: groups of kernels as dots under what their machine lets them reach."""

from __future__ import annotations

import math
from typing import Any

from ....cost.machines.units import scaled_text, seconds_text
from ...documents.document import ExplorerError
from ...state.explorer_state import ExplorerState
from ...tables.needed import costs_of, timed
from ...views.charts.kernels import DotView, name_of
from ...views.roofline import roofline_of
from ..palette import INK, NEUTRAL, SOFT
from .axes import Axis, Plot, draw_plot, keep_clear, scale_of
from .curves import tall
from .letters import SMALL, width_of
from .page import SWATCH, Page
from .places import Point, placed
from .sheet import Box, Sheet, box_of, number

_FILLS = {"compute": NEUTRAL, "memory": "#ffffff", "launch": "#b9c1cd"}
# The radius of the longest dot and of one that takes next to no time; so many of the dots are named.
_LARGEST, _SMALLEST, _NAMED = 8.0, 1.5, 6


def draw_roofline(page: Page, explorer: ExplorerState, view: dict[str, Any]) -> None:
    """Draws groups of kernels under the roofs of their machine; the area of each is its time."""
    timed(view)
    time = costs_of(explorer).time
    assert time is not None, "a board with a time has costs with one"
    described = roofline_of(time)
    dots = [dot for dot in described["dots"] if dot["intensity"] is not None]
    if described["chart"] is None:
        raise ExplorerError(described["said"])
    page.title(f"Kernels of a step on {view['machine']['title']}")
    roofs, bandwidth = described["roofs"], described["bandwidth"]
    bounds = [bound for bound in _FILLS if any(dot["bound"] == bound for dot in dots)]
    page.legend([(_swatch(_FILLS[bound]), f"{bound}-bound") for bound in bounds])
    knees = [roof["peak"] / bandwidth for roof in roofs]
    across = scale_of([*map(_intensity, dots), *knees], wide=True, room=0.12)
    up = scale_of([*(dot["rate"] for dot in dots), *(roof["peak"] for roof in roofs)], wide=True, room=0.16)
    plot = draw_plot(
        page, tall(page), Axis(across, "arithmetic intensity, FLOP/B →", _per_byte), Axis(up, "FLOP/s ↑", _rate)
    )
    peaks = {
        peak: [roof["dtype"] for roof in roofs if roof["peak"] == peak] for peak in sorted({r["peak"] for r in roofs})
    }
    lines = [_draw_roof(page, plot, peak, bandwidth) for peak in peaks]
    points = [_draw_dot(page.sheet, plot, dot, max(dot["seconds"] for dot in dots)) for dot in dots]
    for (start, end), (peak, dtypes) in zip(lines, peaks.items(), strict=True):
        _say_along(page, start, end, f"{_rate(peak)} in {', '.join(dtypes)}")
    _say_bandwidth(page, plot, min(knees), bandwidth)
    placed(page.sheet, points[:_NAMED], Box(plot.box.left + 2, plot.box.top, page.width, plot.box.bottom - 1))
    page.note(described["said"])
    page.note("A dot's area is its time.")


def _per_byte(value: float) -> str:
    """Writes every value alike: "100", "10 k", "100 k"."""
    return scaled_text(value, "")


def _rate(value: float) -> str:
    return scaled_text(value, "FLOP/s")


def _intensity(dot: DotView) -> float:
    assert dot["intensity"] is not None, "what multiplies nothing has no place in the chart"
    return dot["intensity"]


def _swatch(fill: str) -> Any:
    return lambda sheet, x, y: draw_circle(sheet, x + SWATCH / 2, y, 2.5, fill)


def draw_circle(sheet: Sheet, x: float, y: float, radius: float, fill: str) -> None:
    """Draws a circle around a point."""
    r, long = number(radius), number(2 * radius)
    half = f"a{r} {r} 0 1 0"
    sheet.path(f"M{number(x - radius)} {number(y)}{half} {long} 0{half} -{long} 0Z", INK, 0.6, fill=fill)


def _draw_dot(sheet: Sheet, plot: Plot, dot: DotView, longest: float) -> Point:
    x, y = plot.x(_intensity(dot)), plot.y(dot["rate"])
    radius = max(_SMALLEST, _LARGEST * math.sqrt(dot["seconds"] / longest))
    draw_circle(sheet, x, y, radius, _FILLS[dot["bound"]])
    sheet.take(Box(x - radius, y - radius, x + radius, y + radius))
    return Point(x, y, f"{name_of(dot)}, {seconds_text(dot['seconds'])}", radius)


def _ends(plot: Plot) -> tuple[float, float, float]:
    """Returns the least and the greatest value across, and the least up."""
    scales = ((plot.across, plot.across.low), (plot.across, plot.across.high), (plot.up, plot.up.low))
    low, high, floor = (10**end if scale.is_log else end for scale, end in scales)
    return low, high, floor


def _draw_roof(page: Page, plot: Plot, peak: float, bandwidth: float) -> tuple[Point, Point]:
    """Draws what the machine lets kernels reach: a slope, its memory, and a level, its matrix units.

    Returns:
        The ends of the level.
    """
    low, high, floor = _ends(plot)
    values = (max(low, floor / bandwidth), min(high, max(low, peak / bandwidth)), high)
    points = [(plot.x(value), plot.y(min(peak, value * bandwidth))) for value in values]
    page.sheet.line(points, INK, 1.0)
    keep_clear(page.sheet, points, 0.5)
    return Point(*points[1], ""), Point(*points[2], "")


def _say_along(page: Page, start: Point, end: Point, words: str) -> None:
    """Writes words above a level line, as far right as nothing else is; where all is taken, into the caption."""
    long, x = width_of(words, SMALL), end.x
    while x - long >= start.x:
        box = box_of(x, end.y - 3, words, SMALL, "end")
        if page.sheet.is_free(box):
            page.sheet.text(x, end.y - 3, words, SMALL, "end", fill=SOFT)
            return
        x -= 4
    page.note(f"The level is {words}.")


def _say_bandwidth(page: Page, plot: Plot, knee: float, bandwidth: float) -> None:
    low, _, floor = _ends(plot)
    middle = math.sqrt(max(low, floor / bandwidth) * knee) if low > 0 else knee / 2
    words = f"memory {scaled_text(bandwidth, 'B/s')}"
    placed(page.sheet, [Point(plot.x(middle), plot.y(middle * bandwidth), words, 1.0)], plot.box, above=True)
