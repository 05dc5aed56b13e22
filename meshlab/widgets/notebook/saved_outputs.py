"""What a notebook still has of a cell that runs again: the board of the picture that was saved below it.

    offer_saved(explorer)       "The notebook was saved with the layout FSDP over data.", with a button that takes it

A notebook takes a cell's output away as the cell runs again, before anything of the board is there: what is left of the
picture is in the file, until that is saved. The server tells a kernel which file it is for (`JPY_SESSION_NAME`), and a
request which cell it is of. Where either is unknown, nothing is offered. While the offer stands, pictures keep the
saved board, so that a notebook that is saved too early loses nothing.
"""

from __future__ import annotations

import json
import os
import pathlib
from typing import Any

from IPython import get_ipython

from ...engine.errors import MeshlabError
from ..state.explorer_state import ExplorerState
from ..state.saved_boards import Offer, SavedBoard, board_text, read_board

# The key of a picture's metadata.
KEY = "meshlab"
# Bytes of a notebook that is read, which takes a tenth of a second.
MOST = 30_000_000


def metadata_of(explorer: ExplorerState) -> dict[str, Any]:
    """Returns the metadata of a picture: its board; while another is offered, that one."""
    text = explorer.offer.text if explorer.offer else board_text(explorer.document, explorer.tried)
    return {KEY: {"board": json.loads(text), "opened": json.loads(explorer.documents.opened.to_json())}}


def offer_saved(explorer: ExplorerState) -> None:
    """Offers the board that was saved with the cell that runs, where that is another than the one that is opened."""
    if explorer.revision:  # it is no new board, that is shown again
        return
    opened = json.loads(explorer.documents.opened.to_json())
    pictures = [each for output in _outputs() if (each := _picture(output)) is not None]
    # Of several Explorers of a cell the one that was opened so.
    pictures.sort(key=lambda picture: picture.get("opened") == opened)
    for picture in reversed(pictures):
        text = json.dumps(picture.get("board"))
        try:
            board = read_board(text, explorer.documents)
        except MeshlabError:  # of another program: the cell has changed
            continue
        if _is_another(board, explorer):
            explorer.offer = Offer(text, _said(board, explorer))
            explorer.changes.tell("offer")
        return


def _picture(output: Any) -> dict[str, Any] | None:
    found = output.get("metadata", {}).get(KEY) if isinstance(output, dict) else None
    return found if isinstance(found, dict) and isinstance(found.get("board"), dict) else None


def _is_another(board: SavedBoard, explorer: ExplorerState) -> bool:
    return board.document != explorer.document or len(board.tried) > 1 or any(each.is_marked for each in board.tried)


def _said(board: SavedBoard, explorer: ExplorerState) -> str:
    """Returns what the saved layout is called: its label, its own name where that is quick, or how it is written."""
    document, documents = board.document, explorer.documents
    label = next((each.label for each in board.tried if each.is_of(document)), "")
    name = documents.name_of(document) if documents.programs.known(document) and not documents.slow else None
    return f'"{label}"' if label else str(name or document.layout) or "empty"


def _outputs() -> list[Any]:
    """Returns the outputs that the notebook's file has of the cell that runs."""
    shell, path = get_ipython(), os.environ.get("JPY_SESSION_NAME")
    if shell is None or not path or not hasattr(shell, "get_parent"):
        return []
    request = shell.get_parent() or {}
    try:
        file = pathlib.Path(path)
        cells = json.loads(file.read_text(encoding="utf-8"))["cells"] if file.stat().st_size < MOST else []
        return _of_request(cells, request).get("outputs", [])
    except (OSError, ValueError, KeyError, TypeError, AttributeError):  # no notebook, or one that is half written
        return []


def _of_request(cells: list[dict[str, Any]], request: dict[str, Any]) -> dict[str, Any]:
    """Returns the cell of a request: by its name, or else the only one with that code."""
    name, code = request.get("metadata", {}).get("cellId"), request.get("content", {}).get("code")
    named = [cell for cell in cells if name and cell.get("id") == name]
    same = [cell for cell in cells if "".join(cell["source"]) == code]
    return (named or same if len(same) == 1 else named or [{}])[0]
