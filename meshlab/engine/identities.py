"""Identities: operations that return a value that is there already.

    -(-x)    x.T.T    x * 1    x + zeros    x[:, None].T.squeeze(0)    select(p, x, x)

XLA drops them, and then takes `x` and what came of it for one value: gathers it once, say. So must the plan.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from .code import Input, Literal, Operation
from .rules import TRAITS, names_where

Makers = Mapping[int, Operation]

_IDENTITIES = names_where(lambda traits: traits.identity)
_NEUTRAL = {name: traits.neutral for name, traits in TRAITS.items() if traits.neutral is not None}
# What only changes the shape, as long as all axes that it adds, removes or moves are of size 1.
_RESHAPING = names_where(
    lambda traits: traits.kind == "reduce" or (traits.keeps and traits.kind in ("bitcast", "broadcast", "move"))
)


def returned(operation: Operation, inputs: tuple[Input, ...], makers: Makers) -> Input | None:
    """Returns the value that an operation returns as it is, or None where it makes a new one.

    Args:
        operation: the operation.
        inputs: what it reads, where that has been replaced by now.
        makers: the operations that made the values known so far.
    """
    if operation.name in _IDENTITIES:
        return inputs[0]
    if operation.blocks or len(operation.outputs) != 1:
        return None
    if operation.name in ("neg", "transpose"):
        undone = _undone(operation, inputs[0], makers)
        if undone is not None or operation.name == "neg":
            return undone
    if operation.name in _RESHAPING:
        return _reshaped_back(operation, inputs[0], makers)
    position = _kept_operand(operation, inputs, makers)
    return inputs[position] if position is not None and _same_type(operation, position) else None


def _same_type(operation: Operation, position: int) -> bool:
    given, made = operation.equation.invars[position].aval, operation.equation.outvars[0].aval
    return given.shape == made.shape and given.dtype == made.dtype


def _kept_operand(operation: Operation, inputs: tuple[Input, ...], makers: Makers) -> int | None:
    """The position of the operand that is returned if the types agree."""
    name, params = operation.name, operation.params
    if name == "convert_element_type" or (name == "integer_pow" and params["y"] == 1):
        return 0
    if name == "pad" and all(tuple(c) == (0, 0, 0) for c in params["padding_config"]):
        return 0
    if name == "slice" or (name == "concatenate" and len(inputs) == 1):
        return 0
    if name == "rev":
        return 0 if all(operation.equation.invars[0].aval.shape[d] == 1 for d in params["dimensions"]) else None
    if name == "select_n":
        return 1 if isinstance(inputs[1], int) and len(set(inputs[1:])) == 1 else None
    if name in ("max", "min"):
        return 0 if isinstance(inputs[0], int) and inputs[0] == inputs[1] else None
    if name in _NEUTRAL:
        for position, other in ((0, 1), (1, 0)):
            number = _constant(inputs[other], makers)
            swapped = position == 1 and not TRAITS[name].commutes
            if isinstance(inputs[position], int) and number is not None and not swapped:
                if np.all(np.asarray(number) == _NEUTRAL[name]):
                    return position
    return None


def _constant(value: Input, makers: Makers) -> Any:
    """The number that a literal, or a literal broadcast, holds everywhere."""
    if isinstance(value, Literal):
        return value.value
    maker = makers.get(value)
    if maker is not None and maker.name == "broadcast_in_dim" and isinstance(maker.inputs[0], Literal):
        return maker.inputs[0].value
    return None


def _undone(operation: Operation, value: Input, makers: Makers) -> Input | None:
    """What a negation or transpose undoes: the operand of the first one."""
    order = operation.params.get("permutation", ())
    if order and tuple(order) == tuple(range(len(order))):
        return value
    maker = makers.get(value) if isinstance(value, int) else None
    if maker is None or maker.name != operation.name:
        return None
    first = maker.params.get("permutation", ())
    return maker.inputs[0] if [first[i] for i in order] == list(range(len(order))) else None


def _reshaped_back(operation: Operation, value: Input, makers: Makers) -> Input | None:
    """The value that had the result's shape before axes of size 1 came and went."""
    shape = operation.equation.outvars[0].aval.shape
    step: Operation | None = operation
    while step is not None and _moves_units(step):
        value = step.inputs[0] if step is not operation else value
        if step.equation.invars[0].aval.shape == shape:
            return value
        step = makers.get(value) if isinstance(value, int) else None
    return None


def _moves_units(operation: Operation) -> bool:
    """Whether an operation only adds, removes or moves axes of size 1."""
    transposing = operation.name == "reshape" and operation.params["dimensions"] is not None
    if operation.name not in _RESHAPING or len(operation.reads) != 1 or transposing:
        return False
    before, after = (v.aval.shape for v in (operation.equation.invars[0], operation.equation.outvars[0]))
    if operation.name == "transpose":
        order = [axis for axis in operation.params["permutation"] if before[axis] != 1]
        return order == sorted(order)
    same = [s for s in before if s != 1] == [s for s in after if s != 1]
    return same and math.prod(before) == math.prod(after) and len(before) > 0
