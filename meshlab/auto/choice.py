"""Choosing a layout, with proof.

    choice = ml.auto.layout(program, ml.mesh(data=2, model=2))
    choice.layout       batch:data classes:model ...
    choice.plan         its plan
    choice.proof        what was minimised, the proven bound, how it was found
    choice.compare("batch:data hidden:model")

What is returned has been planned: the solver's number and the plan's must agree, or nothing is returned.
"""

from __future__ import annotations

import dataclasses
import html
import math
import time

from ..engine.api.stages import Plan, Program
from ..engine.errors import MeshlabError, shown
from ..engine.running.compiler_process import Cancel
from ..engine.specs.layout import Layout, LayoutLike
from ..engine.specs.mesh import Mesh
from .compare import Comparison, Row
from .constraints import read_constraints
from .objective import TRAFFIC, Objective, objective_of
from .proof import Proof
from .solution import Solution
from .space import space_of
from .stopping import Watch
from .work import work_of

# The share by which a number of the solver, which writes eight digits, may differ from the plan's.
_AGREE = 1e-6


@dataclasses.dataclass(frozen=True)
class Choice:
    """A layout that was chosen.

    Attributes:
        layout: the layout.
        plan: its plan.
        proof: why it is the best.
    """

    layout: Layout
    plan: Plan
    proof: Proof

    def compare(self, layout: LayoutLike = None) -> Comparison:
        """Sets the chosen layout beside another.

        Args:
            layout: the other one, in any spelling; None splits nothing.

        Returns:
            A `Comparison`: a table, and `.figure()`.

        Raises:
            LayoutError: the other layout is not legal.
        """
        yours = self.plan.program.plan(self.plan.mesh, layout)
        return Comparison((Row("yours", yours), Row("auto", self.plan)), self.proof)

    def __str__(self):
        return f"{str(self.layout) or 'nothing sharded'}: {self.proof}"

    def _repr_html_(self) -> str:
        name = html.escape(str(self.layout) or "nothing sharded")
        return f"<p><code>{name}</code></p><p>{html.escape(str(self.proof))}</p>"


def layout(
    program: Program,
    mesh: Mesh,
    *,
    objective: str = TRAFFIC.name,
    pin: LayoutLike = None,
    forbid: LayoutLike = None,
    cancel: Cancel | None = None,
) -> Choice:
    """Finds the best layout of a program on a mesh, and proves it.

    Each dim is placed on one mesh axis at most; rules at places are not searched. Of equally good layouts the one with
    the fewest dims split is taken (with objective "memory", the most, as Mesh TensorFlow does), and of those the one
    that puts the dims of later arguments, data before parameters, on earlier axes.

    Args:
        program: made by `ml.trace`.
        mesh: made by `ml.mesh`; serial axes are left out.
        objective: "traffic": the fewest bytes that one device sends in one run, among the layouts that divide the
            contractions over the devices as far as possible (at most 1 % more work on a device than the least); or
            "memory": the fewest bytes that are live on one device at once, by Mesh TensorFlow's liveness convention.
        pin: what must be so, as a layout; a dim that is None stays whole.
        forbid: what must not be so, as a layout.
        cancel: ends the search soon after it is set, as a `threading.Event` can be from another thread.

    Returns:
        A `Choice`.

    Raises:
        LayoutError: `pin` or `forbid` is invalid.
        Cancelled: `cancel` was set.
        MeshlabError: an argument is invalid, or the answer could not be proved.

    Example:
        choice = ml.auto.layout(program, ml.mesh(data=2, model=2), pin="batch:data")
    """
    started = time.perf_counter()
    _check(program, mesh)
    goal, watch = objective_of(objective), Watch(cancel)
    watch.check()
    mesh = mesh.devices  # what runs in time is no question of placing dims on devices
    constraints = read_constraints(program, mesh, pin, forbid)
    space = space_of(program, mesh.axes, constraints)
    solution = goal.solve(program, mesh, space, watch)
    chosen = Layout.of(dict(sorted(solution.splits | constraints.pinned)))
    plan = program.plan(mesh, chosen)
    cost = _confirmed(plan, goal, solution)
    proof = Proof(
        method=solution.method,
        objective=goal.name,
        among=goal.among,
        layouts=space.count(),
        value=cost,
        bound=solution.bound,
        gap=_gap(cost, solution.bound),
        seconds=time.perf_counter() - started,
    )
    return Choice(chosen, plan, proof)


def _check(program: Program, mesh: Mesh):
    if not isinstance(program, Program):
        raise MeshlabError(
            f"ml.auto.layout() was given {shown(program)} for its program; write"
            " ml.auto.layout(ml.trace(fn, ...), mesh)."
        )
    if not isinstance(mesh, Mesh):
        raise MeshlabError(
            f"ml.auto.layout() was given {shown(mesh)} for its mesh; write"
            " ml.auto.layout(program, ml.mesh(data=2, model=2))."
        )


def _confirmed(plan: Plan, objective: Objective, solution: Solution) -> float:
    """Reads the cost of the chosen layout off its plan.

    Raises:
        MeshlabError: the plan has another cost, or more work, than the solver says.
    """
    if solution.most_work is not None:
        work = work_of(plan)
        if work > solution.most_work * (1 + _AGREE):
            raise MeshlabError(
                f"ml.auto.layout() chose {str(plan.layout)!r} for its work of at most {solution.most_work:,.0f}"
                f" multiply-adds on a device, but its plan does {work:,.0f}. This is a fault of meshlab: please report"
                " it with the model."
            )
    cost = objective.of_plan(plan)
    if not math.isclose(cost, solution.value, rel_tol=_AGREE, abs_tol=_AGREE):
        raise MeshlabError(
            f"ml.auto.layout() chose {str(plan.layout)!r} for its {objective.name} of {objective.text(solution.value)},"
            f" but its plan has {cost:,.0f}. This is a fault of meshlab: please report it with the model."
        )
    return cost


def _gap(value: float, bound: float) -> float:
    """The share by which a cost is above its bound; 0 within what the solver writes."""
    gap = max(0.0, value - bound) / max(1.0, abs(bound))
    return gap if gap > _AGREE else 0.0
