"""What a script says of the layouts that were tried: what they are called, and which of them may go.

explorer.label("#4", "wide", note="nothing to gather in the forward pass")
explorer.forget("#2", "#3")         explorer.undo() brings them back
"""

from __future__ import annotations

import os

from msgspec import UNSET, UnsetType

from ...engine.errors import shown
from ..documents.document import ExplorerError, saved
from ..documents.intents import Forget, Label, OpenSaved, Outcome
from .search_gestures import SearchGestures
from .tried import TriedLayout


class TriedGestures(SearchGestures):
    """The methods of an Explorer that concern the layouts that were tried."""

    def label(self, of: str | TriedLayout, label: str | UnsetType = UNSET, note: str | UnsetType = UNSET) -> Outcome:
        """Gives a layout that was tried a label and a note, which `save` keeps; undo takes that back.

        Args:
            of: its number, "#4", its name, or one of `explorer.tried`.
            label: what it is called from then on; "" for none. Not named, it stays.
            note: what is to be said of it; the same.
        """
        for what, text in (("label", label), ("note", note)):
            if text is not UNSET and not isinstance(text, str):
                raise ExplorerError(f'label() was given {shown(text)} for the {what}; it must be a text: "wide".')
        return self.apply(Label(_name("label", of), label, note))

    def forget(self, *of: str | TriedLayout) -> Outcome:
        """Deletes layouts that were tried, but never the one on the board and the baseline; undo brings them back.

        Args:
            of: their numbers, "#4", their names, or some of `explorer.tried`.
        """
        return self.apply(Forget(tuple(_name("forget", each) for each in of)))

    def open_saved(self, path: str | os.PathLike[str]) -> Outcome:
        """Opens a board that `save` wrote, which this waits for: its document, and what was tried there besides.

        Args:
            path: the file.

        Returns:
            `Accepted`, or `Refused` with all that is wrong with the file; nothing changes then.

        Raises:
            ExplorerError: the path is no path, or cannot be read.
        """
        text = saved(path, "open_saved()")
        if text is None:
            raise ExplorerError(f"open_saved() finds no file {shown(str(path))}.")
        return self.apply_and_wait(OpenSaved(text))


def _name(method: str, of: str | TriedLayout) -> str:
    if isinstance(of, TriedLayout):
        return of.sign
    if not isinstance(of, str):
        raise ExplorerError(f'{method}() was given {shown(of)} for a layout; write its number or name: "#4".')
    return of
