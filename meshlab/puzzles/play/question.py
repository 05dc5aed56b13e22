"""Questions: a number or some dims are predicted, and worked out only afterwards.

question = Question("Q2", "Which rows does device 5 hold", lambda: plan.shard("x", 5)[0].start)
question.predict(64)          the first prediction counts; it is answered at once
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable
from types import EllipsisType

from ...cost.machines.units import number_text
from ...engine.errors import MeshlabError, shown
from ...widgets.state.task import is_near

# A number, or names in no order: "batch hidden".
Value = float | str


@dataclasses.dataclass(frozen=True)
class Told:
    """What became of a prediction; true where it was right.

    Attributes:
        predicted: the first prediction.
        value: what it is.
        is_right: whether they are the same.
        because: why it is so.
    """

    predicted: Value
    value: Value
    is_right: bool
    because: str = ""

    def __bool__(self):
        return self.is_right

    def __repr__(self):
        said = f"✓ {_text(self.value)}." if self.is_right else f"✗ {_text(self.value)}, not {_text(self.predicted)}."
        return f"{said} {self.because}".strip()


@dataclasses.dataclass
class _Kept:
    """The first prediction; it changes."""

    value: Value | None = None


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class Question:
    """Something to be predicted.

    Attributes:
        name: such as "Q2".
        text: the question, without its mark.
        of: works out what it is: a number, or names with spaces between.
        near: the share of a number that a prediction may be off.
        because: why it is so, said with the answer.
    """

    name: str
    text: str
    of: Callable[[], Value]
    near: float = 0.0
    because: str = ""
    kept: _Kept = dataclasses.field(default_factory=_Kept)

    @functools.cached_property
    def value(self) -> Value:
        """What is asked for."""
        return self.of()

    def predict(self, value: Value | EllipsisType) -> Told | Question:
        """Locks a prediction, and answers it: the first one counts. `...` predicts nothing yet: the question stays.

        Raises:
            MeshlabError: it is a number where names are asked for, or names where a number is.
        """
        if isinstance(value, EllipsisType):
            return self
        if isinstance(value, bool) or not isinstance(value, str if isinstance(self.value, str) else int | float):
            wanted = '"batch hidden", say' if isinstance(self.value, str) else "a number"
            raise MeshlabError(f"{self.name}: {self.text}? Predict {wanted}, not {shown(value)}.")
        self.kept.value = value if self.kept.value is None else self.kept.value
        return self._told(self.kept.value)

    def _told(self, predicted: Value) -> Told:
        return Told(predicted, self.value, self._is_right(predicted), self.because)

    def _is_right(self, predicted: Value) -> bool:
        if isinstance(self.value, str) or isinstance(predicted, str):
            return sorted(str(predicted).split()) == sorted(str(self.value).split())
        return is_near(predicted, self.value, self.near)

    def __repr__(self):
        asked = f"{self.name}. {self.text}?"
        return asked if self.kept.value is None else f"{asked} {self._told(self.kept.value)!r}"


def _text(value: Value) -> str:
    return value or "none" if isinstance(value, str) else number_text(value)
