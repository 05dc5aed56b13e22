"""What a layout costs: seconds by the plan's own clock, and the bytes of its donated peak.

    pricer = Pricer(program, mesh, Options())
    price = pricer.price(layout)        None where the layout is refused
    price.seconds                       `plan.time.estimate`
    price.peak_bytes                    `plan.memory.donated.peak_bytes`
    price.of_activations                the same clock where nothing that parameters or gradients send takes any time

Each is worked out once for each layout, when it is first asked for. Plans are kept of the last layouts alone: those of
thousands of layouts of a large program would fill the memory.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Mapping

from ...api.stages import Plan, Program
from ...cost.peak_memory.memory import Memory
from ...cost.step_time.schedule import spend
from ...cost.step_time.time import Time, time_of
from ...cost.workload.options import Options
from ...cost.workload.scenario import Scenario, at_plan_sizes
from ...engine.code.operations import Operation
from ...engine.errors import LayoutError
from ...engine.programs.trained import trained
from ...engine.rules import TRAITS
from ...engine.specs.layout import Layout
from ...engine.specs.mesh import Mesh
from ..additive.sent_bytes import sent_by_value
from .extras import Dims

# Of so many layouts a pricer keeps the plans; of all others it keeps the numbers.
_PLANS = 32


class _Planned:
    """A plan, and what is worked out of it: megabytes, of a large program."""

    def __init__(self, plan: Plan, options: Options):
        self.plan, self.options = plan, options

    @functools.cached_property
    def scenario(self) -> Scenario:
        return at_plan_sizes(self.plan, self.options, wanted="ml.auto.layout")

    @functools.cached_property
    def time(self) -> Time:
        return time_of(self.scenario)

    @functools.cached_property
    def memory(self) -> Memory:
        return self.plan.memory.given(self.options.attention).donated

    @functools.cached_property
    def sent(self) -> Mapping[int, float]:
        return sent_by_value(self.plan)


@dataclasses.dataclass(frozen=True, eq=False)
class LayoutPrice:
    """What one layout costs.

    Attributes:
        layout: the layout.
        planned: plans it, or returns a plan that is kept.
        parameter_dims: the dims of parameters; what has no others is a parameter, a gradient, or a sum over some.
    """

    layout: Layout
    planned: Callable[[], _Planned] = dataclasses.field(repr=False)
    parameter_dims: Dims = dataclasses.field(repr=False)

    @property
    def plan(self) -> Plan:
        return self.planned().plan

    @property
    def scenario(self) -> Scenario:
        """The sizes and the machine at which it is priced."""
        return self.planned().scenario

    @property
    def time(self) -> Time:
        """The time of one step."""
        return self.planned().time

    @property
    def memory(self) -> Memory:
        """The memory of one device, where carried arguments are overwritten."""
        return self.planned().memory

    @property
    def sent(self) -> Mapping[int, float]:
        """The bytes that a device sends in one run, by the value that is moved."""
        return self.planned().sent

    @functools.cached_property
    def seconds(self) -> float:
        """The estimate of one step."""
        return float(self.time.estimate)

    @functools.cached_property
    def of_activations(self) -> float:
        """Seconds of a step in which parameters and gradients are sent in no time."""
        return self._sending_free(self.parameter_dims)

    def without(self, dims: Dims) -> float:
        """Returns seconds of a step in which values with no other dims are sent, and updated, in no time.

        Args:
            dims: of some parameters: the step takes no less, however these are stored.
        """
        program = self.plan.program
        updates = (
            float(times * kernel.seconds)
            for step, times, kernel in self.time.spent.kernels
            if (ran := step.computes) and not multiplies(ran) and has_only(program, ran, dims)
        )
        return max(0.0, self._sending_free(dims) - sum(updates))

    def _sending_free(self, dims: Dims) -> float:
        return float(spend(self.scenario, lambda move: self._has_only(dims, move.value)).elapsed)

    def is_parameter(self, value: int) -> bool:
        """Whether a value that is sent is a parameter, a gradient, or a sum over some."""
        return self._has_only(self.parameter_dims, value)

    def _has_only(self, dims: Dims, value: int) -> bool:
        return all(dim is None or dim in dims for dim in self.plan.program.dims_of(value))

    def bytes_without(self, dims: Dims) -> float:
        """Returns the bytes that a device sends in one run for values that have other dims than these."""
        dims_of = self.plan.program.dims_of
        return sum(sent for value, sent in self.sent.items() if any(d and d not in dims for d in dims_of(value)))

    @functools.cached_property
    def peak_bytes(self) -> int:
        """The most bytes that are in a device's memory at once."""
        return self.memory.peak_bytes

    @functools.cached_property
    def axes_sent_over(self) -> frozenset[str]:
        """The mesh axes over which anything is sent."""
        return frozenset(axis for collective in self.plan.collectives for axis in collective.axes)

    @property
    def rules(self) -> int:
        """The number of rules of the layout."""
        layout = self.layout
        return len(layout.dim_rules) + sum(len(own) for _, own in (*layout.place_rules, *layout.scope_rules))


def multiplies(operation: Operation) -> bool:
    """Whether an operation is a matmul, or a convolution."""
    traits = TRAITS.get(operation.name)
    return traits is not None and traits.multiplies is not None


def has_only(program: Program, operation: Operation, dims: Dims) -> bool:
    """Whether an operation works on some dims alone."""
    own = {dim for _, name in program.factor_dims.get(operation, ()) for dim in program.splitters(name)}
    return operation in program.factor_dims and own <= dims


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
        self._known: dict[Layout, LayoutPrice | None] = {}
        # Of no method: a cache of one would hold its pricer, which holds the cache.
        self._planned = functools.lru_cache(_PLANS)(functools.partial(_plan, program, mesh, options))

    def price(self, layout: Layout) -> LayoutPrice | None:
        """Returns what a layout costs; None where it is refused."""
        if layout not in self._known:
            self._known[layout] = self._priced(layout)
        return self._known[layout]

    def _priced(self, layout: Layout) -> LayoutPrice | None:
        try:
            self._planned(layout)
        except LayoutError:
            return None
        self.plans += 1
        return LayoutPrice(layout, functools.partial(self._planned, layout), self._parameter_dims)


def _plan(program: Program, mesh: Mesh, options: Options, layout: Layout) -> _Planned:
    return _Planned(program.plan(mesh, layout), options)
