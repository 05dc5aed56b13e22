"""What a step's outputs are to a training: the state that it carries, the loss, and other numbers.

    step(params, opt_state, tokens) -> (loss, {"accuracy": …}, params, opt_state)

The tracer has found the state, `params` and `opt_state` (`api/carrying.py`). The loss is the only number besides, or
the only one that is called `loss`; where neither is so, the user says which. All other numbers are metrics.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp

from ..engine.errors import closest, listed, shown


@dataclasses.dataclass(frozen=True)
class Signature:
    """Which leaves of a step's outputs are its loss and its metrics.

    Attributes:
        loss: the position of the loss among the leaves; None where the step has none.
        metrics: the position of each other number, by place.
    """

    loss: int | None
    metrics: Mapping[str, int]

    @classmethod
    def of(cls, program: Any, loss: str | None) -> Signature:
        """Returns the signature of a program whose loss `loss_problems` finds nothing wrong with."""
        numbers = _numbers(program)
        place = loss or _found(list(numbers))
        return cls(numbers.get(place or ""), {other: i for other, i in numbers.items() if other != place})

    def read(self, outputs: Any) -> tuple[float | None, dict[str, float]]:
        """Returns the loss and the metrics of a step's outputs."""
        leaves = jax.tree.leaves(outputs)
        loss = None if self.loss is None else float(leaves[self.loss])
        return loss, {place: float(leaves[i]) for place, i in self.metrics.items()}


def loss_problems(program: Any, loss: Any) -> list[str]:
    """Describes what is wrong with the place of the loss, or with there being none."""
    numbers = list(_numbers(program))
    if loss is not None:
        if loss in numbers:
            return []
        near = closest(loss, numbers) or f" Its numbers are {listed(numbers)}."
        return [f"loss={shown(loss)} is not the place of a number that this step returns.{near}"]
    if len(numbers) < 2 or _found(numbers):
        return []
    return [f'The step returns several numbers, {listed(numbers)}: say which is the loss, loss="{numbers[0]}".']


def state_problems(program: Any) -> list[str]:
    """Describes why a program carries nothing from one step to the next."""
    if program.carry:
        return []
    first = program.parameters[0] if program.parameters else "params"
    uncertain = " ".join(program.uncertain)
    why = (
        f" {uncertain}"
        if uncertain
        else (
            " No output has the tree, shapes and dtypes of an argument: return the updated parameters, as in"
            f" step({first}, …) -> (loss, {first})."
        )
    )
    return [f"The step carries nothing to the next one, so there is nothing to train.{why}"]


def _found(numbers: Sequence[str]) -> str | None:
    called = [place for place in numbers if place.rpartition("/")[2] == "loss"]
    return numbers[0] if len(numbers) == 1 else called[0] if len(called) == 1 else None


def _numbers(program: Any) -> dict[str, int]:
    """Returns the outputs that are one real number and not carried: the position of each among all, by place."""
    carried = [carry.place for carry in program.carries]
    leaves = jax.tree.leaves(program.out_shapes)
    return {
        place: position
        for position, (place, leaf) in enumerate(zip(program.outputs, leaves, strict=True))
        if leaf.shape == ()
        and (jnp.issubdtype(leaf.dtype, jnp.number) or leaf.dtype == jnp.bool_)
        and not jnp.issubdtype(leaf.dtype, jnp.complexfloating)
        and not any(place == other or place.startswith(f"{other}/") for other in carried)
    }
