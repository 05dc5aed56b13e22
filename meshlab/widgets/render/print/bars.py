"""Bars beside their names, each with its amount in words behind it.

    draw_bars(page, [Bar("data", ((114e3, Fill(SOLID[0])),), "114 kB")])

All begin at one line, at 0; of a waterfall each begins where the one before it ends. A limit is a dashed line.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from ..palette import INK, SOFT
from .letters import LINE, SMALL, TEXT, UP, width_of, wrapped
from .page import Page
from .sheet import Fill

# Shares of the width: what names may take; points: the height of a bar, and from one to the next at least.
_NAMES, _BAR, _STEP = 0.42, 7.0, 12.0


@dataclasses.dataclass(frozen=True)
class Bar:
    """One bar.

    Attributes:
        name: what it is of.
        parts: amounts from its beginning on, each with its fill.
        text: its amount, in words.
        begin: where it begins.
        ends: an interval that its end may lie in; None where none is known.
        bold: whether its words are bold.
    """

    name: str
    parts: tuple[tuple[float, Fill], ...]
    text: str
    begin: float = 0.0
    ends: tuple[float, float] | None = None
    bold: bool = False

    @property
    def reach(self) -> float:
        """The furthest that it reaches."""
        end = self.begin + sum(amount for amount, _ in self.parts)
        return max(self.begin, end, *(self.ends or ()))


def draw_bars(page: Page, bars: Sequence[Bar], limit: tuple[float, str] | None = None) -> None:
    """Draws bars below one another.

    Args:
        page: where.
        bars: from the top down.
        limit: an amount that none should reach, and its words.
    """
    if not bars:
        return
    sheet = page.sheet
    names = [_lines(bar, _NAMES * page.width) for bar in bars]
    left = max(width_of(line, TEXT, bar.bold) for bar, lines in zip(bars, names, strict=True) for line in lines) + 4
    right = page.width - max(width_of(bar.text, TEXT, bar.bold) for bar in bars) - 4
    reaches = [*(bar.reach for bar in bars), limit[0] if limit else 0.0]
    most = max(reaches) or 1.0

    def x(amount: float) -> float:
        return left + (right - left) * amount / most

    if limit:
        _say_limit(page, x(limit[0]), limit[1])
    top = page.y
    for bar, lines in zip(bars, names, strict=True):
        high = max(_STEP, LINE * TEXT * len(lines) + 2)
        middle = page.y + high / 2
        for n, line in enumerate(lines):
            base = middle + (n - len(lines) / 2) * LINE * TEXT + UP * TEXT + (LINE - 1) / 2 * TEXT
            sheet.text(left - 4, base, line, TEXT, "end", bold=bar.bold)
        at = bar.begin
        for amount, fill in bar.parts:
            begin, end = sorted((x(at), x(at + amount)))
            sheet.rect(begin, middle - _BAR / 2, max(end - begin, 0.6), _BAR, fill)
            at += amount
        if bar.ends:
            low, high_end = map(x, bar.ends)
            sheet.line([(low, middle), (high_end, middle)], INK, 0.75)
            for end in (low, high_end):
                sheet.line([(end, middle - 2), (end, middle + 2)], INK, 0.75)
        sheet.text(x(bar.reach) + 3, middle + 0.36 * TEXT, bar.text, TEXT, fill=INK, bold=bar.bold)
        page.y += high
    sheet.line([(left, top), (left, page.y)], SOFT, 0.5)
    if limit:
        sheet.line([(x(limit[0]), top - 1), (x(limit[0]), page.y)], SOFT, 0.75, "3 2")
    page.y += 3


def _lines(bar: Bar, width: float) -> list[str]:
    """Returns the lines of a name; a path or a sum is broken behind its signs as well."""
    spaced = bar.name if width_of(bar.name, TEXT, bar.bold) <= width else bar.name.replace("/", "/ ").replace("+", "+ ")
    return [line.replace("/ ", "/") for line in wrapped(spaced, width, TEXT, bar.bold)] or [""]


def _say_limit(page: Page, x: float, words: str) -> None:
    """Says a limit above its line: to the right of it, to the left, or wherever there is room."""
    base, long = page.y + UP * SMALL, width_of(words, SMALL)
    begin = x if x + long <= page.width else max(0.0, min(x, page.width) - long)
    page.sheet.text(begin, base, words, SMALL, fill=SOFT)
    page.y += LINE * SMALL
