"""The sheet that a figure is drawn on, in points: shapes as SVG, and where its texts are.

    sheet = Sheet(width_mm=85)
    sheet.rect(0, 0, 40, 10, Fill(SOLID[1], 1))     hatched, so that it is told apart without colour
    box = sheet.text(2, 8, "12.5 kB")
    sheet.is_free(box)                              False

Whoever places a text asks first whether its room is free (`is_free`); a text is never cut.
"""

from __future__ import annotations

import contextlib
import dataclasses
import html
from collections.abc import Iterator, Sequence

from ..palette import INK
from .letters import DOWN, TEXT, UP, width_of

POINTS_PER_MM = 72 / 25.4
# Points around what is drawn, which the sheet does not count.
MARGIN = 3.0
FONT = "Helvetica, Arial, 'Liberation Sans', sans-serif"
CODE_FONT = "'DejaVu Sans Mono', 'Liberation Mono', Menlo, Consolas, monospace"
# White lines across a colour, by the number of a pattern: how they are turned, in degrees, and how far apart they are.
# The first are those of marks (`palette.PATTERN`), from `SLICES` on those of a tensor's slices, as on the board.
SLICES = 10
_HATCHES: dict[int, tuple[tuple[int, ...], float]] = {
    **dict(enumerate((((), 4), ((-45,), 3), ((0,), 3), ((45,), 3), ((90,), 3), ((0, 90), 4), ((60,), 3)))),
    **{SLICES + n: ((turn,), 2.5 if n == 7 else 4) for n, turn in enumerate((0, 45, -45, 0, 90, 30, -30, 60)) if n},
}


@dataclasses.dataclass(frozen=True)
class Box:
    """A rectangle on the sheet, in points."""

    left: float
    top: float
    right: float
    bottom: float

    def meets(self, other: Box) -> bool:
        """Whether they overlap, by more than touching."""
        across = self.left < other.right - 0.01 and other.left < self.right - 0.01
        return across and self.top < other.bottom - 0.01 and other.top < self.bottom - 0.01


@dataclasses.dataclass(frozen=True)
class Fill:
    """A colour, and the number of the pattern of white lines across it: 0 is none."""

    colour: str
    pattern: int = 0


@dataclasses.dataclass(frozen=True)
class Written:
    """A text that stands on the sheet."""

    text: str
    size: float
    box: Box


def number(value: float) -> str:
    """Writes a coordinate, to a hundredth of a point."""
    return f"{value:.2f}".rstrip("0").rstrip(".")


