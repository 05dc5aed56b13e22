"""What a search is asked, and what it answers.

asked = Asked(program, mesh, constraints, limits)
answer = objective.answer(asked)
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from typing import Any

from ...api.stages import Plan, Program
from ...cost.workload.options import USUAL, Options
from ...engine.specs.layout import Layout
from ...engine.specs.mesh import Mesh
from .constraints import NONE, Constraints
from .stopping import NEVER, Watch


@dataclasses.dataclass(frozen=True)
class Found:
    """The answer so far of a search that goes on.

    Attributes:
        plan: the plan of the best layout so far; None where none was met that fits.
        value: what it costs, in the unit of the objective.
        bound: what every layout costs at least, as far as is known.
        plans: the number of layouts planned.
        seconds: since the search began.
    """

    plan: Plan | None
    value: float
    bound: float
    plans: int
    seconds: float

    @property
    def gap(self) -> float:
        """The share of the value by which another layout could cost less; 1 where nothing is known."""
        return 1.0 if self.plan is None else gap(self.value, self.bound)


def gap(value: float, bound: float) -> float:
    """Returns the share of a value by which it lies above its bound."""
    return max(0.0, 1 - bound / value) if value else 0.0


@dataclasses.dataclass(frozen=True)
class Limits:
    """What ends a search, and what is no answer.

    Attributes:
        most_bytes: of a device's memory, that the donated peak may take; None: any.
        tolerance: the share by which the answer may cost more than the best.
        seconds: after so many seconds the answer so far is the answer; None: never.
        to_beat: what is known to be reached elsewhere: only what costs less is looked for.
        watch: whether to stop.
        progress: called with the answer so far.
    """

    most_bytes: float | None = None
    tolerance: float = 0.01
    seconds: float | None = None
    to_beat: float = math.inf
    watch: Watch = NEVER
    progress: Callable[[Found], Any] | None = None


@dataclasses.dataclass(frozen=True)
class Asked:
    """What a search is asked.

    Attributes:
        program: the program.
        mesh: the mesh.
        constraints: what every layout must satisfy.
        limits: what ends the search.
        options: the assumptions about a run under which time and memory are predicted.
    """

    program: Program
    mesh: Mesh
    constraints: Constraints = NONE
    limits: Limits = Limits()
    options: Options = USUAL


@dataclasses.dataclass(frozen=True)
class Answer:
    """A layout, what it costs, and what is proved.

    Attributes:
        layout: the layout.
        value: what it costs, as the search has it.
        bound: what every layout that was compared costs at least.
        method: how it was found.
        layouts: how many layouts were compared, as far as they were counted.
        most_work: the most work that was allowed on a device, in multiply-adds; None: any.
        plans: the number of layouts planned.
        ties: other layouts that cost the same, or almost.
        search: the search, with all that it has met; None where there is no more to tell than the answer.
        searched: the layouts that were compared, in words.
        not_searched: what was left out, in words.
        made: the single changes that made the best layout of the search better, in words.
    """

    layout: Layout
    value: float
    bound: float
    method: str
    layouts: int
    most_work: float | None = None
    plans: int = 0
    ties: tuple[Layout, ...] = ()
    searched: str = ""
    not_searched: str = ""
    made: tuple[str, ...] = ()
    search: Any = dataclasses.field(default=None, repr=False)
