"""Puzzles: a number is predicted, and a layout is looked for that meets a goal.

puzzle = Puzzle("T1", "One sum", build, ml.mesh(x=4), goal=ml.goal(collectives={"*": 1}), answer="wide:x", …)
puzzle                          the task, what has to hold, and the number that is asked for
puzzle.predict(1)               the first prediction counts; so does one in the field on the board
puzzle.show()                   the board, which ticks what is met while a chip is dragged
puzzle.share("board.html")      the board in one file, without Python
puzzle.check("wide:x")          is it legal, does it meet the goal, does it compile to the same numbers
puzzle.hint()                   one step further each time
puzzle.prove()                  for who writes it: the answer passes, wrong tries fail, few layouts pass
"""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Iterable
from types import EllipsisType

from ...cost.machines.units import number_text
from ...engine.errors import LayoutError, MeshlabError, shown
from ...engine.specs.layout import Layout, LayoutLike
from ...engine.tensors.dims import Dim
from ...opening.open_explorer import explore
from ...widgets.explorer import Explorer
from ...widgets.frozen.scope import scope_of
from ...widgets.frozen.share import Shared
from ...widgets.frozen.walk import all_columns, name_of
from ...widgets.state.task import Prediction, Task, is_number
from . import hints, proving
from .attempts import Attempts
from .judging import Answer, judged
from .setting import Said, Setting

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
        if not is_number(number):
            given = f"{self.name}: a prediction is a number, without its unit, not {shown(number)}."
            raise MeshlabError(f"{given} {self.ask.text}?")
        counts = self.attempts.prediction.make(float(number))
        return Said(f"{'Locked' if counts else 'The first prediction counts'}: {self._told()}")

    def _told(self) -> str:
        """The prediction, and whether it was right."""
        found, guess = number_text(self.number), number_text(self.attempts.predicted)
        if not self.is_right(self.attempts.predicted):
            return f"{guess}. ✗ It is {found}."
        return f"{guess}. ✓ Right." if guess == found else f"{guess}. ✓ Right: it is {found}."

    def show(self) -> Explorer:
        """Returns the board, for the end of a cell; where a number is asked for, it asks before it shows figures."""
        self.attempts.explorer = self._board(self.attempts.prediction)
        # What people try is judged now: the first verdict on a ring or on experts has to trace them.
        for layout in (self.answer, *self.wrong):
            self._is_met(Layout.of(layout))
        return self.attempts.explorer

    def share(
        self,
        path: str | os.PathLike[str],
        columns: Iterable[str] | None = None,
        limit: int = 2000,
        dims: Iterable[Dim | str] | None = None,
    ) -> Shared:
        """Writes the board into one HTML file, in which a reader predicts and drags without Python.

        Args:
            path: the file, which is replaced whole.
            columns: the columns in which chips are dropped, beside compute; by default the answer's columns.
            limit: how many layouts are recorded at most.
            dims: of which chips are dropped; by default the puzzle's `chips`, or all of them.

        Raises:
            MeshlabError: no layout that drops lead to meets the goal.
            ExplorerError: there is no such column or dim, or the file cannot be written.
        """
        board, answer = self._board(Prediction()), Layout.of(self.answer)
        there = {name_of(column) for column in all_columns(board)}
        within = [at for at in (*answer.places, *answer.scopes) if at in there] if columns is None else columns
        chips = self.chips or None if dims is None else dims
        if not any(self._is_met(each.layout) for each in scope_of(board, within, chips, limit).dropped):
            raise MeshlabError(
                f"{self.name} cannot be solved in a file: no layout that drops lead to there meets its goal. Name more"
                f" `columns` or `dims`, or a larger `limit`; its answer is {shown(str(answer))}."
            )
        return board.share(path, within, limit, chips)

    def _is_met(self, layout: Layout) -> bool:
        try:
            return self.verdict(layout).met
        except LayoutError:  # an axis in time, whose iterations would need of others what they have not got
            return False

    def _board(self, prediction: Prediction) -> Explorer:
        """Opens the board, which says what is to be done, and asks for the number first."""
        goal = dataclasses.replace(self.goal_of(self.program), quiet=True)
        explorer = explore(self.program, self.mesh, self.start, goal=goal)
        task = Task(f"{self.name}. {self.title}", self.task, self._given(), code=self._code(), prediction=prediction)
        if self.ask is not None:
            task = dataclasses.replace(task, question=self.ask.text, number=self.number or 0.0, near=self.ask.near)
        explorer.set_task(task)
        return explorer

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

    def _code(self) -> str:
        return f"# With puzzle {self.name}; the puzzles of the course are in meshlab.puzzles:\n{self.name}.show()"

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
            lines.append(f"{self.ask.text}? You predicted {self._told()}")
        return "\n".join([*filter(None, lines), f"On {self.mesh}. {self.goal_of(self.program)!r}"])
