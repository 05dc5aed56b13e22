"""What a page saves as a file: figures as SVG and PDF, numbers as CSV and JSON, the plan's code, all made in Python.

    files_view(explorer, "memory")              what there is of a panel, by name
    file_view(explorer, "moments", "csv")       {"file": "meshlab-moments.csv", "text": "operation,name,…", …}
    file_view(explorer, "code", "py")           {"file": "step.py", …}: what `plan.code` writes

Nothing is read off the page: a figure has no controls in it and no text that was clipped, and a table has the numbers
as the plan has them. A page that wants PNG draws the SVG. What has to be worked out first is `pending`.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypedDict

from ...engine.errors import closest, listed, shown
from ..background.latest import WORKING
from ..documents.document import ExplorerError
from ..documents.intents import Refused
from ..render.print.figures import FIGURES, print_figure
from ..state.explorer_state import ExplorerState
from ..state.saved_boards import board_text
from ..tables.needed import REASONS, on_page
from ..tables.tables import TABLES, table_of
from ..views.board import board_view
from ..views.pending import PENDING, PendingView

# The figures and tables of each panel of the page, and of the workbench: their names, and what they are called.
PANELS: Mapping[str, Mapping[str, str]] = {
    "devices": {"devices": "Who holds what", "numbers": "Numbers after the run"},
    "program": {"program": "The program", "collectives": "Collectives"},
    "traffic": {"communication": "Sent, by mesh axis", "lines": "Sent, by line", "collectives": "Collectives"},
    "collective": {"collectives": "Collectives"},
    "memory": {"memory": "Memory, by role", "moments": "Memory over the step"},
    "time": {"time": "Time of a step", "roofline": "Roofline"},
    "compare": {"comparison": "Layouts", "waterfall": "From yours to Auto's", "regrets": "Regrets"},
    "run": {"loss": "Loss", "runs": "Runs"},
    "timeline": {"timeline": "One step over time"},
    "workbench": {
        "layout": "The layout",
        "timeline": "One step over time",
        "board": "All of it",
        "code": "What each device runs, without meshlab",
    },
}
CODE = "code"
TYPES = {
    "svg": "image/svg+xml",
    "pdf": "application/pdf",
    "csv": "text/csv",
    "json": "application/json",
    "py": "text/x-python",
}
NO_ROWS = "It is empty under this layout."
# Spreadsheets read UTF-8 as such where it begins with this mark.
_MARK = "\ufeff"


class FileOfferView(TypedDict):
    """What can be saved: as a figure, as a table, or both, or as code; or why there is nothing in it yet."""

    name: str
    title: str
    figure: bool
    table: bool
    code: bool
    why: str


class FilesView(TypedDict):
    files: list[FileOfferView]


class SavedFileView(TypedDict):
    """A file: its name, its content, as base64 where it is no text, and what it is, in words."""

    file: str
    type: str
    text: str
    base64: bool
    said: str


def files_view(explorer: ExplorerState, panel: str) -> FilesView | Refused:
    """Lists what can be saved of a panel."""
    if panel not in PANELS:
        return Refused(f"There is no panel {shown(panel)}.{closest(panel, PANELS)} There are {listed(PANELS)}.")
    view = board_view(explorer)
    files: list[FileOfferView] = [
        {
            "name": name,
            "title": title,
            "figure": name in FIGURES,
            "table": name in TABLES,
            "code": name == CODE,
            "why": _why_nothing(explorer, view, name),
        }
        for name, title in PANELS[panel].items()
    ]
    return {"files": files}


def _why_nothing(explorer: ExplorerState, view: dict[str, Any], name: str) -> str:
    """Says why there is nothing in a figure or table yet; "" where there is something, or that is not known yet."""
    searched = explorer.searches.fastest is not None and name in REASONS
    if name not in TABLES or view["pending"] or searched:
        return ""
    try:
        return "" if next(iter(TABLES[name](explorer, view)), None) else NO_ROWS
    except ExplorerError as error:
        return on_page(str(error))


def file_view(
    explorer: ExplorerState, name: str, kind: str, width: float = 85, only: Sequence[int] | None = None
) -> SavedFileView | PendingView | Refused:
    """Makes a file.

    Args:
        explorer: the Explorer.
        name: of the figure or table.
        kind: "svg", "pdf", "csv" or "json"; of the code "py".
        width: of a figure, in millimetres.
        only: of a table, the rows that are saved; all where it is None.
    """
    if kind not in TYPES:
        return Refused(f"There is no file of the kind {shown(kind)}; there are {listed(TYPES)}.")
    if (name == CODE) != (kind == "py"):
        return Refused(f"{shown(name)} is not saved as {shown(kind)}.")
    if name == CODE:
        return _code(explorer)
    view = board_view(explorer)
    if view["pending"] or _is_pending(explorer, name):
        return PENDING
    file = f"meshlab-{name}.{kind}"
    try:
        if kind in ("csv", "json"):
            text, said = _table(explorer, view, name, kind, only)
            return {"file": file, "type": TYPES[kind], "text": text, "base64": False, "said": said}
        figure = print_figure(name, explorer, view, width)
        text = base64.b64encode(figure.pdf()).decode() if kind == "pdf" else figure.svg
    except ExplorerError as error:
        return Refused(on_page(str(error)))
    said = f"{figure.width_mm:.0f} × {figure.height_mm:.0f} mm"
    return {"file": file, "type": TYPES[kind], "text": text, "base64": kind == "pdf", "said": said}


def _code(explorer: ExplorerState) -> SavedFileView | PendingView | Refused:
    """Writes what each device runs; in the background, since it is traced again and compared."""
    plan, job = explorer.plan, explorer.writing.last
    if job is None or job.of is not plan:
        explorer.writing.begin(plan, plan.code)
        return PENDING
    if job.phase == WORKING:
        return PENDING
    if job.error:
        return Refused(job.error)
    lines = job.result.count("\n")
    return {"file": "step.py", "type": TYPES["py"], "text": job.result, "base64": False, "said": f"{lines:,} lines"}


def saved_view(explorer: ExplorerState) -> SavedFileView:
    """Makes the file that `explorer.save` writes."""
    name = re.sub(r"\W+", "-", explorer.source.name).strip("-") or "board"
    text, count = board_text(explorer.document, explorer.tried), len(explorer.tried)
    said = f"with {count} layout{'s' * (count != 1)}"
    return {"file": f"meshlab-{name}.json", "type": TYPES["json"], "text": text, "base64": False, "said": said}


def _table(
    explorer: ExplorerState, view: dict[str, Any], name: str, kind: str, only: Sequence[int] | None
) -> tuple[str, str]:
    table = table_of(name, explorer, view)
    table = table if only is None else table.only(only)
    text = f"{_MARK}{table.csv()}" if kind == "csv" else table.json()
    return text, f"{len(table):,} row{'s' * (len(table) != 1)}"


def _is_pending(explorer: ExplorerState, name: str) -> bool:
    """Whether the reasons of a search that are drawn are still to be worked out; then they follow."""
    if explorer.searches.fastest is None:
        return False
    wanted = [
        explorer.reasons.soon(what, *(each(explorer) for each in about)) for what, *about in REASONS.get(name, ())
    ]
    return any(each is None for each in wanted)


FILES: Mapping[str, Callable[..., Mapping[str, object] | Refused]] = {
    "files": files_view,
    "file": file_view,
    "saved": saved_view,
}
