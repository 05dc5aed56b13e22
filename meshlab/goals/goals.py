"""Goals: what a layout has to meet, in conditions that a plan is judged by.

    >>> goal = ml.goal(sends="≤ 8 kB", keeps={"batch": None})
    >>> goal
    Goal: each device
      repeats no work
      sends at most 8 kB
      keeps `batch` whole
    >>> goal.judge(program.plan(mesh, "batch:data")).met
    False
    >>> ml.explore(program, mesh, goal=goal)                    # ticked on the board, while a layout is dragged

A goal knows no program; `judge` refuses one whose dims, places and axes a program and mesh have not got. Puzzles are
made of goals, and so is whatever else a layout is asked to keep to.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ..cost.machines.hardware import Hardware
from ..cost.machines.meshes import check_plan
from ..engine.errors import MeshlabError, numbered, shown
from ..engine.specs.mesh import Mesh
from ..engine.tables import html_rows, text_rows
from .bounded import Fits
from .conditions import Condition, Costs, Judged
from .reading import READERS, read

_HOW_IT_IS = {True: "✓", False: "✗", None: "…"}


@dataclasses.dataclass(frozen=True)
class Goal:
    """What a layout has to meet; made by `ml.goal`.

    Attributes:
        conditions: all of which have to be met.
        quiet: whether a verdict says no value and no reason before all of them are.
    """

    conditions: tuple[Condition, ...]
    quiet: bool = False

    @property
    def machine(self) -> Hardware | None:
        """The machine that it names, for whose compiler the peak is predicted; None for the mesh's own."""
        return next((each.machine for each in self.conditions if isinstance(each, Fits)), None)

    def problems(self, program: Any, mesh: Mesh) -> list[str]:
        """Returns what the goal asks for and a program or mesh has not got: dims, places, axes, a machine."""
        return [problem for condition in self.conditions for problem in condition.problems(program, mesh)]

    def refuse(self, program: Any, mesh: Mesh) -> None:
        """Refuses a program and mesh that have not got what the goal asks for.

        Raises:
            MeshlabError: every problem is listed.
        """
        if problems := self.problems(program, mesh):
            raise MeshlabError(f"The goal does not fit the program on the mesh {mesh}:\n{numbered(problems)}")

    def judge(self, plan: Any) -> Verdict:
        """Judges a plan.

        Args:
            plan: of `program.plan`.

        Raises:
            MeshlabError: the goal asks for dims, places, axes or a machine that the plan has not got.
        """
        check_plan(plan, "goal.judge()")
        self.refuse(plan.program, plan.mesh)
        return self.verdict(plan, Costs.of(plan))

    def verdict(self, plan: Any, costs: Costs) -> Verdict:
        """Judges a plan whose costs may be worked out later; what it has not got is a condition that is missed."""
        return Verdict(self, tuple(condition.judge(plan, costs) for condition in self.conditions))

    def __repr__(self):
        return "\n  ".join(["Goal: each device", *(condition.text for condition in self.conditions)])


@dataclasses.dataclass(frozen=True)
class Verdict:
    """How far a plan meets a goal; prints as a table, and is true where the goal is met.

    Attributes:
        goal: the goal.
        each: the answer for each of its conditions, in order.
    """

    goal: Goal
    each: tuple[Judged, ...]

    @property
    def met(self) -> bool:
        """Whether all conditions are met."""
        return all(judged.met for judged in self.each)

    @property
    def pending(self) -> bool:
        """Whether some are not known yet, because costs are worked out."""
        return any(judged.met is None for judged in self.each)

    @property
    def count(self) -> int:
        """How many conditions are met."""
        return sum(judged.met is True for judged in self.each)

    @property
    def told(self) -> tuple[Judged, ...]:
        """The answers as far as they may be said: a quiet goal says no values and no reasons before it is met."""
        if not self.goal.quiet or self.met:
            return self.each
        return tuple(Judged(judged.met) for judged in self.each)

    @property
    def heading(self) -> str:
        """How many conditions are met, in words."""
        total = len(self.each)
        if self.met:
            return f"goal met: all {total} conditions hold" if total > 1 else "goal met: its condition holds"
        return f"goal: {self.count} of {total} condition{'s' * (total > 1)} met"

    def __bool__(self):
        return self.met

    def _rows(self) -> Iterator[tuple[str, str, str]]:
        for condition, judged in zip(self.goal.conditions, self.told, strict=True):
            yield f"{_HOW_IT_IS[judged.met]} {condition.text}", judged.value, judged.because

    def __repr__(self):
        return f"{self.heading}\n{text_rows(list(self._rows()))}"

    def _repr_html_(self) -> str:
        return html_rows(self._rows(), (self.heading, "now", "because"))


