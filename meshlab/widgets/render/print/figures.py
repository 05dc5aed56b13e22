"""The figures for print, by name.

    print_figure("devices", explorer, explorer.view(), 85).save("devices.svg")

They draw what the board draws, from the same data. A figure is one entry of `FIGURES`: its name, and what draws it on a
page; the board is several of them, one below the other.
"""

from __future__ import annotations

import math
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
from .sheet import MARGIN, POINTS_PER_MM, Sheet
from .timeline import draw_timeline
from .zones import draw_layout

Drawer = Callable[[Page, ExplorerState, dict[str, Any]], None]
# What a page can be read at, in millimetres, and how high it may be.
LEAST, MOST = 60, 1000
LOWEST, HIGHEST, PAGE = 20, 5000, 230
# So often a figure is drawn anew, as what is left out of it lengthens its caption.
_TRIES = 8
# A layout without a name, and the sizes of a program, have at most so many letters in a caption: three lines of a
# column, and four.
_LETTERS, _OF_SIZES = 160, 240


def draw_board(page: Page, explorer: ExplorerState, view: dict[str, Any]) -> None:
    """Draws the whole board: the layout, and what it costs; of more than a page the parts that fit."""
    timed = view["time"] and "missing" not in view["time"]
    names = ["layout", *(["timeline", "time"] if timed else []), "communication", "memory", "devices"]
    left_out = []
    for name in names:
        # An empty board is refused for its height.
        if name != "layout" and not page.fits(lambda name=name: FIGURES[name](page, explorer, view)):
            left_out.append(name)
            continue
        if name == "layout":
            draw_layout(page, explorer, view)
        page.y += 2 * GAP
    page.note(f"Left out, for its height: {listed(left_out)}.".replace("`", "") if left_out else "")


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
    name: str,
    explorer: ExplorerState,
    view: dict[str, Any],
    width_mm: float,
    *,
    words: bool = True,
    height_mm: float = PAGE,
) -> PrintFigure:
    """Draws one figure.

    Args:
        name: its name in `FIGURES`.
        explorer: the Explorer.
        view: the board's data, from `board_view`.
        width_mm: its width, in millimetres.
        words: whether its caption is drawn.
        height_mm: its height at most; of more rows or parts those that fit are drawn.

    Raises:
        ExplorerError: no figure has that name, a size is no size, what cannot be cut is higher, or there is nothing to
            draw yet.
    """
    if name not in FIGURES:
        raise ExplorerError(f"There is no figure {shown(name)}; there are {listed(FIGURES)}.{closest(name, FIGURES)}")
    _check("width_mm", width_mm, (LEAST, MOST), "A column of a paper is mostly 85 wide, two are 175.")
    _check("height_mm", height_mm, (LOWEST, HIGHEST), f"A page of a paper has about {PAGE}.")
    words, room = flag("figure()", "caption", words, ExplorerError), height_mm * POINTS_PER_MM
    page = Page(Sheet(width_mm), words, room - 2 * MARGIN)
    figure = _draw(name, explorer, view, page)
    for _ in range(_TRIES):
        if figure.height <= room:
            return figure
        if page.last is None:
            break
        page = Page(Sheet(width_mm), words, page.last - (figure.height - room))
        figure = _draw(name, explorer, view, page)
    raise ExplorerError(
        f"The figure `{name}` would be {math.ceil(figure.height_mm):,} mm high at a width of {width_mm:,} mm, and"
        f" height_mm is {height_mm:,}; give it a larger width_mm or height_mm."
    )


def _check(name: str, size: Any, ends: tuple[float, float], why: str) -> None:
    if isinstance(size, bool) or not isinstance(size, int | float) or not ends[0] <= size <= ends[1]:
        must = f"it must be a number from {ends[0]} to {ends[1]}."
        raise ExplorerError(f"figure() was given {name}={shown(size)}; {must} {why}")


def _draw(name: str, explorer: ExplorerState, view: dict[str, Any], page: Page) -> PrintFigure:
    FIGURES[name](page, explorer, view)
    facts, sheet = about(view), page.sheet
    caption = _caption(page, facts, _layout(view), _first(facts["sizes"]))
    described, title = _caption(page, facts, facts["layout"], facts["sizes"]), "; ".join(page.titles)
    width, height = sheet.width + 2 * MARGIN, page.close(caption) + 2 * MARGIN
    return PrintFigure(name, title, caption, described, width, height, sheet.body, tuple(sheet.written))


def _caption(page: Page, facts: Mapping[str, str], layout: str, sizes: str) -> str:
    """Says what there is to say of a figure: of which program, mesh, machine and layout it is, and by which version."""
    program = ", ".join(filter(None, (facts["program"], sizes)))
    mesh = " on ".join(filter(None, (facts["mesh"], facts["machine"])))
    of = [f"Layout: {layout}."] * page.of_one
    return " ".join([*page.notes, f"Program: {program}.", f"Mesh: {mesh}.", *of, f"meshlab {facts['meshlab']}."])


def _first(sizes: str) -> str:
    """Returns the sizes of the program's first dims, as many as a caption has room for, and how many follow."""
    parts = sizes.split(" · ")
    for count in range(len(parts), 0, -1):
        text = " · ".join([*parts[:count], *([f"and {len(parts) - count} more"] if count < len(parts) else [])])
        if len(text) <= _OF_SIZES:
            return text
    return sizes


def _layout(view: dict[str, Any]) -> str:
    """Returns the layout by its name alone; one without a name in full, but for the middle of a long one."""
    named = view["named"]
    return named["text"] if named else without_middle(view["layout"]["text"] or "no layout", _LETTERS)
