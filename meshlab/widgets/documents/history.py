"""The history of a board: undo is no inverse operation, only the document before.

History(one).commit(two).undo().present     one
"""

from __future__ import annotations

import dataclasses

from .document import Document


@dataclasses.dataclass(frozen=True)
class History:
    """The documents before and after the present one.

    Args:
        present: the document on the board.
        past: earlier ones, oldest first.
        future: documents that were undone, next first.
    """

    present: Document
    past: tuple[Document, ...] = ()
    future: tuple[Document, ...] = ()

    def commit(self, document: Document) -> History:
        """Returns the history after a change; undone documents are dropped."""
        return History(document, (*self.past, self.present))

    def undo(self) -> History:
        """Returns the history one step back; itself where there is no step."""
        if not self.past:
            return self
        return History(self.past[-1], self.past[:-1], (self.present, *self.future))

    def redo(self) -> History:
        """Returns the history one step forward; itself where there is no step."""
        if not self.future:
            return self
        return History(self.future[0], (*self.past, self.present), self.future[1:])
