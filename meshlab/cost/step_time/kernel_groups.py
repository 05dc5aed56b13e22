"""Groups the kernels of a step: those of one operation on one line, in one pass, are one.

    groups_of(time.scenario, time.spent)[0]     Group("dot_general", "model.py:7", "bfloat16", ["batch"], count=12, …)

The seconds of all add up to `plan.time.compute`.
"""

from __future__ import annotations

import dataclasses
from typing import Final, Literal

from ...engine.planning.step import Step
from ...engine.plans.work import repeated_along
from ...engine.specs.spec import Axes
from ..workload.scenario import Scenario
from .flops import multiplied_at
from .spent import Spent

Bound = Literal["compute", "memory", "launch"]
COMPUTE: Final = "compute"
MEMORY: Final = "memory"
LAUNCH: Final = "launch"
# From this share on kernels wait for their launches: these come on top of what matmuls of known time take, and else a
# kernel takes whichever is longer.
_EVEN = 1e-9
_ON_TOP, _INSTEAD = 0.5, 1 - _EVEN


@dataclasses.dataclass
class Group:
    """Kernels of one operation on one line, in one pass.

    Attributes:
        name: the operation.
        source: the line.
        dtype: of its matmuls; "" of what multiplies nothing.
        dims: of the first one's result.
        repeated: the mesh axes along which devices repeat all of them.
        count: executions in a step.
        seconds: of all.
        flops: of all.
        nbytes: of all, read from and written to memory.
        matmuls: the seconds of its matmuls alone.
    """

    name: str
    source: str
    dtype: str
    dims: list[str]
    repeated: Axes = ()
    count: int = 0
    seconds: float = 0.0
    flops: float = 0.0
    nbytes: float = 0.0
    matmuls: float = 0.0

    @property
    def intensity(self) -> float | None:
        """Operations per byte; None without matmuls, or without bytes."""
        return self.flops / self.nbytes if self.flops and self.nbytes else None

    def launch(self, scenario: Scenario) -> float:
        """Returns the seconds that one of its kernels takes however little it does."""
        base = float(scenario.matmul_base(self.dtype)) if self.dtype else 0.0
        return base or float(scenario.launch)

    def bound(self, scenario: Scenario) -> Bound:
        """Returns what it waits for: "compute", "memory" or "launch"."""
        if self.matmuls >= self.seconds:
            return COMPUTE
        launch = self.launch(scenario) * self.count
        share = _ON_TOP if self.dtype and scenario.matmul_base(self.dtype) else _INSTEAD
        # What is a part of a fused kernel takes less than a launch, and has none.
        return LAUNCH if 0 < launch <= self.seconds * (1 + _EVEN) and launch >= share * self.seconds else MEMORY


def groups_of(scenario: Scenario, spent: Spent) -> list[Group]:
    """Returns all groups of kernels, the longest first."""
    groups: dict[tuple, Group] = {}
    for step, times, cost in spent.kernels:
        if not cost.seconds:
            continue
        fresh = _described(step, cost.name, scenario)
        group = groups.setdefault((fresh.name, fresh.source, fresh.dtype), fresh)
        group.repeated = tuple(axis for axis in group.repeated if axis in fresh.repeated)
        group.count += int(times)
        for name in ("seconds", "flops", "nbytes", "matmuls"):
            setattr(group, name, getattr(group, name) + float(getattr(cost, name)) * float(times))
    return sorted(groups.values(), key=lambda group: -group.seconds)


def _described(step: Step, given: str, scenario: Scenario) -> Group:
    plan, operation = scenario.plan, step.runs
    if operation is None:
        return Group(f"accumulate over {step.in_time}", "", "", [])
    real = None if given else multiplied_at(operation, scenario)
    dims = plan.program.names[operation.outputs[0]] if operation.outputs else ()
    name = (given or operation.name) + (", backward" if operation.backward else "")
    source = "" if operation.source is None else str(operation.source)
    repeated = repeated_along(step, plan.mesh, plan.rules.stages)
    return Group(name, source, "" if real is None else str(real[0]), [dim or "1" for dim in dims], repeated)
