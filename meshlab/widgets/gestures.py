"""Every gesture of the board as a method, so that a script can do whatever a hand can.

A gesture makes an intent and hands it to `apply`, the one door; the board does the same. Each returns `Accepted` or
`Refused`, which is false, with the reason and what would fit:

    >>> if not explorer.place("rows", "model"):
    ...     explorer.place("hidden", "model")
"""

from __future__ import annotations

from typing import Any

from ..engine.dims import Dim, name_of
from ..engine.layout import Layout
from .intents import Cancel, Intent, Load, Outcome, Place, Redo, Remove, Reset, Select, Undo


class Gestures:
    """The gestures; whoever has them says in `apply` what an intent does."""

    def apply(self, intent: Intent) -> Outcome:
        """Carries out an intent."""
        raise NotImplementedError

    def place(self, dim: Dim | str, *axes: str, at: str | None = None) -> Outcome:
        """Splits a dim over exactly these mesh axes.

        Args:
            dim: the dim or its name.
            axes: mesh axes, major first; none takes the dim's rule away.
            at: a place (`"params/*"`): how the values there are stored.

        Returns:
            `Accepted`, or `Refused` with the reason; nothing changes then.
        """
        name = name_of(dim)
        return self.apply(Place(name, tuple(axes), at) if axes else Remove(name, at))

    def remove(self, dim: Dim | str, at: str | None = None) -> Outcome:
        """Takes a dim's rule out of the layout."""
        return self.apply(Remove(name_of(dim), at))

    def undo(self) -> Outcome:
        """Goes one change back."""
        return self.apply(Undo())

    def redo(self) -> Outcome:
        """Takes back an undo."""
        return self.apply(Redo())

    def reset(self) -> Outcome:
        """Goes back to the layout that the Explorer was opened with."""
        return self.apply(Reset())

    def load(self, layout: Any) -> Outcome:
        """Replaces the whole layout, given in any of its spellings."""
        return self.apply(Load(Layout.of(layout)))

    def select(self, place: str) -> Outcome:
        """Shows who holds which slice of the tensor at a place, such as `params/w1`."""
        return self.apply(Select(place))

    def cancel(self) -> Outcome:
        """Stops the run that is going on, after its present step."""
        return self.apply(Cancel())
