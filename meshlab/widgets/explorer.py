"""The Explorer, as users have it: the state, and its views, charts, snapshot and widget.

Every gesture of the board is a method, so that whatever is done with the mouse can be done, and tested, in a script:

    >>> explorer = ml.explore(program, ml.mesh(data=2, model=2))
    >>> explorer.place("hidden", "model")
    Accepted: revision 1
    >>> explorer.plan.wire_bytes
    4000
    >>> explorer.place("rows", "model")
    Refused: `rows` and `hidden` cannot both be on `model`: both are dims of `dot_general`. Put one ...
    >>> explorer.undo()
    Accepted: revision 2

At the end of a cell it shows itself. Plotly and the notebook's packages are imported when they are first needed, so
that a script can explore without them.
"""

from __future__ import annotations

from typing import Any

from ..engine.argument_checks import flag
from .render.plotly_charts import figure
from .render.snapshot import Snapshot
from .state.document import ExplorerError
from .state.explorer_state import ExplorerState
from .state.training import Training
from .views.board import board_view
from .views.runs import job_view


class Explorer(ExplorerState):
    """A layout that is being explored.

    Args:
        program: the program, from `ml.trace`.
        mesh: the mesh, on a machine or on none.
        layout: the layout to begin with.
        run: the training that the Run button runs.

    Raises:
        LayoutError: the layout does not fit the program and the mesh.
        ExplorerError: the program or the mesh is invalid, or `run` does not fit the program.
    """

    def view(self, wait: bool = True) -> dict:
        """Returns everything that the board draws, as JSON-like data.

        Args:
            wait: whether to wait for costs that take long; otherwise they are left out, and follow.

        Raises:
            ExplorerError: `wait` is neither True nor False.
        """
        wait = flag("view()", "wait", wait, ExplorerError)
        if wait and self.document.machine:
            self.costing.of(self.document)
        if wait and self.comparison and self.comparison.choice:
            self.holding.of(self.document)
        return board_view(self)

    def figure(self, name: str = "communication") -> Any:
        """Returns one of the board's charts as a `plotly.graph_objects.Figure`.

        Args:
            name: "communication", "lines", "memory", "time", "comparison" or "loss".
        """
        view = self.view()
        with self.lock:
            return figure(name, view, job_view(self))

    def snapshot(self) -> Snapshot:
        """Returns the board as plain HTML without scripts, which a saved notebook keeps."""
        return Snapshot(self.view())

    def __repr__(self) -> str:
        sent = round(self.plan.wire_bytes)
        return f"Explorer(layout={str(self.layout)!r}, revision={self.revision}, wire bytes={sent:,})"

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> Any:
        from .notebook.session import session_of  # noqa: PLC0415  it imports anywidget

        data, metadata = session_of(self)._repr_mimebundle_() or ({}, {})
        return data | {"text/html": self.snapshot().html, "text/plain": repr(self)}, metadata


def explore(program: Any, mesh: Any, layout: Any = None, run: Training | None = None) -> Explorer:
    """Opens the Explorer: drag a dim onto a mesh axis, and see the costs and their causes.

    Args:
        program: the program, from `ml.trace`.
        mesh: the mesh, as `ml.mesh(data=2, model=2)`; on a machine, `ml.mesh("v5e", data=2, model=2)`, times too.
        layout: the layout to begin with.
        run: the training that the Run button runs, as `ml.Training({"params": params}, batches)`.

    Returns:
        The Explorer; at the end of a cell it shows itself.

    Raises:
        LayoutError: the layout does not fit.
        ExplorerError: `run` does not fit the program.

    Example:
        >>> ml.explore(program, ml.mesh(data=2, model=2), "batch:data")
    """
    return Explorer(program, mesh, layout, run)
