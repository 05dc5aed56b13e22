"""The objectives of a search: each is one object, and no other module knows more of it than its name.

    OBJECTIVES["traffic"].of_plan(plan)            bytes that one device sends in one run
    OBJECTIVES["memory"].of_plan(plan)             bytes that are live on one device at once, as Mesh TensorFlow counts

Search, proof, brute force and comparison read all that they need off the object. To add an objective, write its
`Objective` and list it in `OBJECTIVES`.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

from ..engine.api.stages import Plan, Program
from ..engine.errors import MeshlabError, closest, listed, shown
from ..engine.specs.mesh import Mesh
from .least_live_bytes import least_live_bytes
from .least_traffic import least_traffic
from .mesh_tf_ledger import ledger_of, planned_live_bytes
from .solution import Solution
from .space import Space
from .stopping import Watch
from .work import SLACK


@dataclasses.dataclass(frozen=True)
class Objective:
    """A cost of layouts that a search minimises.

    Attributes:
        name: the word by which users ask for it.
        quantity: the name of the cost in data.
        title: the name of the cost in a table.
        verb: what a device does with the cost, for a proof.
        unit: of the cost.
        slack: the share by which a layout may leave more work to a device than the least; None: any work is allowed.
        of_plan: reads the cost off a plan.
        solve: finds a layout of the least cost, and proves it.
    """

    name: str
    quantity: str
    title: str
    verb: str
    unit: str
    slack: float | None
    of_plan: Callable[[Plan], float]
    solve: Callable[[Program, Mesh, Space, Watch], Solution]

    @property
    def among(self) -> str:
        """The layouts that are compared, in words; empty for all."""
        return "" if self.slack is None else f" that divides the work to within {self.slack:.0%} of the best"

    def text(self, cost: float) -> str:
        """A cost with its unit."""
        return f"{cost:,.0f} {self.unit}"


TRAFFIC = Objective(
    name="traffic",
    quantity="wire_bytes",
    title="bytes sent per step",
    verb="sends",
    unit="bytes",
    slack=SLACK,
    of_plan=lambda plan: plan.wire_bytes,
    solve=least_traffic,
)
MEMORY = Objective(
    name="memory",
    quantity="live_bytes",
    title="live bytes at most",
    verb="holds",
    unit="bytes",
    slack=None,
    of_plan=planned_live_bytes,
    solve=lambda program, mesh, space, watch: least_live_bytes(ledger_of(program), space, watch),
)
# By name, the default first.
OBJECTIVES = {objective.name: objective for objective in (TRAFFIC, MEMORY)}


def objective_of(name: str) -> Objective:
    """Looks up an objective.

    Raises:
        MeshlabError: there is none of this name.
    """
    if not isinstance(name, str) or name not in OBJECTIVES:
        raise MeshlabError(
            f"ml.auto.layout() was asked for the objective {shown(name)}; it has {listed(OBJECTIVES)}."
            f"{closest(name, OBJECTIVES)}"
        )
    return OBJECTIVES[name]
