"""Two axes: scales with round values beside them that never meet, and where a point is.

across, up = scale_of([0, 2.3e-3]), scale_of([1e9, 4e10], wide=True)
plot = draw_plot(page, 110, Axis(across, "step", seconds_text), Axis(up, "peak memory", in_bytes))
plot.x(1e-3), plot.y(2e10)
"""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Callable, Iterable, Sequence

from ....cost.machines.units import scaled_text
from ..palette import EDGE, SOFT
from .letters import DOWN, SMALL, UP, width_of
from .page import Page
from .sheet import Box, Sheet, box_of

# From this ratio of the largest to the smallest on, a scale may be logarithmic.
WIDE = 8
# Points that one value along an axis needs at least.
_ACROSS, _UP = 36.0, 20.0
_TICK = 2.5


@dataclasses.dataclass(frozen=True)
class Scale:
    """From the lowest value to the highest; of a logarithmic one these are exponents of ten."""

    low: float
    high: float
    is_log: bool = False

    def at(self, value: float) -> float:
        """Returns where a value is, from 0 to 1."""
        bent = math.log10(value) if self.is_log else value
        return (bent - self.low) / (self.high - self.low)

    def ticks(self, most: int) -> list[float]:
        """Returns at most so many round values."""
        return _powers(self.low, self.high, most) if self.is_log else steps(self.low, self.high, most)


@dataclasses.dataclass(frozen=True)
class Axis:
    """A scale, what it measures, and how its values are written."""

    scale: Scale
    title: str
    text: Callable[[float], str]


@dataclasses.dataclass(frozen=True)
class Plot:
    """The area between two axes."""

    box: Box
    across: Scale
    up: Scale

    def x(self, value: float) -> float:
        return self.box.left + self.across.at(value) * (self.box.right - self.box.left)

    def y(self, value: float) -> float:
        return self.box.bottom - self.up.at(value) * (self.box.bottom - self.box.top)


def in_bytes(value: float) -> str:
    """Writes a round number of bytes: "40 GB"."""
    return scaled_text(value, "B")


def plain(value: float) -> str:
    """Writes a number to three digits: "0.05", "10,000", "2 M"."""
    if value == 0 or 1e-3 <= abs(value) < 1e5:
        return f"{float(f'{value:.3g}'):,.10g}"
    if abs(value) >= 1e5:
        return scaled_text(value, "")
    digits, power = f"{value:.2g}".split("e")
    return f"{digits}e−{int(power[1:])}"


def scale_of(values: Iterable[float], wide: bool = False, from_zero: bool = False, room: float = 0.06) -> Scale:
    """Returns a scale with room at both ends.

    Args:
        values: what is to be on it.
        wide: whether it may be logarithmic.
        from_zero: whether it begins at 0.
        room: at each end, as a share of it.
    """
    least, most = min(values := list(values)), max(values)
    if wide and least > 0 and most > WIDE * least:
        low, high = math.log10(least), math.log10(most)
        return Scale(low - room * (high - low), high + room * (high - low), True)
    least = min(0.0, least) if from_zero else least
    by = room * (most - least) or 0.5 * abs(most) or 1.0
    return Scale(least if from_zero else (max(0.0, least - by) if least >= 0 else least - by), most + by)


def steps(low: float, high: float, most: int) -> list[float]:
    """Returns at most so many round values from low to high: 1, 2 or 5 of a power of ten apart."""
    unit = 10.0 ** math.floor(math.log10((high - low) / max(1, most)))
    for step in (unit * each for each in (1, 2, 5, 10, 20, 50)):
        first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
        if last - first < max(1, most):
            return [number * step for number in range(first, last + 1)]
    return []


def _powers(low: float, high: float, most: int) -> list[float]:
    """Returns powers of ten between two exponents, with 2 and 5 times each, or with 3 times, where these fit."""
    for factors in ((1, 2, 5), (1, 3), (1,)):
        logs = [n + math.log10(f) for n in range(math.floor(low), math.ceil(high) + 1) for f in factors]
        inside = [each for each in logs if low <= each <= high]
        if len(inside) <= most:
            return [10.0**each for each in inside]
    return [10.0**n for n in steps(math.ceil(low), math.floor(high), most) if n == int(n)]


def draw_plot(page: Page, height: float, across: Axis, up: Axis, head: float = 0.0) -> Plot:
    """Draws two axes with their values; what they measure stands above the one and below the other.

    Args:
        page: where.
        height: of it all, in points.
        across: the axis to the right.
        up: the axis upwards.
        head: points that are left free between the name of the axis upwards and the area.
    """
    sheet, frame = page.sheet, page.room(height + head)
    top, bottom = frame.top + 1.5 * SMALL + head, frame.bottom - 2.7 * SMALL
    tall = up.scale.ticks(max(2, int((bottom - top) / _UP)))
    left = max(width_of(up.text(value), SMALL) for value in tall) + _TICK + 2 if tall else 4.0
    # The last value across may reach beyond the end of its axis.
    plot = Plot(Box(left, top, frame.right - 8, bottom), across.scale, up.scale)
    for value in tall:
        y = plot.y(value)
        sheet.line([(left, y), (plot.box.right, y)], EDGE, 0.5)
        sheet.text(left - _TICK, y + 0.36 * SMALL, up.text(value), SMALL, "end", fill=SOFT)
    wide = across.scale.ticks(max(2, int((plot.box.right - left) / _ACROSS)))
    for value, text in _clear(plot, across, wide):
        x = plot.x(value)
        sheet.line([(x, bottom), (x, bottom + _TICK)], SOFT, 0.5)
        sheet.text(x, bottom + _TICK + 1 + UP * SMALL, text, SMALL, "middle", fill=SOFT)
    sheet.line([(left, top), (left, bottom), (plot.box.right, bottom)], SOFT, 0.75)
    sheet.text(0.0, frame.top + UP * SMALL, up.title, SMALL, fill=SOFT)
    sheet.text(plot.box.right, frame.bottom - DOWN * SMALL, across.title, SMALL, "end", fill=SOFT)
    return plot


def _clear(plot: Plot, axis: Axis, values: Sequence[float]) -> list[tuple[float, str]]:
    """Returns as many of the values across as can be written without meeting: every one, every second, and so on."""
    for every in range(1, len(values) + 1):
        some = [(value, axis.text(value)) for value in values[::every]]
        boxes = [box_of(plot.x(value), 0, text, SMALL, "middle") for value, text in some]
        if all(one.right + 3 <= other.left for one, other in itertools.pairwise(boxes)):
            return some
    return []


def keep_clear(sheet: Sheet, points: Sequence[tuple[float, float]], by: float = 1.5) -> None:
    """Keeps a line from being written on."""
    for (x0, y0), (x1, y1) in itertools.pairwise(points):
        count = max(1, math.ceil(max(abs(x1 - x0), abs(y1 - y0)) / 4))
        for n in range(count + 1):
            x, y = x0 + (x1 - x0) * n / count, y0 + (y1 - y0) * n / count
            sheet.take(Box(x - by, y - by, x + by, y + by))
