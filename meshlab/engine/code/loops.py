"""Loops: what they carry from turn to turn, and how often they turn.

A `scan` says its length. How often a `while` turns is in general decided when it runs; where it counts from a constant
to a constant it is known before, as XLA knows it too.
"""

from __future__ import annotations

import numpy as np

from .. import jax_compat
from .operations import Block, Input, Literal, Operation

LOOPS = ("scan", "while")
_FLIPPED = {"lt": "gt", "gt": "lt", "le": "ge", "ge": "le"}


def carried(operation: Operation) -> int:
    """How many values a loop carries from turn to turn."""
    return jax_compat.carries(operation.equation) if operation.name == "scan" else len(operation.inputs)


def turns(operation: Operation) -> int | None:
    """How often the body of a loop runs, or None where only running tells."""
    if operation.name == "scan":
        return jax_compat.scan_options(operation.equation)["length"]
    body, test = operation.blocks
    compared = _made(test, test.outputs[0])
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


def _made(block: Block, value: Input) -> Operation | None:
    return next((op for op in block.operations if value in op.outputs), None)


def _number(value: Input) -> int | None:
    number = np.asarray(value.value) if isinstance(value, Literal) else None
    return int(number) if number is not None and np.issubdtype(number.dtype, np.integer) else None


def _step(body: Block, place: int) -> int | None:
    """What a body adds to a carried number, if that is all that it does with it."""
    made = _made(body, body.outputs[place])
    if made is None or made.name not in ("add", "sub") or made.inputs[0] != body.inputs[place]:
        return None
    number = _number(made.inputs[1])
    return number if number is None or made.name == "add" else -number
