"""Curves: the memory of a device over the step, and the losses of runs."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from ....cost.machines.units import bytes_text
from ...documents.document import ExplorerError
from ...state.explorer_state import ExplorerState
from ...tables.needed import NO_CURVE, NO_RUN, costs_of, peaked
from ...views.charts.losses import drawn_runs, drawn_steps
from ...views.charts.moments import highest
from ...views.peak_memory import phases_view
from ...views.runs import losses_of
from ..palette import INK, NEUTRAL, SOFT, SOLID
from .axes import Axis, Plot, Scale, draw_plot, in_bytes, keep_clear, plain, scale_of
from .letters import LINE, SMALL
from .page import Page, dashed
from .places import Point, lines_of_spans, named_spans, placed
from .sheet import Sheet, number

# A limit is drawn where it is at most so many times as much as the most.
NEAR = 2.5
# The fill of an area.
LIGHT = "#c6ccd6"
_TALL = (110.0, 210.0)
_DASHES = ("", "5 2", "1.5 2", "6 2 1.5 2", "3 3")


def tall(page: Page) -> float:
    """Returns how high a chart is, for the width that it has."""
    return min(_TALL[1], max(_TALL[0], 0.5 * page.width))


def draw_moments(page: Page, explorer: ExplorerState, view: dict[str, Any]) -> None:
    """Draws the memory of a device over the steps of the program, with its phases, its peak and the limit."""
    peak, memory = peaked(view), costs_of(explorer).memory
    points, limit = memory.timeline, memory.limit_bytes
    if len(points) < 2:
        raise ExplorerError(NO_CURVE)
    page.title("Memory of each device over the step")
    drawn, phases = highest(points), phases_view(memory)
    most = max(point.bytes for point in points)
    near = limit <= NEAR * most
    up = Axis(
        scale_of([0, most, *([limit] if near else [])], from_zero=True, room=0.2), "memory of a device ↑", in_bytes
    )
    across = Axis(Scale(0, len(points)), "operation →", plain)
    # Two lines for the names of phases, in case one is narrow.
    plot = draw_plot(page, tall(page), across, up, head=2 * LINE * SMALL * bool(phases))
    starts = zip(drawn, [*drawn[1:], len(points)], strict=True)
    level = [(plot.x(x), plot.y(points[at].bytes)) for at, end in starts for x in (at, end)]
    floor = plot.box.bottom
    draw_area(page, level, floor)
    spans = [(each["name"], plot.x(each["begin"]) + 2, plot.x(each["end"])) for each in phases]
    lines = lines_of_spans(spans, page.width)
    named_spans(page.sheet, lines, plot.box.top - len(lines) * LINE * SMALL - 1)
    for name, x, _ in spans:
        line = next(n for n, each in enumerate(lines) if name in [named for named, _ in each])
        top = plot.box.top - (len(lines) - line) * LINE * SMALL
        border = [(x - 2, top), (x - 2, floor)]
        page.sheet.line(border, SOFT, 0.5, "2 2")
        keep_clear(page.sheet, border, 0.5)
    at = max(drawn, key=lambda i: points[i].bytes)
    if near:
        draw_limit(page, plot, limit, right=2 * at < len(points))
    x, y = plot.x(at + 0.5), plot.y(points[at].bytes)
    draw_diamond(page.sheet, x, y, 2.8, INK)
    placed(page.sheet, [Point(x, y - 3, f"peak {bytes_text(points[at].bytes)}", bold=True)], plot.box, above=True)
    page.note(peak["text"])


def draw_area(page: Page, level: Sequence[tuple[float, float]], floor: float) -> None:
    """Draws what lies under a line, light enough to be written on."""
    page.sheet.path(f"{path_of([(level[0][0], floor), *level, (level[-1][0], floor)])}Z", "", fill=LIGHT)
    page.sheet.line(level, NEUTRAL, 0.75)


def path_of(points: Sequence[tuple[float, float]]) -> str:
    return "M" + "L".join(f"{number(x)} {number(y)}" for x, y in points)


def draw_diamond(sheet: Sheet, x: float, y: float, reach: float, fill: str) -> None:
    """Draws a diamond around a point."""
    r = number(reach)
    sheet.path(f"M{number(x)} {number(y - reach)}l{r} {r}l-{r} {r}l-{r} -{r}Z", INK, 0.6, fill=fill)


def draw_limit(page: Page, plot: Plot, limit: float, right: bool) -> None:
    """Draws what a device has room for, and says it at one side."""
    y = plot.y(limit)
    page.sheet.line([(plot.box.left, y), (plot.box.right, y)], INK, 0.75, "4 2")
    x = plot.box.right if right else plot.box.left + 3
    page.sheet.text(x, y - 2.5, f"device memory {bytes_text(limit)}", SMALL, "end" if right else "start", fill=INK)


def draw_loss(page: Page, explorer: ExplorerState, view: dict[str, Any]) -> None:
    """Draws the losses of the runs by step, each with its dashes."""
    runs = drawn_runs(losses_of(explorer))
    if not runs:
        raise ExplorerError(NO_RUN)
    page.title("Loss by step")
    page.of_one = False
    # Runs of one training lie on each other: the first is drawn widest, and each later one narrower above it.
    looks = [(SOLID[n % len(SOLID)], 2.4 - 0.4 * n, _DASHES[n]) for n in range(len(runs))]
    names = [f"run {run.number}: {run.layout or 'no layout'}" for run in runs]
    page.legend([(dashed(*look), name) for look, name in zip(looks, names, strict=True)])
    curves = [
        [(1 + i, run.losses[i]) for i in drawn_steps(len(run.losses)) if math.isfinite(run.losses[i])] for run in runs
    ]
    across = Axis(scale_of([step for curve in curves for step, _ in curve], room=0.02), "step →", plain)
    up = Axis(scale_of([loss for curve in curves for _, loss in curve], wide=True), "loss ↑", plain)
    plot = draw_plot(page, tall(page), across, up)
    for curve, look in zip(curves, looks, strict=True):
        page.sheet.line([(plot.x(step), plot.y(loss)) for step, loss in curve], *look)
