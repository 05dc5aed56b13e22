"""The layouts that were tried, by time and peak memory, among those that Auto's search met, with the Pareto front.

Each is named beside its dot, or by a line to it; below, the names with their layouts and numbers.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import Any, NamedTuple

from ....cost.machines.units import bytes_text, seconds_text, share_text
from ...state.explorer_state import ExplorerState
from ...tables.needed import met, tried
from ..palette import INK, SOFT
from .axes import Axis, Plot, draw_plot, in_bytes, keep_clear, scale_of
from .curves import NEAR, draw_diamond, draw_limit, tall
from .letters import LINE, SMALL, UP, width_of, wrapped
from .page import SWATCH, Page, dashed
from .places import Point, placed
from .roofline import draw_circle
from .sheet import Box, Sheet, number


class Compared(NamedTuple):
    """A layout with what it is compared by: across, and up; one without a name was met by a search."""

    name: str
    layout: str
    x: float
    y: float
    fits: bool
    now: bool = False
    baseline: bool = False


def draw_comparison(page: Page, explorer: ExplorerState, view: dict[str, Any]) -> None:
    """Draws each layout that was tried as a dot, those that Auto's search met as crosses, and the Pareto front."""
    is_timed = all(card["totals"]["seconds"] is not None for card in tried(view))
    layouts = compared(explorer, view, is_timed)
    page.title("Layouts: predicted time and peak memory" if is_timed else "Layouts: work and bytes of a device")
    page.of_one = False
    front = pareto(layouts)
    _legend(page, layouts)
    limit = view["comparison"]["limit"] if is_timed else None
    near = limit if limit is not None and limit <= NEAR * max(each.y for each in layouts) else None
    over, under = ("step →", "peak memory ↑") if is_timed else ("work of a device →", "sent by a device ↑")
    text = seconds_text if is_timed else share_text
    across = scale_of([each.x for each in layouts], wide=True, room=0.1)
    up = scale_of([*(each.y for each in layouts), *([near] if near else [])], wide=True, room=0.12)
    plot = draw_plot(page, 1.15 * tall(page), Axis(across, over, text), Axis(up, under, in_bytes))
    stairs = [(plot.x(a), plot.y(b)) for a, b in _stairs(front)]
    if len(stairs) > 1:
        page.sheet.line(stairs, SOFT, 1.0)
        keep_clear(page.sheet, stairs)
    if near:
        draw_limit(page, plot, near, right=True)
    points = [point for each in layouts if (point := _draw(page.sheet, plot, each, each in front))]
    inside = Box(plot.box.left + 2, plot.box.top, page.width, plot.box.bottom - 1)
    placed(page.sheet, sorted(points, key=lambda point: not point.bold), inside)
    _key(page, [each for each in layouts if each.name], text)


def compared(explorer: ExplorerState, view: dict[str, Any], is_timed: bool) -> list[Compared]:
    """Returns what is compared: layouts that Auto's search met, and above them those that were tried."""
    keys = ("seconds", "peak") if is_timed else ("work", "bytes")
    cards = [
        Compared(
            card["name"],
            card["layout"],
            card["totals"][keys[0]],
            card["totals"][keys[1]],
            card["totals"]["fits"] is not False,
            card["now"],
            card["baseline"],
        )
        for card in tried(view)
    ]
    found, limit = (met(explorer) if is_timed else None), view["comparison"]["limit"] or math.inf
    known = {each.layout for each in cards}
    others = [
        Compared("", str(each.layout), each.seconds, each.peak_bytes, each.peak_bytes <= limit)
        for each in (found.layouts if found else ())
        if str(each.layout) not in known
    ]
    return [*others, *cards]


def pareto(layouts: Sequence[Compared]) -> list[Compared]:
    """Returns those that no other is better than in both, from left to right; of equal ones one that was tried."""
    front: list[Compared] = []
    for each in sorted(layouts, key=lambda each: (each.x, each.y, not each.name)):
        if not front or each.y < front[-1].y:
            front.append(each)
    return front


def _stairs(front: Sequence[Compared]) -> list[tuple[float, float]]:
    corners = [(front[0].x, front[0].y)]
    for before, after in itertools.pairwise(front):
        corners += [(after.x, before.y), (after.x, after.y)]
    return corners


def _draw(sheet: Sheet, plot: Plot, each: Compared, best: bool) -> Point | None:
    """Draws the mark of a layout; returns where its name is to stand, if it has one."""
    x, y = plot.x(each.x), plot.y(each.y)
    reach = (2.4 if best else 1.6) if not each.name else 4.2 if each.baseline else 3.4 if each.now else 2.6
    sheet.take(Box(x - reach, y - reach, x + reach, y + reach))
    if not each.name:
        draw_cross(sheet, x, y, reach, INK if best else SOFT)
        return None
    if each.baseline:
        draw_diamond(sheet, x, y, reach, INK if each.fits else "#ffffff")
    else:
        draw_circle(sheet, x, y, reach, INK if each.fits else "#ffffff")
    return Point(x, y, each.name, reach, bold=each.now)


def draw_cross(sheet: Sheet, x: float, y: float, reach: float, stroke: str) -> None:
    """Draws a cross around a point."""
    long, left, top = number(2 * reach), number(x - reach), number(y - reach)
    sheet.path(f"M{left} {top}l{long} {long}m0 -{long}l-{long} {long}", stroke, 0.8)


def _legend(page: Page, layouts: Sequence[Compared]) -> None:
    middle = SWATCH / 2
    crosses = sum(not each.name for each in layouts)
    entries = [
        (lambda sheet, x, y: draw_diamond(sheet, x + middle, y, 3.4, INK), "compared with"),
        (lambda sheet, x, y: draw_circle(sheet, x + middle, y, 2.4, INK), "tried"),
    ]
    if crosses:
        met_by = f"{crosses:,} more that Auto's search evaluated"
        entries.append((lambda sheet, x, y: draw_cross(sheet, x + middle, y, 2, SOFT), met_by))
    if any(not each.fits for each in layouts if each.name):
        entries.append((lambda sheet, x, y: draw_circle(sheet, x + middle, y, 2.4, "#ffffff"), "does not fit"))
    page.legend([*entries, (dashed(SOFT, 1.0), "Pareto front")])


def _key(page: Page, layouts: Sequence[Compared], text: Any) -> None:
    """Lists the layouts that were tried, with their numbers."""
    numbers = [f"{text(each.x)}, {bytes_text(each.y)}{'' if each.fits else ', does not fit'}" for each in layouts]
    left = max(width_of(each.name, SMALL, bold=True) for each in layouts) + 6
    right = max(width_of(each, SMALL) for each in numbers) + 8
    for each, said in zip(layouts, numbers, strict=True):
        base = page.y + UP * SMALL
        page.sheet.text(0, base, each.name, SMALL, bold=True)
        page.sheet.text(page.width, base, said, SMALL, "end")
        for line in wrapped(each.layout or "no layout", page.width - left - right, SMALL):
            page.line([(left, line)], SMALL, SOFT)
    page.y += LINE
