"""The tables of an Explorer, by name.

    table_of("collectives", explorer, explorer.view()).save("collectives.csv")

A table is one entry of `TABLES`: its name, which is that of a figure where there is one, and what yields its rows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from ...engine.errors import closest, listed, shown
from ...version import __version__
from ..documents.document import ExplorerError
from ..state.explorer_state import ExplorerState
from .costs import (
    comparison_rows,
    memory_rows,
    moments_rows,
    regrets_rows,
    roofline_rows,
    time_rows,
    timeline_rows,
    waterfall_rows,
)
from .plan import (
    Row,
    View,
    collectives_rows,
    communication_rows,
    devices_rows,
    layout_rows,
    lines_rows,
    program_rows,
)
from .runs import loss_rows, numbers_rows, runs_rows
from .table import Table

TABLES: Mapping[str, Callable[[ExplorerState, View], Iterable[Row]]] = {
    "layout": layout_rows,
    "devices": devices_rows,
    "numbers": numbers_rows,
    "program": program_rows,
    "collectives": collectives_rows,
    "communication": communication_rows,
    "lines": lines_rows,
    "memory": memory_rows,
    "moments": moments_rows,
    "time": time_rows,
    "timeline": timeline_rows,
    "roofline": roofline_rows,
    "comparison": comparison_rows,
    "waterfall": waterfall_rows,
    "regrets": regrets_rows,
    "loss": loss_rows,
    "runs": runs_rows,
}
# Columns of sentences, in which the page sets names in backquotes as code.
_SENTENCES = ("because", "change", "error")


def table_of(name: str, explorer: ExplorerState, view: View) -> Table:
    """Returns a table.

    Args:
        name: its name in `TABLES`.
        explorer: the Explorer.
        view: the board's data, from `board_view`.

    Raises:
        ExplorerError: no table has that name, or it has no rows yet.
    """
    if name not in TABLES:
        raise ExplorerError(f"There is no table {shown(name)}; there are {listed(TABLES)}.{closest(name, TABLES)}")
    return Table(name, about(view), tuple(map(_plain, TABLES[name](explorer, view))))


def _plain(row: Row) -> Row:
    """Returns a row whose sentences are plain text."""
    sentences = {column: row[column].replace("`", "") for column in _SENTENCES if row.get(column)}
    return row | sentences


def about(view: View) -> dict[str, str]:
    """Says which program, sizes, mesh, machine and layout the board has, and by which version."""
    sizes = " · ".join(f"{chip['name']} {chip['size']:,}" for chip in view["chips"] if not chip["name"].startswith("~"))
    mesh = " × ".join(f"{axis['name']} {axis['size']:,}" for axis in view["mesh"]["axes"]) or "no axes"
    machine = view["machine"]
    on = f"{machine['title']}, {machine['slice']}" if machine["on"] else ""
    of_program = {"program": view["title"], "sizes": sizes}
    return {**of_program, "mesh": mesh, "machine": on, "layout": layout_text(view), "meshlab": __version__}


def layout_text(view: View) -> str:
    """Returns the layout by its name, where it has one, and in full."""
    text, named = view["layout"]["text"] or "no layout", view["named"]
    return f"{named['text']} ({text})" if named else text