class Sheet:
    """What is drawn.

    Attributes:
        width: in points.
        written: the texts, in order.
    """

    def __init__(self, width_mm: float):
        self.width = width_mm * POINTS_PER_MM - 2 * MARGIN
        self.written: list[Written] = []
        self.taken: list[Box] = []
        self._shapes: list[str] = []
        self._patterns: dict[str, str] = {}

    @property
    def body(self) -> str:
        """All shapes, and before them the patterns that they are filled with."""
        defined = f"<defs>{''.join(self._patterns.values())}</defs>" if self._patterns else ""
        return defined + "\n".join(self._shapes)

    def text(
        self,
        x: float,
        y: float,
        text: str,
        size: float = TEXT,
        anchor: str = "start",
        *,
        fill: str = INK,
        bold: bool = False,
        code: bool = False,
        turned: bool = False,
    ) -> Box:
        """Writes a line.

        Args:
            x: of its start, middle or end, as `anchor` says.
            y: of its base line.
            text: the line.
            size: in points.
            anchor: "start", "middle" or "end".
            fill: its colour.
            bold: whether it is bold.
            code: whether its letters all have one width.
            turned: whether it runs down.

        Returns:
            Where it stands.
        """
        box = box_of(x, y, text, size, anchor, bold=bold, code=code, turned=turned)
        self.written.append(Written(text, size, box))
        self.taken.append(box)
        style = f'font-size="{number(size)}" fill="{fill}"'
        style += ' font-weight="bold"' * bold + f' text-anchor="{anchor}"' * (anchor != "start")
        style += f' font-family="{CODE_FONT}"' * code
        at = f'x="{number(x)}" y="{number(y)}"'
        turn = f' transform="rotate(90 {number(x)} {number(y)})"' * turned
        self._shapes.append(f"<text {at} {style}{turn}>{html.escape(text, quote=False)}</text>")
        return box

    def rect(
        self, x: float, y: float, w: float, h: float, fill: Fill, *, stroke: str = "", round_by: float = 0.0
    ) -> None:
        """Draws a rectangle from its upper left corner."""
        box = f'x="{number(x)}" y="{number(y)}" width="{number(max(w, 0))}" height="{number(max(h, 0))}"'
        edge = (f' rx="{number(round_by)}"' if round_by else "") + (f' stroke="{stroke}"' if stroke else "")
        self._shapes.append(f'<rect {box} fill="{self.filled(fill)}"{edge} stroke-width="0.5"/>')

    def path(self, d: str, stroke: str = INK, width: float = 0.75, dash: str = "", fill: str = "none") -> None:
        """Draws a path, in the words of SVG."""
        dashes = f' stroke-dasharray="{dash}"' if dash else ""
        line = f'stroke="{stroke}" stroke-width="{number(width)}"' if stroke else 'stroke="none"'
        self._shapes.append(f'<path d="{d}" fill="{fill}" {line}{dashes}/>')

    @contextlib.contextmanager
    def moved(self, x: float, y: float, scale: float) -> Iterator[None]:
        """Moves and enlarges the shapes that are drawn within."""
        self._shapes.append(f'<g transform="translate({number(x)} {number(y)}) scale({scale:.4f})">')
        yield
        self._shapes.append("</g>")

    def line(
        self, points: Sequence[tuple[float, float]], stroke: str = INK, width: float = 0.75, dash: str = ""
    ) -> None:
        """Joins points."""
        self.path(f"M{'L'.join(f'{number(x)} {number(y)}' for x, y in points)}", stroke, width, dash)

    def filled(self, fill: Fill) -> str:
        """Returns a fill in the words of SVG; its pattern is defined when it is first used."""
        if not fill.pattern:
            return fill.colour
        name = f"mlb-print-{fill.colour.removeprefix('#')}-{fill.pattern}"
        if name not in self._patterns:
            turns, step = _HATCHES[fill.pattern]
            ground = f'<rect width="{step}" height="{step}" fill="{fill.colour}"/>'
            lines = "".join(
                f"M0 {step / 2}H{step}" if turn != 90 or len(turns) == 1 else f"M{step / 2} 0V{step}" for turn in turns
            )
            drawn = f'<path d="{lines}" stroke="#fff" stroke-width="0.8"/>'
            box = f'width="{step}" height="{step}" patternUnits="userSpaceOnUse" patternTransform="rotate({turns[0]})"'
            self._patterns[name] = f'<pattern id="{name}" {box}>{ground}{drawn}</pattern>'
        return f"url(#{name})"

    def mark(self) -> tuple[int, int, int]:
        """Returns how much is drawn."""
        return len(self._shapes), len(self.written), len(self.taken)

    def undo(self, mark: tuple[int, int, int]) -> None:
        """Takes away what was drawn since."""
        for drawn, count in zip((self._shapes, self.written, self.taken), mark, strict=True):
            del drawn[count:]

    def take(self, box: Box) -> None:
        """Keeps a place from being written on."""
        self.taken.append(box)

    def is_free(self, box: Box) -> bool:
        """Whether nothing is written there, and it is on the sheet."""
        return box.left >= 0 and box.right <= self.width and not any(box.meets(other) for other in self.taken)


def box_of(
    x: float,
    y: float,
    text: str,
    size: float = TEXT,
    anchor: str = "start",
    *,
    bold: bool = False,
    code: bool = False,
    turned: bool = False,
) -> Box:
    """Returns where a line stands at most."""
    long = width_of(text, size, bold, code)
    begin = {"start": 0.0, "middle": -long / 2, "end": -long}[anchor]
    if turned:
        return Box(x - DOWN * size, y + begin, x + UP * size, y + begin + long)
    return Box(x + begin, y - UP * size, x + begin + long, y + DOWN * size)
