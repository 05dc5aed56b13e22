"""Says where two codes compute otherwise: what is written is traced again, and must be what the plan runs.

    differences(code, again)        [] where both compute the same, whatever the order; else the operations apart

Two values are the same where equal primitives, with equal parameters, make them of the same values. So the order of
operations that do not depend on each other does not count, nor what nobody reads.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ..code.loops import LOOPS, carried
from ..code.operations import Block, Code, Input, Literal, Operation
from ..jax_compat import own_params
from ..rules.per_shard import bind

# What JAX writes for a sum of cotangents is a sum.
_ALIKE = {"add_any": "add"}
# Parameters that say nothing of what is computed here: where arrays lie, and that a number is Python's.
_BESIDE = frozenset(
    ("weak_type", "sharding", "out_sharding", "update_jaxpr", "update_consts", "preferred_element_type")
)


class _Terms:
    """Numbers what is computed: equal numbers for the same."""

    def __init__(self):
        self.numbers: dict[Hashable, int] = {}
        self.scalars: dict[int, Any] = {}

    def number(self, *term: Hashable) -> int:
        return self.numbers.setdefault(term, len(self.numbers))

    def constant(self, value: Any) -> int:
        if jnp.issubdtype(getattr(value, "dtype", np.float32), jax.dtypes.extended):
            value = jax.random.key_data(value)
        dtype = getattr(value, "dtype", None) or jax.dtypes.result_type(value)
        array = np.asarray(value, dtype)
        number = self.number("constant", str(dtype), array.shape, array.tobytes())
        if not array.ndim:
            self.scalars[number] = array
        return number


class _Walk:
    """Numbers the values of one code."""

    def __init__(self, terms: _Terms, code: Code):
        self.terms = terms
        self.known: dict[int, int] = {n: terms.constant(array) for n, array in code.constants.items()}
        arguments = [n for n in code.block.inputs if n not in code.constants]
        self.known |= {n: terms.number("argument", position) for position, n in enumerate(arguments)}
        self.met: dict[int, Operation] = {}
        self.outputs = self.block(code.block, 0)

    def read(self, value: Input) -> int:
        return self.terms.constant(value.value) if isinstance(value, Literal) else self.known[value]

    def block(self, block: Block, depth: int) -> tuple[int, ...]:
        for operation in block.operations:
            self.operation(operation, depth)
        return tuple(map(self.read, block.outputs))

    def constants(self, operation: Operation) -> list[int] | None:
        """Returns what an operation makes of numbers alone, which JAX may work out; None where it reads others."""
        if operation.blocks or not operation.inputs or any(v.aval.shape for v in operation.equation.outvars):
            return None
        numbers = [self.terms.scalars.get(self.read(value)) for value in operation.inputs]
        if any(number is None for number in numbers):
            return None
        return [self.terms.constant(made) for made in bind(operation, numbers, operation.params)]

    def operation(self, operation: Operation, depth: int):
        if is_same(operation):
            self.known[operation.outputs[0]] = self.read(operation.inputs[0])
            return
        if (constants := self.constants(operation)) is not None:
            self.known.update(zip(operation.outputs, constants, strict=True))
            return
        invariant = _invariant(operation)
        carries = carried(operation) if operation.name in LOOPS else 0
        for block in operation.blocks:
            for position, value in enumerate(block.inputs):
                inside = self.terms.number("inside", depth, position)
                self.known[value] = self.read(operation.inputs[position]) if position in invariant else inside
        blocks = tuple(self.block(block, depth + 1) for block in operation.blocks)
        left = [i for i in range(len(operation.inputs)) if i not in invariant]
        of = tuple((i, self.read(operation.inputs[i])) for i in left)
        name = _ALIKE.get(operation.name, operation.name)
        made = tuple(number for block in blocks for i, number in enumerate(block) if i not in invariant)
        for position, output in enumerate(operation.outputs):
            if position in invariant and position < carries:
                self.known[output] = self.read(operation.inputs[position])
                continue
            self.known[output] = self.terms.number(name, parameters(operation, carries), of, made, position)
            self.met.setdefault(self.known[output], operation)


def is_same(operation: Operation) -> bool:
    """Says whether an operation only says of a number that it is no longer Python's."""
    if operation.name != "convert_element_type":
        return False
    before, after = (v.aval for v in (*operation.equation.invars, *operation.equation.outvars))
    return before.dtype == after.dtype


def _invariant(operation: Operation) -> frozenset[int]:
    """Returns which values a loop carries that its body never changes: JAX may leave them out of the loop."""
    if operation.name not in LOOPS:
        return frozenset()
    body = operation.blocks[0]
    return frozenset(i for i in range(carried(operation)) if body.outputs[i] == body.inputs[i])


def parameters(operation: Operation, carries: int = 0) -> str:
    """Returns the parameters of an operation that say what it computes, as text."""
    own = own_params(operation.equation).items()
    left = sorted((name, value) for name, value in own if name not in _BESIDE and not _is_usual(name, value))
    said = [f"{name}={_plain(value)}" for name, value in left if not (carries and name == "carries")]
    return "; ".join([*said, *(str(v.aval.dtype) for v in operation.equation.outvars)])


def _is_usual(name: str, value: Any) -> bool:
    return value is None or (name == "strides" and set(value) <= {1})


def _plain(value: Any) -> str:
    if isinstance(value, list | tuple):
        # One mesh axis may stand alone, or as a tuple.
        is_axis = len(value) == 1 and isinstance(value[0], str)
        return value[0] if is_axis else f"({', '.join(map(_plain, value))})"
    return str(np.dtype(value)) if isinstance(value, type) and issubclass(value, np.generic) else str(value)


def differences(code: Code, again: Code) -> Sequence[Operation]:
    """Returns the first operations of a code that another one does not compute; none where both compute the same."""
    terms = _Terms()
    one, other = _Walk(terms, code), _Walk(terms, again)
    if one.outputs == other.outputs:
        return ()
    apart = [operation for number, operation in one.met.items() if number not in other.met]
    alike = frozenset(other.known.values())
    first = [operation for operation in apart if all(one.known[value] in alike for value in operation.reads)]
    return first or apart or [*one.met.values()][-1:]
