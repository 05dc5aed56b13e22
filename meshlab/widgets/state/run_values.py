"""The numbers that a run has at its places: arguments and outputs of its last step.

    run.values.at("params/w1")      Numbers(array, "after step 5")
    run.values.at("images")         Numbers(array, "in the batch of step 5")
    run.values.at("grads/params/w") None: made inside the step and not kept

An argument that is carried has what the last step gave, by which the next one would begin.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

import jax

from ...engine.running.run import argument_array


@dataclasses.dataclass(frozen=True)
class Numbers:
    """An array that a run has at a place.

    Attributes:
        array: the array, as the run's devices store it, or as the user gave it; deleted where a later call took its
            memory.
        when: of which step it is, in words.
    """

    array: Any
    when: str


@dataclasses.dataclass(frozen=True, eq=False)
class RunValues:
    """The values of the last step of a run.

    Attributes:
        plan: the plan that was run.
        step: the number of the step, from 1.
        arguments: by parameter: the step's own, and of those that are carried what the step gave.
        outputs: the step's, in order.
        batch: which parameters were of the step's batch.
        began: by parameter: what the step was called with; None while the next one is taken, which may need the memory.
    """

    plan: Any
    step: int
    arguments: Mapping[str, Any]
    outputs: tuple[Any, ...]
    batch: frozenset[str]
    began: Mapping[str, Any] | None = None

    def at(self, place: str) -> Numbers | None:
        """Returns the numbers at a place; None where a run keeps none: a tag is made inside the step."""
        program = self.plan.program
        parameter = next((each.parameter for each in program.arguments if each.place == place), None)
        if parameter is not None:
            array = argument_array(self.plan, place, self.arguments[parameter])
            return Numbers(array, self._when(parameter))
        if place not in program.outputs:
            return None
        return Numbers(jax.tree.leaves(self.outputs)[program.outputs.index(place)], f"given by step {self.step:,}")

    def _when(self, parameter: str) -> str:
        if parameter in self.plan.program.carry:
            return f"after step {self.step:,}"
        return f"in the batch of step {self.step:,}" if parameter in self.batch else "the same in each step"
