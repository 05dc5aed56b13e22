"""Changes of an Explorer: a word for each, and who is told of them.

    changes.subscribe(print)
    changes.tell("document")        prints it; `changes.revision` is one more

The views name the words after which a part of the board is described anew (`views/board.PARTS`). Methods of an Explorer
may be called from any thread (JupyterLab calls widgets from several), so one lock guards all of its parts, and
subscribers are called within it, in order.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Literal

# "tensor" is a selection of another tensor, "totals" those of layouts that were tried.
Word = Literal[
    "document",
    "comparison",
    "beside",
    "selection",
    "tensor",
    "costs",
    "totals",
    "goal",
    "task",
    "tracing",
    "models",
    "curve",
    "xla",
    "advice",
    "name",
    "offer",
    "search",
    "run",
    "look",
    "profile",
    "tab",
]
# A revision is a change of what prices and answers are of.
REVISIONS: frozenset[Word] = frozenset(("document", "comparison", "beside"))


class Changes:
    """The changes of one Explorer.

    Attributes:
        lock: guards the Explorer.
        revision: how many changes were revisions.
    """

    def __init__(self):
        self.lock = threading.RLock()
        self.revision = 0
        self._listeners: list[Callable[[str], None]] = []

    def subscribe(self, listener: Callable[[str], None]) -> Callable[[], None]:
        """Has a function called after each change; returns one that ends the subscription."""
        self._listeners.append(listener)
        return lambda: self._listeners.remove(listener) if listener in self._listeners else None

    def tell(self, what: Word) -> None:
        """Calls the subscribers after a change."""
        with self.lock:
            self.revision += what in REVISIONS
            for listener in tuple(self._listeners):
                listener(what)