def check_goal(given: Any) -> None:
    """Refuses what is neither a goal nor None."""
    if given is not None and not isinstance(given, Goal):
        raise MeshlabError(f'goal={shown(given)} must be a goal: ml.goal(sends="≤ 8 kB"), say.')


def goal(
    *,
    fits: bool | str | Hardware | None = None,
    sends: float | str | None = None,
    peak: float | str | None = None,
    stores: float | str | None = None,
    step: float | str | None = None,
    busy: bool | float = True,
    silent: str | Sequence[str] = (),
    keeps: Mapping[Any, Any] = {},
    collectives: Mapping[str, Any] = {},
    stored: Mapping[str, Any] = {},
    quiet: bool = False,
) -> Goal:
    """Says what a layout has to meet: for `ml.explore(..., goal=)`, or to judge a plan, `goal.judge(plan).met`.

    Bounds are of one device and one step: numbers, of bytes or seconds, or texts: "8 kB", "at most 1 GiB", "90 ms".

    Args:
        fits: whether the peak, with carried arguments donated, must fit a device of the mesh's machine (True), or of
            one by its name ("v5e"): then the peak is predicted for that machine's compiler.
        sends: the most wire bytes.
        peak: the most bytes at the peak, with carried arguments donated; of a mesh on no machine as on a CPU.
        stores: the most bytes of arguments, which are exact.
        step: the most seconds that a step is estimated to take, on the mesh's machine.
        busy: whether devices must divide all work, except 1% of it (`plan.work`); a number is how many times its even
            share a device may do, and False leaves it open.
        silent: the mesh axes over which nothing may be sent.
        keeps: by dim the mesh axes that it must be on, major first, `"data"` or `("data", "model")`, or None where it
            must stay whole: in whatever an operation reads or makes, the update of parameters included.
        collectives: by kind how often they may run in a step: 2 is exactly 2, then (0, 2), "≤ 2", "at least 1".
            `"*"` is any kind, `"all-reduce over model"` those over one mesh axis; kinds that are not named are free.
        stored: by place, or glob of places, the most bytes that they take, all together; or the dims that are stored
            split: `"embed:data"`, `{"embed": "data", "heads": None}`.
        quiet: whether values and reasons are hidden until the goal is met, and the board gives no advice.

    Raises:
        MeshlabError: a bound, kind or machine is invalid, or there is no condition; all problems are listed.

    Example:
        >>> ml.goal(fits="v5e", sends="8 kB", keeps={"batch": None})
        Goal: each device
          fits the memory of one Google TPU v5e
          repeats no work
          sends at most 8 kB
          keeps `batch` whole
    """
    given = {name: value for name, value in locals().items() if name in READERS}
    problems = [] if isinstance(quiet, bool) else [f"quiet: {shown(quiet)} must be True or False"]
    conditions: list[Condition] = []
    for name, value in given.items():
        more, wrong = read(name, value)
        conditions += more
        problems += wrong
    if not conditions and not problems:
        problems.append('it has no condition; write ml.goal(sends="8 kB"), say')
    if problems:
        raise MeshlabError(f"ml.goal() was given invalid conditions:\n{numbered(problems)}")
    return Goal(tuple(conditions), quiet)
