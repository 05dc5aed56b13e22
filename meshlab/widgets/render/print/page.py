"""A figure while it is drawn, from the top down: its title, what it shows, and the words below.

    page = Page(Sheet(85), words=True)
    page.title("Bytes that each device sends per step")
    frame = page.room(90)                           a box of the whole width, 90 points high
    page.note("Figures that are recalled, not verified: …")

The notes go into the caption, which a paper may set itself: without `words` it is not drawn. The title always is.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ..palette import INK, SOFT
from .letters import DOWN, LINE, SMALL, TEXT, TITLE, UP, shortened, width_of, wrapped
from .sheet import Box, Fill, Sheet

# Draws a mark in a legend: where it begins, and the middle of the line.
Swatch = Callable[[Sheet, float, float], None]
# Points between one part and the next; a swatch of a legend, and the gap behind an entry.
GAP, SWATCH, APART = 4.0, 10.0, 9.0


def filled(fill: Fill) -> Swatch:
    """Returns the mark of a fill."""
    return lambda sheet, x, y: sheet.rect(x, y - 2.5, SWATCH, 5.0, fill)


def dashed(stroke: str, width: float, dash: str = "") -> Swatch:
    """Returns the mark of a line."""
    return lambda sheet, x, y: sheet.line([(x, y), (x + SWATCH, y)], stroke, width, dash)


class Page:
    """One figure, or several below one another.

    Attributes:
        sheet: what is drawn on.
        words: whether the caption is drawn.
        most: how far down it may be drawn, in points; of rows and parts those that fit are drawn.
        y: how far down it is drawn, in points.
        last: where the last row or part ends of those that may be left out; None where there is none.
        titles: the titles.
        notes: what has to be said of the numbers.
        of_one: whether what is shown is of the layout on the board alone.
    """

    def __init__(self, sheet: Sheet, words: bool, most: float):
        self.sheet, self.words, self.most = sheet, words, most
        self.y = 1.0
        self.last: float | None = None
        self.titles: list[str] = []
        self.notes: list[str] = []
        self.of_one = True

    @property
    def width(self) -> float:
        """In points."""
        return self.sheet.width

    def title(self, text: str) -> None:
        """Says what is shown below."""
        self.titles.append(text)
        self.write(text, TITLE, bold=True)
        self.y += GAP / 2

    def fits(self, draw: Callable[[], object]) -> bool:
        """Draws a row or a part where there is room for it; where there is none, nothing."""
        y, titles, notes, mark = self.y, len(self.titles), len(self.notes), self.sheet.mark()
        draw()
        if self.y <= self.most:
            self.last = self.y
            return True
        self.y = y
        del self.titles[titles:], self.notes[notes:]
        self.sheet.undo(mark)
        return False

    def note(self, text: str) -> None:
        """Says what belongs into the caption."""
        if text and text not in self.notes:
            self.notes.append(text)

    def write(self, text: str, size: float = TEXT, fill: str = INK, bold: bool = False, indent: float = 0.0) -> None:
        """Writes a paragraph of the whole width."""
        for line in wrapped(text, self.width - indent, size, bold):
            self.line([(indent, line)], size, fill, bold)

    def line(self, texts: Sequence[tuple[float, str]], size: float = TEXT, fill: str = INK, bold: bool = False) -> None:
        """Writes one line of several texts, each from where it begins."""
        for x, text in texts:
            self.sheet.text(x, self.y + UP * size, text, size, fill=fill, bold=bold)
        self.y += LINE * size

    def room(self, height: float) -> Box:
        """Takes a box of the whole width."""
        box = Box(0.0, self.y, self.width, self.y + height)
        self.y = box.bottom + GAP
        return box

    def legend(self, entries: Sequence[tuple[Swatch | None, str]], size: float = SMALL) -> None:
        """Says what marks stand for, in as many lines as it takes; what has no mark is a text alone."""
        x, high = 0.0, LINE * size
        for swatch, name in entries:
            indent = SWATCH + 3 if swatch else 0.0
            text = shortened(name, self.width - indent, size)
            long = indent + width_of(text, size)
            if x and x + long > self.width:
                x, self.y = 0.0, self.y + high
            if swatch:
                swatch(self.sheet, x, self.y + 0.5 * size)
            self.sheet.text(x + indent, self.y + UP * size, text, size, fill=SOFT)
            x += long + APART
        self.y += (high + GAP / 2) * bool(entries)

    def close(self, caption: str) -> float:
        """Writes the caption, and returns the height of the figure."""
        if self.words:
            self.write(caption, SMALL, SOFT)
        return self.y + DOWN * SMALL
