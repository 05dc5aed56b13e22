"""Judges tries: is a layout legal, does it meet the goal, and does it compile to the same numbers at drawn sizes."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from typing import Self

from ...cost.machines.units import number_text
from ...engine.errors import LayoutError
from ...engine.specs.layout import Layout
from ...engine.tables import html_rows
from ...engine.verifying.check import check
from .attempts import Attempts
from .receipts import receipt
from .setting import Setting


class Unsolved(AssertionError):
    """A try that fails; graders such as nbgrader and otter count it as failed, and show its text, which has a hint."""


@dataclasses.dataclass(frozen=True)
class Answer:
    """How a try was judged; prints as a table, and is true where it passes.

    Attributes:
        name: the puzzle's.
        rows: whether each condition holds, and what it is.
        passed: whether all do.
        receipt: the line that says so, for whom it is asked of; "" where it fails.
        prediction: the prediction beside the number, once it passes.
    """

    name: str
    rows: tuple[tuple[bool, str], ...]
    passed: bool
    receipt: str = ""
    prediction: str = ""

    def raised(self, hint: Callable[[], str]) -> Self:
        """Returns it where it passes.

        Raises:
            Unsolved: it does not; the text ends in the next hint.
        """
        if self.passed:
            return self
        raise Unsolved(f"{self!r}\nHint: {hint()}")

    def __bool__(self):
        return self.passed

    def _lines(self) -> Iterator[tuple[str, str]]:
        yield from (("✓" if holds else "✗", text) for holds, text in self.rows)

    def __repr__(self):
        head = f"{self.name}: {'solved' if self.passed else 'not yet'}"
        return "\n".join(filter(None, [head, *map(" ".join, self._lines()), self.prediction, self.receipt]))

    def _repr_html_(self) -> str:
        after = "".join(f"<div>{text}</div>" for text in (self.prediction, self.receipt) if text)
        return html_rows(self._lines(), (self.name, "solved" if self.passed else "not yet")) + after


def judged(setting: Setting, attempts: Attempts, layout: Layout) -> Answer:
    """Judges a layout, and counts it as a try; before the prediction, where one is asked for, nothing is judged."""
    if setting.ask is not None and attempts.predicted is None:
        first = f"First predict: {setting.ask.text}? puzzles.{setting.name}.predict(…)"
        return Answer(setting.name, ((False, first),), False)
    attempts.tried(layout)
    try:
        plan = setting.plan(layout)
    except LayoutError as error:
        return Answer(setting.name, ((False, f"is legal: {error}"),), False)
    verdict = setting.goal_of(setting.program).judge(plan)
    rows = [(True, "is legal")]
    rows += [(bool(each.met), one.text) for one, each in zip(verdict.goal.conditions, verdict.each, strict=True)]
    if not verdict.met:
        return Answer(setting.name, tuple(rows), False)
    if setting.drawn:
        differs = differences(setting, layout, str(attempts.tries))
        rows.append((not differs, f"compiles to the planned collectives and the same numbers{differs}"))
        if differs:
            return Answer(setting.name, tuple(rows), False)
    line = receipt(setting, plan, attempts.predicted, attempts.tries, attempts.hints)
    attempts.receipt = attempts.receipt or line
    return Answer(setting.name, tuple(rows), True, line, _beside(setting, attempts.predicted))


def _beside(setting: Setting, predicted: float | None) -> str:
    right = setting.is_right(predicted)
    if right is None or setting.ask is None:
        return ""
    found, guess = number_text(setting.number), number_text(predicted)
    return f"{setting.ask.text}? {found}; you predicted {guess}{', right' if right else ''}."


def differences(setting: Setting, layout: Layout, word: str) -> str:
    """Compiles and runs a layout at sizes that are drawn; returns what differs from what is planned, "" if nothing.

    Nobody runs this program again, so it is compiled quickly; what differs then is compiled anew, as users run it.
    """
    sizes = setting.sizes(word)
    plan = setting.program.resize(**sizes).plan(setting.mesh, layout)
    report = check(plan, (), quick=True)
    report = report if report.ok else plan.check()
    return "" if report.ok else f": not at {', '.join(f'{d}={n}' for d, n in sizes.items())}\n{report}"
