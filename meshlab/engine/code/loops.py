"""Reads a loop: how many values it carries from iteration to iteration, and its trip count.

A `scan` says its length. The trip count of a `while` is in general decided when it runs; where it counts from a
constant to a constant it is known before, as XLA knows it too.
"""

from __future__ import annotations

import numpy as np

from .. import jax_compat
from .operations import Block, Input, Literal, Operation

LOOPS = ("scan", "while")
_FLIPPED = {"lt": "gt", "gt": "lt", "le": "ge", "ge": "le"}


def carried(operation: Operation) -> int:
    """Counts the values that a loop carries from iteration to iteration."""
    return jax_compat.carries(operation.equation) if operation.name == "scan" else len(operation.inputs)


def is_reversed(operation: Operation) -> bool:
    """Whether a `scan` goes from the last slice to the first."""
    return jax_compat.scan_options(operation.equation)["reverse"]


def trip_count(operation: Operation) -> int | None:
    """Counts the iterations of a loop; None where only running it tells."""
    if operation.name == "scan":
        return jax_compat.scan_options(operation.equation)["length"]
    body, test = operation.blocks
    compared = _producer(test, test.outputs[0])
    if compared is None or compared.name not in _FLIPPED:
        return None
    name, (counter, bound) = compared.name, compared.inputs
    if not isinstance(counter, int) or counter not in test.inputs:
        name, (bound, counter) = _FLIPPED[name], compared.inputs
    if not isinstance(counter, int) or counter not in test.inputs:
        return None
    place = test.inputs.index(counter)
    numbers = (_number(operation.inputs[place]), _step(body, place), _number(bound))
    if any(n is None for n in numbers):
        return None
    start, step, stop = (n or 0 for n in numbers)
    upward = name in ("lt", "le")
    if step == 0 or (step > 0) != upward:
        return None
    inclusive = (1 if upward else -1) if name in ("le", "ge") else 0
    return len(range(start, stop + inclusive, step))


def _producer(block: Block, value: Input) -> Operation | None:
    return next((op for op in block.operations if value in op.outputs), None)


def _number(value: Input) -> int | None:
    number = np.asarray(value.value) if isinstance(value, Literal) else None
    return int(number) if number is not None and np.issubdtype(number.dtype, np.integer) else None


def _step(body: Block, place: int) -> int | None:
    """Returns the number that a body adds to a carried one, if that is all that it does with it."""
    update = _producer(body, body.outputs[place])
    if update is None or update.name not in ("add", "sub") or update.inputs[0] != body.inputs[place]:
        return None
    number = _number(update.inputs[1])
    return number if number is None or update.name == "add" else -number
