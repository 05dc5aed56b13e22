"""The picture that a saved notebook keeps: an output of its own below the widget, replaced after each change.

A reopened notebook has no kernel, and JupyterLab shows nothing in place of a dead widget, not even the HTML beside
it. So the snapshot of the present revision is displayed by itself; the live board hides it while it is there (`saved`
is the id by which it finds it). After the page was reloaded JupyterLab drops what replaces an output: the picture then
says of which revision it is. Its metadata have the board itself, which the cell offers when it runs again
(`saved_outputs.py`): the layout does not depend on what a browser remembers.
"""

from __future__ import annotations

import contextlib
from typing import Any

from IPython.display import DisplayHandle, display

from ..background.one_by_one import Background
from ..background.quiet import QUIET
from ..documents.costing import CostsFailed
from ..render.snapshot import Snapshot
from ..render.themed import DARK_STYLE
from ..state.explorer_state import ExplorerState
from ..views.board import board_view
from .saved_outputs import metadata_of, offer_saved

# What JupyterLab says in place of a dead widget, "Error displaying widget", is hidden where the picture says more.
NO_DEAD_WIDGET = (
    ".jp-OutputArea-child:not(:has(.mlb)):has(+ .jp-OutputArea-child [data-mlb-picture]) { display: none; }"
)


class SavedPicture:
    """The pictures of one Explorer, as often as it was displayed.

    Args:
        explorer: the Explorer.
        saved: the id by which its live board finds them.
    """

    def __init__(self, explorer: ExplorerState, saved: str):
        self._explorer, self._saved = explorer, saved
        self._handles: list[DisplayHandle] = []
        self._background = Background()
        explorer.subscribe(self._follow)

    def show(self) -> None:
        """Displays the picture, below what is displayed at present."""
        explorer = self._explorer
        if explorer.document.machine and not explorer.documents.slow:
            with contextlib.suppress(CostsFailed):  # the board says so
                explorer.costs.shown(explorer.document)  # a notebook that is saved at once has them
        handle = display(self._bundle(), raw=True, display_id=True, metadata=metadata_of(explorer))
        if handle is not None:
            self._handles.append(handle)

    def html(self) -> str:
        """Returns the picture of the present revision."""
        explorer = self._explorer
        still = (
            f"A picture of revision {explorer.revision}; later changes may be missing. Run the cell again for the live"
            " board: it opens with the last layout in this browser, or offers this one."
        )
        return (
            f"<style>{NO_DEAD_WIDGET} {DARK_STYLE}</style>"
            f'<div data-mlb-picture="{self._saved}" data-revision="{explorer.revision}">'
            f'{Snapshot(board_view(explorer)).html}<p style="opacity:.75;font:13px system-ui">{still}</p></div>'
        )

    def _follow(self, what: str) -> None:
        if what in ("document", "tensor", "costs", "comparison", "goal", "task", "offer"):
            self._background.follow(self, self._renew)

    def _renew(self) -> None:
        # What a browser brings back is the first change: nobody has the board in hand yet, and may save at once.
        if self._explorer.revision > 1:
            QUIET.wait()
        explorer = self._explorer
        with explorer.lock:
            picture, metadata = self._bundle(), metadata_of(explorer)
        for handle in self._handles:
            handle.update(picture, raw=True, metadata=metadata)

    def _bundle(self) -> dict[str, str]:
        return {"text/html": self.html(), "text/plain": repr(self._explorer)}


def show(explorer: Any) -> None:
    """Displays an Explorer: its widget, and its picture below."""
    offer_saved(explorer)
    data, metadata = explorer._repr_mimebundle_()
    # Text is shown where no widget is, for ever as of this revision: the picture below has it, and is renewed.
    display(data | {"text/plain": ""}, metadata=metadata, raw=True)
    explorer.picture.show()
