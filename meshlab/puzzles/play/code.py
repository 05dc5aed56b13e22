"""Puzzles of code: a function is written with named dims, and compared with one that the puzzle keeps.

    puzzles.C01                     the task and its arguments
    puzzles.C01.check(attend)       the same dims, the same numbers at sizes that are drawn, and no more work

Whole arrays are compared, at sizes that nobody knows beforehand, so that a constant, zeros, or a part that is right do
not pass; nor does a sum of products written out, in one array or in a loop, which makes far more numbers than `ml.dot`.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Iterator
from typing import Any

import jax
import numpy as np

from ...api.stages import Program
from ...api.trace import trace
from ...cost.machines.meshes import mesh
from ...engine.code.operations import walk
from ...engine.plans.turns import of_unknown_length
from ...engine.plans.work import how_often, line_of
from ...engine.programs.random_arguments import drawn_arguments
from ...engine.rules import TRAITS
from .judging import Answer
from .setting import Said

# How many times the reference's multiply-adds a function may do, and its elements.
_WORK, _ELEMENTS = 1.01, 2.0
# At how many sizes functions are compared, and how far they may differ: sums may be added in another order.
_TIMES, _NEAR = 2, 1e-4
# How large a dim is drawn, as powers of two, and how large all together.
_LEAST, _MOST, _TOGETHER = 1.0, 6.0, 2**18
# What a function may raise where a program is not right; whatever else is raised is a fault of its own.
_WRONG = (TypeError, ValueError)
_ALONE = mesh(alone=1)
# Of sizes and numbers that are drawn: seeded by the system, so that they cannot be worked out.
_CHANCE = np.random.default_rng()


@dataclasses.dataclass
class Written:
    """What a reader has done with a puzzle of code; it changes.

    Attributes:
        tries: how many functions were judged.
        steps: how many hints were given.
    """

    tries: int = 0
    steps: int = 0


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class CodePuzzle:
    """A function for the reader to write.

    Attributes:
        name: such as "C01".
        title: what it is about.
        task: what it has to do, in words.
        reference: does it.
        arguments: makes its arguments, named arrays, at a batch of sizes.
        drawn: the dims whose sizes are drawn.
        hints: from the first nudge to nearly all of it.
        written: what its reader has done.
    """

    name: str
    title: str
    task: str
    reference: Callable[..., Any]
    arguments: Callable[[], tuple[Any, ...]]
    drawn: tuple[str, ...]
    hints: tuple[str, ...] = ()
    written: Written = dataclasses.field(default_factory=Written)

    def check(self, function: Callable[..., Any], *, strict: bool = False) -> Answer:
        """Judges a function of the puzzle's arguments.

        Args:
            function: of the reader.
            strict: whether one that fails raises, as graders want it.

        Raises:
            Unsolved: it fails, under `strict`: an AssertionError, whose text ends in a hint.
        """
        self.written.tries += 1
        rows = []
        for text, problem in self._judged(function):
            rows.append((not problem, f"{text}{f': {problem}' if problem else ''}"))
            if problem:
                break
        answer = Answer(self.name, tuple(rows), all(holds for holds, _ in rows))
        return answer.raised(self.hint) if strict else answer

    def hint(self) -> Said:
        """Returns the next hint: how it may be written, one step further each time; `check` says what is wrong."""
        self.written.steps += 1
        steps = self.hints or (self.task,)
        return Said(steps[min(self.written.steps, len(steps)) - 1])

    def _judged(self, function: Callable[..., Any]) -> Iterator[tuple[str, str]]:
        """Yields what is asked of a function, and what is wrong with it."""
        try:
            mine = trace(function, *self.arguments())
        except _WRONG as error:
            yield "can be traced", str(error)
            return
        except SystemExit:
            yield "can be traced", "it ends Python"
            return
        yield "can be traced", ""
        theirs = trace(self.reference, *self.arguments())
        yield "returns what is asked for", _shapes(mine, theirs)
        pairs = [(mine, theirs)]
        for _ in range(_TIMES):
            sizes, seed = self._sizes(), int(_CHANCE.integers(2**31))
            try:
                pairs.append((mine.resize(**sizes), theirs.resize(**sizes)))
                problem = _differs(*pairs[-1], seed)
            except _WRONG as error:
                problem = str(error)
            yield f"is right at {', '.join(f'{d}={n}' for d, n in sizes.items())}", problem
        yield "does no more work", next(filter(None, (_more(*pair) for pair in pairs)), "")

    def _sizes(self) -> dict[str, int]:
        """Returns sizes that nobody knows beforehand: as often small as large, and not all of them large."""
        while True:
            sizes = {dim: round(2 ** _CHANCE.uniform(_LEAST, _MOST)) for dim in self.drawn}
            if math.prod(sizes.values()) <= _TOGETHER:
                return sizes

    def __repr__(self):
        arguments = trace(self.reference, *self.arguments())
        given = [f"{a.place}[{' '.join(map(str, arguments.names[a.value]))}]" for a in arguments.arguments]
        return f"{self.name}. {self.title}\n{self.task}\nArguments: {', '.join(given)}. puzzles.{self.name}.check(…)"


def _results(program: Program, seed: int = 0) -> Any:
    return program.plan(_ALONE).run(*drawn_arguments(program, seed))


def _shapes(mine: Program, theirs: Program) -> str:
    one, other = _results(mine), _results(theirs)
    if jax.tree.structure(one) == jax.tree.structure(other):
        pairs = zip(jax.tree.leaves(one), jax.tree.leaves(other), strict=True)
        if all(mine.dtype == theirs.dtype for mine, theirs in pairs):
            return ""
    return f"not {_named(one)}, but {_named(other)}"


def _named(result: Any) -> str:
    """A result without its numbers: f32[batch=2, heads=4]."""
    return repr(result).partition("(")[0]


def _differs(mine: Program, theirs: Program, seed: int) -> str:
    one, other = _results(mine, seed), _results(theirs, seed)
    for mine_, theirs_ in zip(jax.tree.leaves(one), jax.tree.leaves(other), strict=True):
        expected = np.asarray(theirs_)
        # What is no number is near nothing.
        near = np.abs(np.asarray(mine_) - expected) <= _NEAR * max(float(np.abs(expected).max()), 1e-6)
        if not near.all():
            return f"{int((~near).sum()):,} of {near.size:,} numbers differ"
    return ""


def _more(mine: Program, theirs: Program) -> str:
    """Says of how much more work than the reference's a function's is: multiply-adds, or elements that are made."""
    if loops := of_unknown_length(mine):
        return f"how often its loop at {line_of(loops[0])} runs is known only when it runs"
    if unknown := [one for one in walk(mine.code.block) if one.name not in TRAITS and not one.blocks]:
        return f"nobody counts what is done at {line_of(unknown[0])}"
    one, other = (program.plan(_ALONE).work for program in (mine, theirs))
    if one.unit == other.unit and one.amount > _WORK * other.amount:
        return f"{one.amount / other.amount:.2f} times as many {one.unit}"
    made, asked = _elements(mine), _elements(theirs)
    return f"it makes {made / asked:.1f} times as many elements" if made > _ELEMENTS * asked else ""


def _elements(program: Program) -> int:
    """How many elements a function is given and makes: where it makes few, a copy of its arguments is no matter."""
    shapes = program.code.shapes
    made = sum(times * math.prod(shapes[v]) for one, times in how_often(program.code.block) for v in one.outputs)
    return made + sum(math.prod(shapes[argument.value]) for argument in program.arguments)
