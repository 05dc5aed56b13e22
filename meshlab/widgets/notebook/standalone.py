"""One view of an Explorer by itself, in a cell of its own: it follows the same Explorer as the workbench.

explorer.views.memory                   at the end of a cell: the peak memory of whatever is on the board
"""

from __future__ import annotations

from typing import Any

from ...engine.errors import closest, listed
from ..documents.document import ExplorerError
from ..views.panels import PANELS
from .session import Session

# The panels of the stage, and the step over time below it.
VIEWS = (*PANELS, "timeline")


class Views:
    """The views of one Explorer, each an attribute."""

    def __init__(self, explorer: Any):
        self._explorer = explorer
        self._views: dict[str, View] = {}

    def __getattr__(self, name: str) -> View:
        if name.startswith("_"):
            raise AttributeError(name)
        if name not in VIEWS:
            near = closest(name, VIEWS)
            raise ExplorerError(f"The Explorer has no view `{name}`.{near} There are {listed(VIEWS)}.")
        return self._views.setdefault(name, View(self._explorer, name))

    def __dir__(self) -> list[str]:
        return list(VIEWS)

    def __repr__(self) -> str:
        return f"Views({', '.join(VIEWS)})"


class View:
    """One view; at the end of a cell it shows itself."""

    def __init__(self, explorer: Any, name: str):
        self.name, self._explorer = name, explorer
        self._session: Session | None = None

    @property
    def session(self) -> Session:
        """The widget, which is opened when it is first shown, and anew where it was closed."""
        if self._session is None or not self._session.is_open:
            self._session = Session(self._explorer, self.name)
        return self._session

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> Any:
        data, metadata = self.session._repr_mimebundle_() or ({}, {})
        return data | {"text/plain": repr(self)}, metadata

    def __repr__(self) -> str:
        return f"View({self.name} of {self._explorer!r})"
