"""A figure for print: SVG as wide as a column of a paper, and PDF and PNG made of it.

    figure = explorer.figure("timeline", width_mm=85)
    figure                                  shows itself in a cell
    figure.save("timeline.pdf")             .svg, .pdf or .png; the last two need meshlab[print]
    figure.title, figure.caption            what it shows, and of what: for a paper that sets its captions itself

Its texts are texts, none below 6 points; it is light, on white. PDF and PNG are vl-convert's, one wheel without any
other program.
"""

from __future__ import annotations

import dataclasses
import html
import os
import sys
from types import ModuleType

from ....engine.errors import listed, shown
from ...documents.document import ExplorerError, write
from .sheet import FONT, MARGIN, POINTS_PER_MM, Written, number

DPI = 300
KINDS = (".svg", ".pdf", ".png")


@dataclasses.dataclass(frozen=True)
class PrintFigure:
    """A figure for print.

    Attributes:
        name: which figure it is.
        title: what it shows.
        caption: notes on the figure, and the program, sizes, mesh, machine, layout and version, as text.
        described: the caption with the full layout, as in the SVG's `<desc>`.
        width: in points, with its margins.
        height: in points, with its margins.
        body: its shapes, as SVG.
        written: its texts, and where they stand.
    """

    name: str
    title: str
    caption: str
    described: str = dataclasses.field(repr=False)
    width: float
    height: float
    body: str = dataclasses.field(repr=False)
    written: tuple[Written, ...] = dataclasses.field(repr=False)

    @property
    def width_mm(self) -> float:
        """Its width in millimetres."""
        return self.width / POINTS_PER_MM

    @property
    def height_mm(self) -> float:
        """Its height in millimetres."""
        return self.height / POINTS_PER_MM

    @property
    def svg(self) -> str:
        """The figure as SVG, in millimetres."""
        return self._document(f"{number(self.width_mm)}mm", f"{number(self.height_mm)}mm")

    def pdf(self) -> bytes:
        """Returns the figure as PDF.

        Raises:
            ExplorerError: vl-convert is not installed.
        """
        return _converter().svg_to_pdf(self._document(number(self.width), number(self.height)))

    def png(self, dpi: int = DPI) -> bytes:
        """Returns the figure as PNG.

        Args:
            dpi: pixels per inch.

        Raises:
            ExplorerError: vl-convert is not installed, or dpi is no number of pixels.
        """
        if isinstance(dpi, bool) or not isinstance(dpi, int | float) or not 36 <= dpi <= 2400:
            raise ExplorerError(f"figure.png() was given dpi={shown(dpi)}; it must be a number from 36 to 2400.")
        return _converter().svg_to_png(self._document(number(self.width), number(self.height)), ppi=float(dpi))

    def save(self, path: str | os.PathLike[str], dpi: int = DPI) -> None:
        """Writes the figure as its name ends: .svg, .pdf or .png.

        Args:
            path: the file, which is replaced whole.
            dpi: pixels per inch, of a PNG.

        Raises:
            ExplorerError: the name ends otherwise, the file cannot be written, or vl-convert is not installed.
        """
        kind = next((each for each in KINDS if str(path).lower().endswith(each)), "")
        if not kind:
            raise ExplorerError(f"save() was given {shown(path)} for its file; the name must end in {listed(KINDS)}.")
        content = self.svg.encode() if kind == ".svg" else self.pdf() if kind == ".pdf" else self.png(dpi)
        write(path, content)

    def _document(self, width: str, height: str) -> str:
        box = (-MARGIN, -MARGIN, self.width, self.height)
        size = f'width="{width}" height="{height}" viewBox="{" ".join(map(number, box))}"'
        at = " ".join(
            f'{name}="{number(value)}"' for name, value in zip(("x", "y", "width", "height"), box, strict=True)
        )
        ground = f'<rect {at} fill="#ffffff"/>'
        words = (("title", self.title), ("desc", self.described))
        said = "".join(f"<{tag}>{html.escape(text, quote=False)}</{tag}>" for tag, text in words)
        font = f'font-family="{FONT}"'
        head = f'<svg xmlns="http://www.w3.org/2000/svg" {size} {font} role="img">'
        return f"{head}{said}{ground}\n{self.body}\n</svg>\n"

    def _repr_svg_(self) -> str:
        return self.svg

    def __repr__(self) -> str:
        return f"PrintFigure({self.name}, {self.width_mm:.0f} × {self.height_mm:.0f} mm)"


def _converter() -> ModuleType:
    try:
        import vl_convert  # noqa: PLC0415  it is 30 MB, and an extra
    except ModuleNotFoundError:
        raise ExplorerError(
            "PDF and PNG are made by vl-convert, the extra meshlab[print], which this Python does not have:"
            f' {sys.executable} -m pip install vl-convert-python. SVG needs nothing: figure.save("figure.svg").'
        ) from None
    return vl_convert
