"""Puzzles: a number is predicted, and a layout is looked for that meets a goal.

puzzle = Puzzle("T1", "One sum", build, ml.mesh(x=4), goal=ml.goal(collectives={"*": 1}), answer="wide:x", …)
puzzle                          the task, what has to hold, and the number that is asked for
puzzle.predict(1)               the first prediction counts
puzzle.show()                   the board, which ticks what is met while a chip is dragged
puzzle.check("wide:x")          is it legal, does it meet the goal, does it compile to the same numbers
puzzle.hint()                   one step further each time
puzzle.prove()                  for who writes it: the answer passes, wrong tries fail, few layouts pass
"""

from __future__ import annotations

import dataclasses
import math
from types import EllipsisType
from typing import Any

from ...engine.errors import MeshlabError, shown
from ...engine.specs.layout import Layout, LayoutLike
from ...opening.open_explorer import explore
from . import hints, proving
from .attempts import Attempts
from .judging import Answer, judged
from .setting import Said, Setting, number_text

# Of more arguments the first ones are named.
_GIVEN = 6


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class Puzzle(Setting):
    """A puzzle, and what its reader has done.

    Attributes:
        attempts: the prediction that counts, the tries and the hints.
    """

    attempts: Attempts = dataclasses.field(default_factory=Attempts)

    def of(self, reader: str) -> Puzzle:
        """Returns the puzzle of one reader: sizes are drawn from the name, which is in the receipt."""
        return dataclasses.replace(self, reader=reader, attempts=Attempts())

    def predict(self, number: float | EllipsisType) -> Said | Puzzle:
        """Locks a prediction: the first one counts. `...` predicts nothing yet: the puzzle asks again.

        Raises:
            MeshlabError: it is not a number, or no number is asked for.
        """
        if self.ask is None:
            raise MeshlabError(f"{self.name} asks for no number: puzzle.check(layout) checks a layout.")
        if isinstance(number, EllipsisType):
            return self
        if isinstance(number, bool) or not isinstance(number, int | float) or not math.isfinite(number):
            given = f"{self.name}: a prediction is a number, without its unit, not {shown(number)}."
            raise MeshlabError(f"{given} {self.ask.text}?")
        return self.attempts.lock(float(number))

    def show(self) -> Any:
        """Returns the board, for the end of a cell; the puzzle itself until a prediction is made."""
        if self.ask is not None and self.attempts.predicted is None:
            return self
        goal = dataclasses.replace(self.goal_of(self.program), quiet=True)
        self.attempts.explorer = explore(self.program, self.mesh, self.start, goal=goal)
        return self.attempts.explorer

    def check(self, layout: LayoutLike = None, *, strict: bool = False) -> Answer:
        """Judges a layout: is it legal, does it meet the goal, does it compile to the same numbers at drawn sizes.

        Args:
            layout: the try; without one, the layout on the board that `show` returned.
            strict: whether a try that fails raises, as graders want it.

        Raises:
            Unsolved: it fails, under `strict`: an AssertionError, whose text ends in a hint.
            LayoutError: the layout cannot be read.
        """
        board = self.attempts.explorer
        tried = board.layout if layout is None and board is not None else Layout.of(layout)
        answer = judged(self, self.attempts, tried)
        return answer.raised(self.hint) if strict else answer

    def hint(self) -> Said:
        """Returns the next hint for the last try: what is missed, why, and which change leads on."""
        return Said(hints.hint(self, self.attempts))

    def prove(self) -> proving.Proof:
        """Proves that the puzzle is one: its answer passes, each wrong try is legal and fails, few layouts pass."""
        return proving.prove(self)

    def _given(self) -> str:
        """The arguments of the program, with their dims and sizes; the first of many."""
        shapes = []
        for argument in self.program.arguments:
            value = self.program.value(argument.value)
            sizes = zip(value.dims, value.shape, strict=True)
            shapes.append(f"{argument.place}[{' '.join(f'{dim}={size}' for dim, size in sizes)}]")
        more = f", and {len(shapes) - _GIVEN} more" if len(shapes) > _GIVEN else ""
        return f"Given {', '.join(shapes[:_GIVEN])}{more}."

    def __repr__(self):
        lines = [f"{self.name}. {self.title}", self.task, self._given()]
        if self.ask is not None and self.attempts.predicted is None:
            lines.append(f"First predict: {self.ask.text}? puzzles.{self.name}.predict(…)")
        elif self.ask is not None:
            lines.append(f"{self.ask.text}? You predicted {number_text(self.attempts.predicted)}.")
        return "\n".join([*filter(None, lines), f"On {self.mesh}. {self.goal_of(self.program)!r}"])
