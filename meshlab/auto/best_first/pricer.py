"""What a layout costs: seconds by the plan's own clock, and the bytes of its donated peak.

    pricer = Pricer(program, mesh, Options())
    price = pricer.price(layout)        None where the layout is refused
    price.seconds                       `plan.time.estimate`
    price.peak_bytes                    `plan.memory.donated.peak_bytes`
    price.of_activations                the same clock where nothing that parameters or gradients send takes any time

Each is worked out once for each layout, when it is first asked for.
"""

from __future__ import annotations

import dataclasses
import functools

from ...cost.peak_memory.memory import Memory
from ...cost.step_time.schedule import spend
from ...cost.step_time.time import Time, time_of
from ...cost.workload.options import Options
from ...cost.workload.scenario import Scenario, at_plan_sizes
from ...engine.api.stages import Plan, Program
from ...engine.errors import LayoutError
from ...engine.planning.steps import Move
from ...engine.programs.trained import trained
from ...engine.specs.layout import Layout
from ...engine.specs.mesh import Mesh
from .extras import Dims


@dataclasses.dataclass(frozen=True, eq=False)
class Price:
    """What one layout costs.

    Attributes:
        layout: the layout.
        plan: its plan.
        options: the assumptions about a run.
        parameter_dims: the dims of parameters; what has no others is a parameter, a gradient, or a sum over some.
    """

    layout: Layout
    plan: Plan
    options: Options = dataclasses.field(repr=False)
    parameter_dims: Dims = dataclasses.field(repr=False)

    @functools.cached_property
    def _scenario(self) -> Scenario:
        return at_plan_sizes(self.plan, self.options, wanted="ml.auto.layout")

    @functools.cached_property
    def time(self) -> Time:
        """The time of one step."""
        return time_of(self._scenario)

    @functools.cached_property
    def seconds(self) -> float:
        """The estimate of one step."""
        return float(self.time.estimate)

    @functools.cached_property
    def of_activations(self) -> float:
        """Seconds of a step in which parameters and gradients are sent in no time."""
        dims_of, own = self.plan.program.dims_of, self.parameter_dims

        def is_free(move: Move) -> bool:
            return all(dim is None or dim in own for dim in dims_of(move.value))

        return float(spend(self._scenario, is_free).elapsed)

    @functools.cached_property
    def memory(self) -> Memory:
        """The memory of one device, where carried arguments are overwritten."""
        return self.plan.memory.given(self.options.attention).donated

    @functools.cached_property
    def peak_bytes(self) -> int:
        """The most bytes that are in a device's memory at once."""
        return self.memory.peak_bytes

    @property
    def rules(self) -> int:
        """The number of rules of the layout."""
        layout = self.layout
        return len(layout.dim_rules) + sum(len(own) for _, own in (*layout.place_rules, *layout.scope_rules))


class Pricer:
    """Prices layouts of one program on one mesh, each once.

    Attributes:
        program: the program.
        mesh: the mesh, on a machine where seconds are asked for.
        options: the assumptions about a run.
        plans: the number of layouts that were planned.
    """

    def __init__(self, program: Program, mesh: Mesh, options: Options):
        self.program, self.mesh, self.options, self.plans = program, mesh, options, 0
        kinds = trained(program)
        held = [program.arguments[position] for position in (*kinds.parameters, *kinds.state)]
        self._parameter_dims = frozenset(d for a in held for d in program.dims_of(a.value) if d)
        self._known: dict[Layout, Price | None] = {}

    def price(self, layout: Layout) -> Price | None:
        """Returns what a layout costs; None where it is refused."""
        if layout not in self._known:
            self._known[layout] = self._priced(layout)
        return self._known[layout]

    def _priced(self, layout: Layout) -> Price | None:
        try:
            plan = self.program.plan(self.mesh, layout)
        except LayoutError:
            return None
        self.plans += 1
        return Price(layout, plan, self.options, self._parameter_dims)
