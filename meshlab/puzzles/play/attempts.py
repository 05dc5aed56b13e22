"""What one reader has done with a puzzle: the prediction that counts, the tries and the hints."""

from __future__ import annotations

import dataclasses

from ...engine.specs.layout import Layout
from ...widgets.explorer import Explorer
from ...widgets.state.task import Prediction


@dataclasses.dataclass
class Attempts:
    """What one reader has done; it changes.

    Attributes:
        prediction: of the number that is asked for; the board has the same, so that either may be told it.
        tries: how many layouts were judged.
        hints: how many hints were given.
        last: the layout that was tried last.
        steps: how many hints were given for that one.
        explorer: the board, once it was shown.
        receipt: of the first layout that passed.
    """

    prediction: Prediction = dataclasses.field(default_factory=Prediction)
    tries: int = 0
    hints: int = 0
    last: Layout | None = None
    steps: int = 0
    explorer: Explorer | None = None
    receipt: str = ""

    @property
    def predicted(self) -> float | None:
        """The first prediction; None before."""
        return self.prediction.value

    def tried(self, layout: Layout):
        """Counts a try; hints begin again with another layout."""
        self.tries += 1
        if layout != self.last:
            self.last, self.steps = layout, 0
