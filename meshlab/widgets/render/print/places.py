"""Names beside points: each where nothing else is, with a line to its point where that is not next to it.

placed(sheet, [Point(40, 30, "start"), Point(41, 31, "Auto (time)")], within)     those without room
named_spans(sheet, [("forward", 0, 60), ("backward", 60, 150)], 12, 240)            in as few lines as fit
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable
from typing import NamedTuple

from ..palette import INK, SOFT
from .axes import keep_clear
from .letters import LINE, SMALL, UP, width_of
from .sheet import Box, Sheet, box_of

# How far from its point a name may be, in points.
_FAR = (0.0, 6.0, 12.0, 20.0, 30.0, 42.0, 56.0, 72.0)
_TURNS, _ABOVE = (0, 180, 315, 225, 45, 135, 270, 90), (270, 225, 315)
# The name of a stretch, and where it begins.
Span = tuple[str, float]


@dataclasses.dataclass(frozen=True)
class Point:
    """A point with a name, and how far its mark reaches."""

    x: float
    y: float
    name: str
    reach: float = 3.0
    bold: bool = False


def placed(sheet: Sheet, points: Iterable[Point], within: Box, size: float = SMALL, above: bool = False) -> list[Point]:
    """Writes the names of points, the first ones nearest, and returns those that found no room.

    Args:
        sheet: where.
        points: which.
        within: where names may be.
        size: of the names.
        above: whether they are to be above their points.
    """
    left, turns = [], _ABOVE if above else _TURNS
    for point in points:
        tries = (_try(point, turn, far, size) for far in _FAR for turn in turns)
        free = (each for each in tries if _is_in(each.box, within) and sheet.is_free(each.box))
        at = next((each for each in free if not each.far or not _strikes(sheet, _leader(point, each))), None)
        if at is None:
            left.append(point)
            continue
        if at.far:
            line = _leader(point, at)
            sheet.line(line, SOFT, 0.4)
            keep_clear(sheet, line, 0.5)
        # A font may be narrower than its room: a name ends where its line does.
        x, anchor = _anchored(point, at)
        sheet.text(x, at.y, point.name, size, anchor, bold=point.bold, fill=INK)
    return left


def lines_of_spans(spans: Iterable[tuple[str, float, float]], right: float, size: float = SMALL) -> list[list[Span]]:
    """Returns the names of stretches line by line, and where each begins: over its stretch, or as near as fits."""
    lines: list[list[Span]] = []
    for name, begin, _ in spans:
        long = width_of(name, size)
        x = max(0.0, min(begin, right - long))
        line = next((line for line in lines if line[-1][1] + width_of(line[-1][0], size) + 4 <= x), None)
        if line is None:
            lines.append(line := [])
        line.append((name, x))
    return lines


def named_spans(sheet: Sheet, lines: Iterable[Iterable[Span]], top: float, size: float = SMALL) -> None:
    """Writes the names of stretches from a height on."""
    for n, line in enumerate(lines):
        for name, x in line:
            sheet.text(x, top + n * LINE * size + UP * size, name, size, fill=SOFT)


class _Try(NamedTuple):
    """Where a name may stand."""

    x: float
    y: float
    box: Box
    far: float


def _try(point: Point, turn: int, far: float, size: float) -> _Try:
    """Returns where a name stands in a direction from its point."""
    dx, dy = math.cos(math.radians(turn)), math.sin(math.radians(turn))
    long, out = width_of(point.name, size, point.bold), point.reach + 1.5 + far
    middle = point.x + dx * out + (long / 2) * (dx > 0.1) - (long / 2) * (dx < -0.1)
    y = point.y + dy * (out + size / 2 * (abs(dx) < 0.1)) + (UP - 0.4) * size
    x = middle - long / 2
    return _Try(x, y, box_of(x, y, point.name, size, bold=point.bold), far)


def _leader(point: Point, at: _Try) -> list[tuple[float, float]]:
    """Returns the line from the mark of a point to its name."""
    near = min(max(point.x, at.box.left), at.box.right), min(max(point.y, at.box.top), at.box.bottom)
    share = point.reach / (math.dist(near, (point.x, point.y)) or 1.0)
    return [(point.x + (near[0] - point.x) * share, point.y + (near[1] - point.y) * share), near]


def _anchored(point: Point, at: _Try) -> tuple[float, str]:
    if at.box.right <= point.x:
        return at.box.right, "end"
    return (at.box.left, "start") if at.box.left >= point.x else ((at.box.left + at.box.right) / 2, "middle")


def _strikes(sheet: Sheet, line: list[tuple[float, float]]) -> bool:
    """Whether a line goes through what is written."""
    (x0, y0), (x1, y1) = line
    count = max(1, math.ceil(max(abs(x1 - x0), abs(y1 - y0))))
    ways = [(x0 + (x1 - x0) * n / count, y0 + (y1 - y0) * n / count) for n in range(count + 1)]
    return any(
        each.box.left < x < each.box.right and each.box.top < y < each.box.bottom
        for x, y in ways
        for each in sheet.written
    )


def _is_in(box: Box, other: Box) -> bool:
    return other.left <= box.left and box.right <= other.right and other.top <= box.top and box.bottom <= other.bottom
