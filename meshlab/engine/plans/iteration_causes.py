"""Says of a collective what an axis in time has to do with it: how many iterations it serves, or in how many it runs.

all-reduce of a gradient      `batch` is summed while split over `data`; added up over 8 micro-batches, reduced once.
all-gather of a weight        … It is gathered again in each of 8 micro-batches.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable

from ..code.operations import Operation
from ..collectives.kinds import ALL_GATHER
from ..errors import listed
from ..legality.legal_rules import LegalRules
from ..planning.shared_steps import each_once
from ..planning.step import Step
from ..planning.steps import Move
from ..specs.in_time import without_all
from .partial_sums import Origin


class IterationCauses:
    """Knows what runs in the loop over an axis in time."""

    def __init__(self, steps: Iterable[Step], rules: LegalRules):
        self.rules = rules
        self.loops: dict[Operation, Step] = {}
        self.inside: dict[int, Step] = {}
        for loop in (step for step in steps if step.in_time):
            for step, *_ in each_once(itertools.chain.from_iterable(part.steps for part in loop.parts)):
                if step.computes:
                    self.loops[step.computes] = loop
                else:
                    self.inside[id(step)] = loop

    def of_sum(self, step: Move, origin: Operation) -> str:
        """Says when a sum that an operation makes is reduced; "" where it has nothing to do with an axis in time."""
        loop = self.loops.get(origin)
        if loop is None:
            return ""
        if id(step) in self.inside:
            return f"; reduced in each of {self.blocks(loop)}"
        return f"; added up over {self.blocks(loop)}, reduced once"

    def of_stages(self, step: Move, origins: Iterable[Origin]) -> str:
        """Says that one stage of a pipeline alone makes a sum; "" where all do, of what they split."""
        split = {axis for origin in origins for _, axes in origin.dims for axis in axes}
        stages = [axis for axis in step.via.axes if axis in self.rules.stages and axis not in split]
        return f"; only some stages of `{stages[0]}` make it" if stages else ""

    def of_move(self, step: Move) -> str:
        """Says that a move runs again in each iteration; "" where it does not."""
        loop = self.inside.get(id(step))
        if loop is None:
            return ""
        verb = "gathered again" if step.via.kind is ALL_GATHER else "moved"
        return f" It is {verb} in each of {self.blocks(loop)}."

    def among_devices(self, step: Move) -> Move:
        """Returns a move as devices make it: in an iteration a block is a value without the axis in time."""
        ends = step.start, step.via.result
        inside = [axis for axis in self.rules.in_time if all(axis in spec.axes for spec in ends)]
        return step.under(lambda spec: without_all(spec, inside)) if inside else step

    def blocks(self, loop: Step) -> str:
        """Names the blocks of a loop: micro-batches, where it goes over the batch."""
        dims, times = self.rules.on(loop.in_time) if loop.in_time else (), loop.blocks_in_time
        return f"{times} micro-batches" if "batch" in dims else f"{times} blocks of {listed(dims)}"
