"""What is to be done on a board, and a number that is predicted before it shows any: the first prediction counts.

    explorer.set_task(Task("T1. One sum", "Sum once.", question="How many bytes does a device send", number=3072.0))
    explorer.task.locked            True until somebody predicts: explorer.predict(2048), or in the field on a page
    explorer.task.right             False

It is no part of the document, and no fence: whoever asks `explorer.plan` reads any number.
"""

from __future__ import annotations

import dataclasses
import math
import threading
from collections.abc import Callable
from typing import Any

# By how much numbers may differ that are the same.
_SAME = 1e-9


class Prediction:
    """The first number that somebody predicts; every board that waits for it hears of it, wherever it was made.

    Attributes:
        value: the number; None before.
    """

    def __init__(self) -> None:
        self.value: float | None = None
        self._waiting: list[Callable[[], None]] = []
        self._lock = threading.Lock()

    def follow(self, tell: Callable[[], None]) -> None:
        """Has a function called when the prediction is made; of one that is there nothing is heard any more."""
        with self._lock:
            if self.value is None:
                self._waiting.append(tell)

    def make(self, number: float) -> bool:
        """Predicts a number, and returns whether it is the first and counts."""
        with self._lock:
            if self.value is not None:
                return False
            self.value, waiting, self._waiting = number, self._waiting, []
        for tell in waiting:
            tell()
        return True


@dataclasses.dataclass(frozen=True)
class Task:
    """What is to be done on a board.

    Attributes:
        heading: its name.
        text: what is to be done, in words.
        given: what the program is given, in words; it is said as long as the number is asked for.
        question: the question after the number, without its mark; "" where none is asked for.
        number: what is asked for.
        near: the share of the number that a prediction may be off.
        code: the Python that shows the board.
        prediction: of the number.
    """

    heading: str
    text: str = ""
    given: str = ""
    question: str = ""
    number: float = 0.0
    near: float = 0.0
    code: str = ""
    prediction: Prediction = dataclasses.field(default_factory=Prediction)

    @property
    def locked(self) -> bool:
        """Whether the number is still to be predicted: until then a board shows no figure."""
        return bool(self.question) and self.prediction.value is None

    @property
    def right(self) -> bool | None:
        """Whether the prediction is right; None where there is none."""
        predicted = self.prediction.value
        return None if predicted is None or not self.question else is_near(predicted, self.number, self.near)


def is_near(predicted: float, number: float, near: float) -> bool:
    """Whether a prediction is right that may be off by a share of the number."""
    return abs(predicted - number) <= max(near, _SAME) * abs(number)


def is_number(value: Any) -> bool:
    """Whether something can be a prediction."""
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
