"""How an Explorer is kept and shown: JSON, the view that the board draws, figures, the snapshot, and the widget."""

from __future__ import annotations

import threading
from typing import Any

from ..engine.argument_checks import flag
from ..engine.gc_pause import no_collection
from .state.costing import Costing, Costs
from .state.document import Document, ExplorerError
from .state.searches import Search
from .views.board import board_view, job_view


class Showing:
    """What is shown of an Explorer; all of it is made from its document when it is asked for."""

    lock: threading.RLock
    costing: Costing[Costs]
    holding: Costing[int]

    @property
    def document(self) -> Document:
        """The present document."""
        raise NotImplementedError

    @property
    def comparison(self) -> Search | None:
        """The search that was asked for last."""
        raise NotImplementedError

    def to_json(self) -> str:
        """Returns the present document as JSON."""
        return self.document.to_json()

    def view(self, wait: bool = True) -> dict:
        """Returns everything that the board draws, as plain data.

        Args:
            wait: whether for costs that take long to work out; without, they are left out, and follow.

        Raises:
            ExplorerError: `wait` is neither True nor False.
        """
        wait = flag("view()", "wait", wait, ExplorerError)
        if wait and self.document.machine:
            self.costing.of(self.document)
        if wait and self.comparison and self.comparison.choice:
            self.holding.of(self.document)
        with self.lock, no_collection():
            return board_view(self)

    def figure(self, name: str = "communication") -> Any:
        """Returns one of the board's charts as a `plotly.graph_objects.Figure`.

        Args:
            name: "communication", "lines", "memory", "time", "comparison" or "loss".
        """
        from .render.plotly_charts import figure  # noqa: PLC0415

        view = self.view()
        with self.lock:
            return figure(name, view, job_view(self))

    def snapshot(self) -> Any:
        """Returns the board as plain HTML without scripts, which a saved notebook keeps."""
        from .render.snapshot import Snapshot  # noqa: PLC0415

        return Snapshot(self.view())

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> Any:
        from .notebook.session import mimebundle  # noqa: PLC0415

        return mimebundle(self)  # type: ignore[arg-type]
