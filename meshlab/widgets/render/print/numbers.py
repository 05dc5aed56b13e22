"""The numbers that the devices hold of a tensor after a run, as a heat map in its slices, with the colours' scale.

The colours are those of the board (js/src/heat_scale.ts): ColorBrewer's PuOr, in which lightness tells how far a number
is from 0, and the hue its sign. What is no finite number is crossed out.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ...documents.document import ExplorerError
from ...state.explorer_state import ExplorerState
from ...tables.needed import NO_NUMBERS
from ...views.devices.heat import heat_view
from ..identity import channels
from ..palette import INK, SOFT
from .axes import plain
from .devices import draw_slice, draw_tensor
from .letters import LINE, SMALL, UP, width_of
from .page import Page
from .sheet import Box, Fill, Sheet

ABOVE = ("#f7f7f7", "#fee0b6", "#fdb863", "#e08214", "#b35806", "#7f3b08")
BELOW = ("#f7f7f7", "#d8daeb", "#b2abd2", "#8073ac", "#542788", "#2d004b")
# The frame of a slice around its cells, the height of the drawing, the width of the scale, and its bars.
_FRAME, _TALL, _SCALE, _BARS = 2.5, 150.0, 90.0, 31


def draw_numbers(page: Page, explorer: ExplorerState, view: dict[str, Any]) -> None:
    """Draws the numbers of the selected tensor after the latest run."""
    shards = view["shards"]
    ended = [run for run in explorer.runs if not run.active and run.taken]
    if not shards or not ended:
        raise ExplorerError(NO_NUMBERS)
    heat: Any = heat_view(explorer, shards["place"], ended[-1].number)
    if heat["cells"] is None:
        raise ExplorerError(heat["why"] or f"Run {ended[-1].number} has no numbers of `{shards['place']}`.")
    cells = heat["cells"]
    page.title(f"Numbers of {shards['place']} [{' '.join(shards['dims'])}] {heat['when']}")
    odd = {(block, cell) for block, cell, _, _ in cells["odd"]}

    def block(number: int, box: Box) -> None:
        draw_slice(page.sheet, shards, shards["blocks"]["slices"][number], box, 0)
        by = min(_FRAME, 0.14 * (box.right - box.left), 0.14 * (box.bottom - box.top))
        inside = Box(box.left + by, box.top + by, box.right - by, box.bottom - by)
        marked = {cell for of, cell in odd if of == number}
        _draw_cells(page.sheet, cells, cells["blocks"][number], inside, marked)

    draw_tensor(page, shards, most=_TALL, block=block)
    _draw_scale(page, cells)
    if odd:
        page.note(f"Crossed out: {cells['nan']:,} NaN, {cells['infinite']:,} infinite.")
    page.note(heat["sampled"])
    page.note(heat["read"].removeprefix("✓ ").removeprefix("✕ "))


def heat_colour(value: float, high: float | None, diverging: bool) -> str:
    """Returns the colour of a number: as #rrggbb, 0 being the lightest."""
    stops = BELOW if diverging and value < 0 else ABOVE
    share = min(max(abs(value) if diverging else value, 0.0) / high, 1.0) if high else 0.0
    at = share * (len(stops) - 1)
    first = min(int(at), len(stops) - 2)
    pairs = zip(channels(stops[first]), channels(stops[first + 1]), strict=True)
    return "#" + "".join(f"{int(low + (next_ - low) * (at - first) + 0.5):02x}" for low, next_ in pairs)


def _draw_cells(sheet: Sheet, cells: Any, block: Any, box: Box, odd: set[int]) -> None:
    xs, ys = _places(block["across"], box.left, box.right), _places(block["down"], box.top, box.bottom)
    wide = len(xs) - 1
    for n, value in enumerate(block["values"]):
        (x, right), (y, bottom) = xs[n % wide : n % wide + 2], ys[n // wide : n // wide + 2]
        colour = "#ffffff" if value is None else heat_colour(value, cells["high"], cells["diverging"])
        sheet.rect(x, y, right - x, bottom - y, Fill(colour))
        if n in odd:
            sheet.line([(x, y), (right, bottom)], INK, 0.5)
            sheet.line([(x, bottom), (right, y)], INK, 0.5)


def _places(edges: Sequence[int], begin: float, end: float) -> list[float]:
    first, last = edges[0], edges[-1]
    return [begin + (end - begin) * (edge - first) / max(1, last - first) for edge in edges]


def _draw_scale(page: Page, cells: Any) -> None:
    """Says what the colours are, from the lowest number to the highest."""
    high = cells["high"] or 0.0
    low = -high if cells["diverging"] else 0.0
    words, begin = plain(low), width_of(plain(low), SMALL) + 3
    base = page.y + UP * SMALL
    page.sheet.text(0, base, words, SMALL, fill=SOFT)
    for n in range(_BARS):
        value, wide = low + (high - low) * n / (_BARS - 1), _SCALE / _BARS
        colour = heat_colour(value, high, cells["diverging"])
        page.sheet.rect(begin + n * wide, page.y, wide + 0.1, UP * SMALL, Fill(colour))
    page.sheet.text(begin + _SCALE + 3, base, plain(high), SMALL, fill=SOFT)
    page.y += LINE * SMALL
    least, most = cells["each"]
    count = f"{most:,}" if least == most else f"{least:,} to {most:,}"
    each = "one number" if cells["statistic"] == "value" else f"the {cells['statistic']} of {count}"
    what = f"Each cell is {each}"
    if cells["least"] is not None:
        what += f"; they go from {plain(cells['least'])} to {plain(cells['most'])}"
    page.note(f"{what}.")
