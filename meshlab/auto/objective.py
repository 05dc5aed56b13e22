"""The objectives of a search: each is one object, and no other module knows more of it than its name.

    time        seconds of one run on the machine of the mesh
    memory      bytes at the peak, where carried arguments are overwritten
    traffic     bytes that one device sends in one run
    live        bytes that are live on one device at once, as Mesh TensorFlow counts

Search, proof, brute force and comparison read all that they need off the object. To add an objective, write its
`Objective` and list it in `OBJECTIVES`.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

from ..api.stages import Plan, Program
from ..cost.machines.meshes import machines_for
from ..cost.machines.units import bytes_text, seconds_text, share_text
from ..cost.step_time.time import time_of
from ..cost.workload.options import Options
from ..cost.workload.scenario import at_plan_sizes
from ..engine.errors import MeshlabError, closest, listed, shown
from ..engine.specs.layout import Layout
from ..engine.specs.mesh import Mesh
from .additive.choices import Space, space_of
from .additive.dim_work import SLACK
from .additive.least_live_bytes import least_live_bytes
from .additive.mesh_tf_ledger import ledger_of, planned_live_bytes
from .additive.solution import Solution
from .best_first.answers import BY_BYTES, BY_CLOCK, BY_PEAK
from .best_first.fastest import Fastest
from .best_first.least_peak import LeastPeak
from .best_first.least_traffic import LeastTraffic
from .best_first.search import Search
from .request.answer import Answer, Asked
from .request.stopping import Watch


@dataclasses.dataclass(frozen=True)
class Objective:
    """A cost of layouts that a search minimises.

    Attributes:
        name: the word by which users ask for it.
        label: of what is asked for.
        condition: what is minimised, and among which layouts.
        quantity: the name of the cost in data.
        title: the name of the cost in a table.
        verb: what a device does with the cost, for a proof.
        text: writes the cost with its unit.
        of_plan: reads the cost off a plan, under assumptions about a run.
        answer: finds a layout of the least cost among those with each dim on one axis at most and no rules at places,
            and proves it; None where there is a search.
        search: the search for it over the space of `best_first`.
        method: how that finds it, in words.
        on_machine: whether it is known on machines only.
        one_program: whether the costs of several programs cannot be compared.
    """

    name: str
    label: str
    condition: str
    quantity: str
    title: str
    verb: str
    text: Callable[[float], str]
    of_plan: Callable[[Plan, Options], float]
    answer: Callable[[Asked], Answer] | None = None
    search: Callable[..., Search] | None = None
    method: str = ""
    on_machine: bool = False
    one_program: bool = False

    def entry(self, cost: float) -> str:
        """Writes the cost for a table: exact counts stand under a title that has their unit."""
        return self.text(cost).removesuffix(" bytes")

    def within(self, memory: float | str | None) -> str:
        """Returns what is minimised, and under which cap on memory, as `ml.auto.layout` is given it."""
        if not self.on_machine:
            return self.condition
        if memory is None:
            return f"{self.condition}, whatever the peak memory"
        cap = memory if isinstance(memory, str) else f"{share_text(memory)} of a device's"
        return f"{self.condition}; its peak memory, with arguments donated, is at most {cap}"


Solve = Callable[[Program, Mesh, Space, Watch], Solution]


def additive(solve: Solve) -> Callable[[Asked], Answer]:
    """Returns the search of an objective that adds up over small sets of dims."""

    def answer(asked: Asked) -> Answer:
        mesh = asked.mesh.devices  # what runs in time is no question of placing dims on devices
        space = space_of(asked.program, mesh.axes, asked.constraints)
        solution = solve(asked.program, mesh, space, asked.limits.watch)
        layouts = space.count()
        return Answer(
            layout=Layout.of(dict(sorted(solution.splits | asked.constraints.splits))),
            value=solution.value,
            bound=solution.bound,
            method=solution.method,
            layouts=layouts,
            searched=f"{layouts:,} layouts, at most one mesh axis for each dim, as Mesh TensorFlow's",
            not_searched="several axes for a dim; rules at places and in scopes",
        )

    return answer


def _count(cost: float) -> str:
    return f"{cost:,.0f} bytes"


TIME = Objective(
    name="time",
    label="fastest that fits",
    condition="least step time",
    quantity="seconds",
    title="estimated step time",
    verb="takes",
    text=seconds_text,
    of_plan=lambda plan, options: float(time_of(at_plan_sizes(plan, options)).estimate),
    search=Fastest,
    method=BY_CLOCK,
    on_machine=True,
)
MEMORY = Objective(
    name="memory",
    label="least peak memory",
    condition="least peak memory, with arguments donated, whatever the work",
    quantity="peak_bytes",
    title="peak memory, donated",
    verb="holds at most",
    text=bytes_text,
    of_plan=lambda plan, options: plan.memory.given(options.attention).donated.peak_bytes,
    search=LeastPeak,
    method=BY_PEAK,
)
TRAFFIC = Objective(
    name="traffic",
    label="least traffic",
    condition=f"fewest bytes sent per step, within {SLACK:.0%} of the least work",
    quantity="wire_bytes",
    title="bytes sent per device",
    verb="sends",
    text=_count,
    of_plan=lambda plan, _: plan.wire_bytes,
    search=LeastTraffic,
    method=BY_BYTES,
    one_program=True,
)
LIVE = Objective(
    name="live",
    label="fewest live bytes",
    condition="fewest live bytes (Mesh TensorFlow's count), whatever the work",
    quantity="live_bytes",
    title="peak live bytes",
    verb="holds",
    text=_count,
    of_plan=lambda plan, _: planned_live_bytes(plan),
    one_program=True,
    answer=additive(lambda program, mesh, space, watch: least_live_bytes(ledger_of(program), space, watch)),
)
# By name, in the order in which they are offered.
OBJECTIVES = {objective.name: objective for objective in (TIME, MEMORY, TRAFFIC, LIVE)}


def offered(mesh: Mesh) -> list[Objective]:
    """Returns the objectives that layouts on a mesh have a cost for: time on machines only."""
    return [each for each in OBJECTIVES.values() if mesh.on is not None or not each.on_machine]


def objective_of(name: str | None, mesh: Mesh) -> Objective:
    """Looks up an objective; None is time where the mesh lies on a machine, and traffic where not."""
    if name is None:
        return OBJECTIVES[(TRAFFIC if mesh.on is None else TIME).name]
    if not isinstance(name, str) or name not in OBJECTIVES:
        raise MeshlabError(
            f"ml.auto.layout() was given the objective {shown(name)}; the objectives are {listed(OBJECTIVES)}."
            f"{closest(name, OBJECTIVES)}"
        )
    objective = OBJECTIVES[name]
    if objective.on_machine and mesh.on is None:
        axes = "".join(f", {axis}={size}" for axis, size in mesh.axes.items())
        on, others = next(iter(machines_for(mesh)), "attached"), [other.name for other in offered(mesh)]
        raise MeshlabError(
            f'ml.auto.layout() was given the objective "{name}", which needs a mesh on a machine; write'
            f' ml.mesh("{on}"{axes}), or ask for {listed(others)}.'
        )
    return objective
