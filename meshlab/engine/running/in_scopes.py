"""Runs each step of a plan in a scope of its number, which JAX and XLA keep in all that they make of the step.

runs = InScopes(plan)
lowered(plan, mesh, runs)           the plan's program, in these scopes
runs.steps[14].step                 what scope `v14` is around; `jax_programs.numbers_in` reads it in the names of HLO
"""

from __future__ import annotations

from collections.abc import Sequence

import jax

from ..planning.shared_steps import written_out
from ..planning.step import Step
from ..plans.plan_data import Plan
from .lower import Lowering, MeshDevice, Shards


class InScopes(Lowering):
    """Runs each step in a scope of its number.

    Attributes:
        steps: all that run, those inside loops too, by number.
        number_of: the number of each step, by its identity; what a pipeline computes again in another piece has that
            of its first time.
    """

    def __init__(self, plan: Plan, platform: str = "cpu"):
        super().__init__(plan.program, plan.grid, MeshDevice(plan.grid, platform=platform))
        self.steps = tuple(written_out(plan.planned.steps, plan.steps))
        self.number_of: dict[int, int] = {}
        for number, each in enumerate(self.steps):
            self.number_of.setdefault(id(each.step), number)

    def run(self, steps: Sequence[Step], shards: Shards):
        for step in steps:
            with jax.named_scope(f"v{self.number_of[id(step)]}"):
                super().run((step,), shards)
