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
from typing import TYPE_CHECKING, Any

from ..engine.api.stages import Plan, Program
from ..engine.errors import MeshlabError, closest, listed, shown
from ..engine.specs.layout import Layout, LayoutLike
from ..engine.specs.mesh import Mesh
from .constraints import read_wishes
from .mesh_tf_ledger import ledger_of, planned_peak
from .solution import Solution
from .space import Space, space_of
from .stopping import Cancel, Watch
from .work import SLACK, work_of

if TYPE_CHECKING:
    from .compare import Comparison

OBJECTIVES = ("traffic", "memory")
_AMONG = {
    "traffic": f" that divides the work to within {SLACK:.0%} of the best",
    "memory": "",
}
_AGREE = 1e-6


@dataclasses.dataclass(frozen=True)
class Proof:
    """Why a layout is the best one.

    Attributes:
        method: how it was found.
        objective: "traffic" (bytes that one device sends in one run) or "memory" (bytes that one device holds at once).
        among: which of the legal layouts were compared, in words; empty for all.
        layouts: how many legal layouts there are.
        value: what the layout costs, in bytes, measured on its plan.
        bound: what each of them costs at least, in bytes, as the solver has proved.
        gap: how far the value lies above the bound, as a share of it.
        seconds: how long it took.
    """

    method: str
    objective: str
    among: str
    layouts: int
    value: float
    bound: float
    gap: float
    seconds: float

    def __str__(self):
        does = "sends" if self.objective == "traffic" else "holds"
        return (
            f"a device {does} {self.value:,.0f} bytes, and of {self.layouts:,} legal layouts (one axis a dim at most, "
            f"no rules at places) none{self.among} {does} less: proved by {self.method}, gap {self.gap:.0%}, "
            f"in {self.seconds:.2f} s"
        )

    def to_dict(self) -> dict[str, Any]:
        """The proof as JSON-able data."""
        return dataclasses.asdict(self)


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
        from .compare import compare  # noqa: PLC0415  compare needs choices

        return compare(self, layout)

    def __str__(self):
        return f"{str(self.layout) or 'nothing split'}: {self.proof}"

    def _repr_html_(self) -> str:
        name = html.escape(str(self.layout) or "nothing split")
        return f"<p><code>{name}</code></p><p>{html.escape(str(self.proof))}</p>"


def layout(
    program: Program,
    mesh: Mesh,
    *,
    objective: str = "traffic",
    pin: LayoutLike = None,
    forbid: LayoutLike = None,
    cancel: Cancel | None = None,
) -> Choice:
    """Finds the best layout of a program on a mesh, and proves it.

    Each dim lies on one mesh axis at most; rules at places are not searched. Of equally good layouts the one with the
    fewest dims split is taken (with objective "memory", the most, as Mesh TensorFlow does), and of those the one that
    puts the dims of later arguments, data before parameters, on earlier axes.

    Args:
        program: made by `ml.trace`.
        mesh: made by `ml.mesh`.
        objective: "traffic": the fewest bytes that one device sends in one run, among the layouts that divide the
            contractions over the devices as far as possible (at most 1 % more work on a device than the least); or
            "memory": the fewest bytes that one device holds at once, by Mesh TensorFlow's liveness convention.
        pin: what must be so, as a layout; a dim that is None stays whole.
        forbid: what must not be so, as a layout.
        cancel: ends the search soon after it is set, as a `threading.Event` can be from another thread.

    Returns:
        A `Choice`.

    Raises:
        LayoutError: `pin` or `forbid` cannot be.
        Cancelled: `cancel` was set.
        MeshlabError: an argument is not what it should be, or the answer could not be proved.

    Example:
        choice = ml.auto.layout(program, ml.mesh(data=2, model=2), pin="batch:data")
    """
    started = time.perf_counter()
    _check(program, mesh, objective)
    watch = Watch(cancel)
    watch.check()
    wishes = read_wishes(program, mesh, pin, forbid)
    space = space_of(program, mesh.axes, wishes.pinned, wishes.forbidden, wishes.whole)
    found = _solved(program, mesh, space, objective, watch)
    chosen = Layout.of(dict(sorted(found.splits | wishes.pinned)))
    plan = program.plan(mesh, chosen)
    value = _confirmed(plan, objective, found)
    proof = Proof(
        method=found.method,
        objective=objective,
        among=_AMONG[objective],
        layouts=space.count(),
        value=value,
        bound=found.bound,
        gap=_gap(value, found.bound),
        seconds=time.perf_counter() - started,
    )
    return Choice(chosen, plan, proof)


def _check(program: Program, mesh: Mesh, objective: str):
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
    if objective not in OBJECTIVES:
        raise MeshlabError(
            f"ml.auto.layout() was asked for the objective {shown(objective)}; it has {listed(OBJECTIVES)}."
            f"{closest(objective, OBJECTIVES)}"
        )


def _solved(program: Program, mesh: Mesh, space: Space, objective: str, watch: Watch) -> Solution:
    # Loading the solver takes a quarter of a second, which whoever imports meshlab need not wait for.
    from .least_live_bytes import least_peak  # noqa: PLC0415
    from .least_traffic import least_traffic  # noqa: PLC0415

    if objective == "traffic":
        return least_traffic(program, mesh, space, watch)
    return least_peak(ledger_of(program), space, watch)


def _confirmed(plan: Plan, objective: str, found: Solution) -> float:
    """The cost of the chosen layout, measured on its plan.

    Raises:
        MeshlabError: it is not what the solver was told.
    """
    if objective == "memory":
        value: float = planned_peak(plan)
    else:
        value = plan.wire_bytes
        work = work_of(plan)
        if found.most_work is not None and work > found.most_work * (1 + _AGREE):
            raise MeshlabError(
                f"ml.auto.layout() chose {str(plan.layout)!r} for its work of at most {found.most_work:,.0f} products"
                f" on a device, but its plan does {work:,.0f}. This is a fault of meshlab: please report it with the"
                " model."
            )
    if not math.isclose(value, found.value, rel_tol=_AGREE, abs_tol=_AGREE):
        raise MeshlabError(
            f"ml.auto.layout() chose {str(plan.layout)!r} for its {objective} of {found.value:,.0f} bytes, but its plan"
            f" has {value:,.0f}. This is a fault of meshlab: please report it with the model."
        )
    return value


def _gap(value: float, bound: float) -> float:
    """How far a value lies above its bound; the solver writes eight digits."""
    gap = max(0.0, value - bound) / max(1.0, abs(bound))
    return gap if gap > _AGREE else 0.0
