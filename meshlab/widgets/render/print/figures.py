"""The figures for print, by name.

    print_figure("devices", explorer, explorer.view(), 85).save("devices.svg")

They draw what the board draws, from the same data. A figure is one entry of `FIGURES`: its name, and what draws it on a
page; the board is several of them, one below the other.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from ....engine.argument_checks import flag
from ....engine.errors import closest, listed, shown
from ...documents.document import ExplorerError
from ...state.explorer_state import ExplorerState
from ...tables.tables import about
from .comparison import draw_comparison
from .costs import draw_communication, draw_lines, draw_memory, draw_time, draw_waterfall
from .curves import draw_loss, draw_moments
from .devices import draw_devices
from .figure import PrintFigure
from .letters import without_middle
from .numbers import draw_numbers
from .page import GAP, Page
from .program import draw_program
from .roofline import draw_roofline
from .sheet import Sheet
from .timeline import draw_timeline
from .zones import draw_layout

Drawer = Callable[[Page, ExplorerState, dict[str, Any]], None]
# What a page can be read at, in millimetres.
LEAST, MOST = 60, 1000
# A layout without a name has at most so many letters in a caption: three lines of a column.
_LETTERS = 160


def draw_board(page: Page, explorer: ExplorerState, view: dict[str, Any]) -> None:
    """Draws the whole board: the layout, and what it costs."""
    timed = view["time"] and "missing" not in view["time"]
    parts = [draw_layout, *([draw_timeline, draw_time] if timed else []), draw_communication, draw_memory, draw_devices]
    for draw in parts:
        draw(page, explorer, view)
        page.y += 2 * GAP


FIGURES: Mapping[str, Drawer] = {
    "board": draw_board,
    "layout": draw_layout,
    "devices": draw_devices,
    "numbers": draw_numbers,
    "program": draw_program,
    "communication": draw_communication,
    "lines": draw_lines,
    "memory": draw_memory,
    "moments": draw_moments,
    "time": draw_time,
    "timeline": draw_timeline,
    "roofline": draw_roofline,
    "comparison": draw_comparison,
    "waterfall": draw_waterfall,
    "loss": draw_loss,
}


def print_figure(
    name: str, explorer: ExplorerState, view: dict[str, Any], width_mm: float, words: bool = True
) -> PrintFigure:
    """Draws one figure.

    Args:
        name: its name in `FIGURES`.
        explorer: the Explorer.
        view: the board's data, from `board_view`.
        width_mm: its width, in millimetres.
        words: whether its caption is drawn.

    Raises:
        ExplorerError: no figure has that name, the width is no width, or there is nothing to draw yet.
    """
    if name not in FIGURES:
        raise ExplorerError(f"There is no figure {shown(name)}; there are {listed(FIGURES)}.{closest(name, FIGURES)}")
    if isinstance(width_mm, bool) or not isinstance(width_mm, int | float) or not LEAST <= width_mm <= MOST:
        raise ExplorerError(
            f"figure() was given width_mm={shown(width_mm)}; it must be a number from {LEAST} to {MOST}. A column of a"
            " paper is mostly 85 wide, two are 175."
        )
    sheet = Sheet(width_mm)
    page = Page(sheet, flag("figure()", "caption", words, ExplorerError))
    FIGURES[name](page, explorer, view)
    facts = about(view)
    caption = _caption(page, facts, _layout(view))
    described, title = _caption(page, facts, facts["layout"]), "; ".join(page.titles)
    height = page.close(caption)
    return PrintFigure(name, title, caption, described, sheet.width, height, sheet.body, tuple(sheet.written))


def _caption(page: Page, facts: Mapping[str, str], layout: str) -> str:
    """Says what there is to say of a figure: of which mesh, machine and layout it is, and by which version."""
    mesh = " on ".join(filter(None, (facts["mesh"], facts["machine"])))
    of = [f"Layout: {layout}."] * page.of_one
    return " ".join([*page.notes, f"Mesh: {mesh}.", *of, f"meshlab {facts['meshlab']}."])


def _layout(view: dict[str, Any]) -> str:
    """Returns the layout by its name alone; one without a name in full, but for the middle of a long one."""
    named = view["named"]
    return named["text"] if named else without_middle(view["layout"]["text"] or "no layout", _LETTERS)
