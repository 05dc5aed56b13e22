"""What changes while a program is planned, and when; everything else that a planner has is known beforehand."""

from __future__ import annotations

import dataclasses

from ..code.operations import Operation
from ..programs.outline import Repetition
from ..specs.spec import Spec
from .planned import CachedPlan, PlannedBlock

Saved = tuple[dict[int, Spec], list[tuple[PlannedBlock, int, dict[int, tuple[Spec, ...]]]]]


@dataclasses.dataclass
class PlanningState:
    """The state of one planning.

    Attributes:
        chain: the blocks that are being planned, outermost first; each grows by steps and by specs of its values.
        specs: values' producer's specs: when they arrive, and again when their partial sums are reduced.
        scope_of: the block that each value was made in: when it arrives.
        deferred: by value, operations that cost nothing, which run where they are read: when they are met.
        hoped: carries that are tried as zeros, to see whether partial sums gather in them: while their loop is planned.
        cached_plans: of repetitions, by the state of their interface: when one is planned. All blocks share them.
        inside: the producer's specs inside of each repetition: when it is planned. All blocks share them.
    """

    chain: list[PlannedBlock] = dataclasses.field(default_factory=list)
    specs: dict[int, Spec] = dataclasses.field(default_factory=dict)
    scope_of: dict[int, PlannedBlock] = dataclasses.field(default_factory=dict)
    deferred: dict[int, Operation] = dataclasses.field(default_factory=dict)
    hoped: frozenset[int] = frozenset()
    cached_plans: dict[tuple, CachedPlan] = dataclasses.field(default_factory=dict)
    inside: dict[Repetition, dict[int, Spec]] = dataclasses.field(default_factory=dict)

    def apart(self) -> PlanningState:
        """Returns the state in which a repetition is planned: in blocks as deep, where nothing has arrived yet."""
        chain = [PlannedBlock(depth) for depth in range(len(self.chain))]
        return PlanningState(chain, hoped=self.hoped, cached_plans=self.cached_plans, inside=self.inside)

    def saved(self) -> Saved:
        """Returns what planning the body of a loop changes, to plan it anew for other carries."""
        blocks = [(block, len(block.steps), dict(block.available)) for block in self.chain]
        return dict(self.specs), blocks

    def restore(self, saved: Saved):
        specs, blocks = saved
        self.specs = dict(specs)
        for block, count, available in blocks:
            del block.steps[count:]
            block.available = dict(available)
