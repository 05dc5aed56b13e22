"""What one reader has done with a puzzle: the prediction that counts, the tries and the hints."""

from __future__ import annotations

import dataclasses

from ...engine.specs.layout import Layout
from ...widgets.explorer import Explorer
from .setting import Said, number_text


@dataclasses.dataclass
class Attempts:
    """What one reader has done; it changes.

    Attributes:
        predicted: the first prediction; None before.
        tries: how many layouts were judged.
        hints: how many hints were given.
        last: the layout that was tried last.
        steps: how many hints were given for that one.
        explorer: the board, once it was shown.
        receipt: of the first layout that passed.
    """

    predicted: float | None = None
    tries: int = 0
    hints: int = 0
    last: Layout | None = None
    steps: int = 0
    explorer: Explorer | None = None
    receipt: str = ""

    def lock(self, number: float) -> Said:
        """Locks a prediction, and says which one counts."""
        if self.predicted is not None:
            return Said(f"The first prediction counts: {number_text(self.predicted)}.")
        self.predicted = number
        return Said(f"Locked: {number_text(number)}.")

    def tried(self, layout: Layout):
        """Counts a try; hints begin again with another layout."""
        self.tries += 1
        if layout != self.last:
            self.last, self.steps = layout, 0
