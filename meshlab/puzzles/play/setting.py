"""What a puzzle is made of: a program, a mesh and a goal, the number that is asked for, an answer and wrong tries.

The plan is the judge: no answer is written down but one layout, from which every number is worked out.
"""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import math
from collections.abc import Callable

import numpy as np

from ...api.stages import Plan, Program
from ...engine.errors import MeshlabError, shown
from ...engine.specs.layout import LayoutLike
from ...engine.specs.mesh import Mesh
from ...goals.goals import Goal, Verdict
from ...widgets.state.task import is_near

# The most times that the devices of a mesh go into a size that is drawn.
_MOST = 6
# How far the sizes of a reader's own are from those of the program.
_NEAR = 0.75, 1.5
# Stands between the parts of a receipt, so not in names.
BETWEEN = " | "


class Said(str):
    """A sentence, which a notebook shows without quotation marks."""

    __slots__ = ()
    __repr__ = str.__str__


@dataclasses.dataclass(frozen=True)
class Ask:
    """A number to predict before a layout is tried.

    Attributes:
        text: the question.
        of: works the number out, from the plan of `layout`.
        layout: the layout that the question is about.
        near: the share of the number that a prediction may be off.
    """

    text: str
    of: Callable[[Plan], float]
    layout: LayoutLike = None
    near: float = 0.0


@dataclasses.dataclass(frozen=True, eq=False)
class Setting:
    """A program, a mesh and a goal, for which a layout is looked for.

    Attributes:
        name: such as "P08".
        title: what it is about.
        build: traces the program.
        mesh: the devices.
        goal: what a layout has to meet; or how that follows from the program, where sizes are drawn.
        answer: a layout that meets it; nobody has to find the same.
        wrong: legal layouts that people try, and that do not meet it.
        task: what is to be done, in words.
        ask: the number that is predicted first.
        start: the layout that the board begins with.
        drawn: the dims whose sizes a check draws anew.
        chips: the dims that are dragged where the board is shared as a file; () for all.
        reader: whose puzzle it is: sizes are drawn from the name.
    """

    name: str
    title: str
    build: Callable[[], Program]
    mesh: Mesh
    goal: Goal | Callable[[Program], Goal]
    answer: LayoutLike
    wrong: tuple[LayoutLike, ...] = ()
    task: str = ""
    ask: Ask | None = None
    start: LayoutLike = None
    drawn: tuple[str, ...] = ()
    chips: tuple[str, ...] = ()
    reader: str = ""

    def __post_init__(self):
        for text in (self.name, self.reader):
            if BETWEEN.strip() in text or text.strip() != text or len(text.splitlines()) > 1:
                raise MeshlabError(
                    "A puzzle's name and its reader are one line each, without `|` and without spaces around:"
                    f" {shown(text)}."
                )

    @functools.cached_property
    def program(self) -> Program:
        """The program, traced when it is first asked for; at sizes of its reader's own, if it has one."""
        program = self.build()
        return program.resize(**self._own(program)) if self.reader and self.drawn else program

    def sizes(self, word: str) -> dict[str, int]:
        """Returns small sizes for the dims that are drawn, by a word; all devices of the mesh together divide each."""
        draw, devices = self._draw(word)
        return {dim: devices * int(draw.integers(1, _MOST + 1)) for dim in self.drawn}

    def _own(self, program: Program) -> dict[str, int]:
        """Returns its reader's sizes: near those of the program, so that a puzzle stays what it is about."""
        draw, devices = self._draw(self.reader)
        least, most = ({d: share * program.dims[d] / devices for d in self.drawn} for share in _NEAR)
        return {d: devices * int(draw.integers(max(1, math.ceil(least[d])), int(most[d]) + 1)) for d in self.drawn}

    def _draw(self, word: str) -> tuple[np.random.Generator, int]:
        seed = list(hashlib.sha256(f"{self.name} {word}".encode()).digest())
        return np.random.default_rng(seed), math.prod(self.mesh.axes.values())

    def goal_of(self, program: Program) -> Goal:
        """Returns what a layout of the program has to meet."""
        return self.goal if isinstance(self.goal, Goal) else self.goal(program)

    def plan(self, layout: LayoutLike) -> Plan:
        """Plans a try, never padded."""
        return self.program.plan(self.mesh, layout)

    def verdict(self, layout: LayoutLike) -> Verdict:
        """Judges a legal layout by the goal."""
        return self.goal_of(self.program).judge(self.plan(layout))

    @functools.cached_property
    def number(self) -> float | None:
        """The number that is asked for."""
        return float(self.ask.of(self.plan(self.ask.layout))) if self.ask is not None else None

    def is_right(self, predicted: float | None) -> bool | None:
        """Whether a prediction is right; None where there is none, or none is asked for."""
        if self.ask is None or predicted is None or self.number is None:
            return None
        return is_near(predicted, self.number, self.ask.near)
