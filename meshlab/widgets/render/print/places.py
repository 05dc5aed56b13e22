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
from .letters import LINE, SMALL, UP, width_of
from .sheet import Box, Sheet, box_of

# How far from its point a name may be, in points.
_FAR = (0.0, 6.0, 12.0, 20.0, 30.0, 42.0)
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
        at = next((each for each in tries if _is_in(each.box, within) and sheet.is_free(each.box)), None)
        if at is None:
            left.append(point)
            continue
        if at.far:
            near = min(max(point.x, at.box.left), at.box.right), min(max(point.y, at.box.top + 1), at.box.bottom - 1)
            share = point.reach / (math.dist(near, (point.x, point.y)) or 1.0)
            start = point.x + (near[0] - point.x) * share, point.y + (near[1] - point.y) * share
            sheet.line([start, near], SOFT, 0.4)
        sheet.text(at.x, at.y, point.name, size, bold=point.bold, fill=INK)
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


def _is_in(box: Box, other: Box) -> bool:
    return other.left <= box.left and box.right <= other.right and other.top <= box.top and box.bottom <= other.bottom
