"""Writes the operations of `ml.dispatch` and `ml.combine` in the place of a sort, its moves and ragged matmuls.

    x[order // k]                        →  send_experts       [experts, rows, embed]
    ragged_dot(rows, up, sizes)          →  ragged_experts     [experts, rows, ffn]
    made[argsort(order)]                 →  collect_experts    [tokens, k, embed]

Rows get another axis in front, and places for so many as may come to one device; all between is the same operation of
such rows. What reads tokens and choices finds them as they were.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.extend.core import Literal as Constant

from ..code.operations import Code, Input, Literal, Operation
from ..passes.rewrites import Replacing
from ..rules import ELEMENTWISE
from ..tensors.expert_primitives import collect_p, ragged_grad_p, ragged_p, route_p, send_p
from ..tensors.experts import Routing
from .rows import Move, Sorted


def with_operations(code: Code, every: Sequence[tuple[Sorted, float]]) -> Code:
    """Returns code in which sorted rows are moved by operations.

    Args:
        code: the program's.
        every: rows, each with the factor of places.
    """
    emitter = _Emitter(code)
    for rows, factor in every:
        _Rows(emitter, rows, factor).emit()
    return emitter.replaced()


class _Emitter(Replacing):
    """Writes operations in the place of others."""

    def write(
        self, like: Operation, function: Callable[..., Any], reads: Sequence[int], numbers: Sequence[int | None] = ()
    ) -> list[int]:
        """Writes an operation in the place of another, with its line and scope; results have given or new numbers."""
        jaxpr = self.jaxpr(function, reads)
        (equation,), value_of = jaxpr.equations, dict(zip(jaxpr.invars, reads, strict=True))
        wanted = numbers or [None] * len(equation.outvars)
        outputs = tuple(
            self.new(variable.aval.shape, variable.aval.dtype) if number is None else number
            for variable, number in zip(equation.outvars, wanted, strict=True)
        )
        name = equation.primitive.name
        inputs = tuple(Literal(atom.val) if isinstance(atom, Constant) else value_of[atom] for atom in equation.invars)
        self.put(like, dataclasses.replace(like, name=name, equation=equation, inputs=inputs, outputs=outputs))
        return [*outputs]

    def put(self, like: Operation, operation: Operation):
        self.instead.setdefault(like, []).append(operation)


class _Rows:
    """Writes all operations of the rows of one sort."""

    def __init__(self, emitter: _Emitter, rows: Sorted, factor: float):
        self.emitter, self.rows = emitter, rows
        shape = emitter.shape(rows.choice)
        self.tokens = shape[:-1] if rows.k else shape
        self.k = rows.k or 1
        self.count = math.prod(self.tokens) * self.k
        room = math.ceil(factor * self.count / rows.experts)
        self.places = rows.experts, room
        self.how = Routing(rows.experts, room, rows.experts * room / self.count, len(self.tokens))
        # The present number of each value that is rows.
        self.now: dict[int, int] = {}
        self.choice, self.ids, self.order = -1, -1, -1

    def emit(self):
        """Writes them in the order of the block."""
        self._route()
        for operation in self.rows.operations:
            move = self.rows.moves.get(operation)
            if move is not None:
                (self._collect if move.collects else self._send)(operation, move)
            else:
                self._pass(operation)

    def _route(self):
        sort, write = self.rows.sort, self.emitter.write
        self.emitter.put(sort, sort)
        choice = self._reshaped(sort, self.rows.choice, (*self.tokens, self.k))
        if self.emitter.dtype(choice) != jnp.int32:
            (choice,) = write(sort, lambda x: lax.convert_element_type(x, jnp.int32), [choice])
        how, places = self.how, self.places
        self.choice, self.ids, self.order = write(sort, lambda x: route_p.bind(x, how=how, places=places), [choice])

    def _reshaped(self, like: Operation, value: int, shape: tuple[int, ...], number: int | None = None) -> int:
        if self.emitter.shape(value) == shape and number is None:
            return value
        return self.emitter.write(like, lambda x: lax.reshape(x, shape), [value], [number])[0]

    def _send(self, operation: Operation, move: Move):
        rest = self.emitter.shape(move.moved)[1:]
        front = self.tokens if move.of_tokens else (*self.tokens, self.k)
        moved = self._reshaped(operation, move.moved, (*front, *rest))
        how, reads = self.how, [moved, self.choice, self.order]
        (made,) = self.emitter.write(operation, lambda *x: send_p.bind(*x, how=how, repeated=move.of_tokens), reads)
        self.now[operation.outputs[0]] = made

    def _collect(self, operation: Operation, move: Move):
        (number,) = operation.outputs
        shape, rows = self.emitter.shape(number), self.now[move.moved]
        front = self.tokens if move.of_tokens else (*self.tokens, self.k)
        how, reads = self.how, [rows, self.choice, self.order]
        straight = (*front, *shape[1:]) == shape
        collected = lambda *x: collect_p.bind(*x, how=how, summed=move.of_tokens)  # noqa: E731
        (made,) = self.emitter.write(operation, collected, reads, [number if straight else None])
        if not straight:
            self._reshaped(operation, made, shape, number)

    # Between moves

    def _pass(self, operation: Operation):
        if operation.name == "ragged_dot_general":
            self._multiply(operation)
        elif operation.name in ELEMENTWISE:
            inputs = tuple(self._beside(operation, value) for value in operation.inputs)
            outputs = tuple(self._new(value) for value in operation.outputs)
            self.emitter.put(operation, dataclasses.replace(operation, inputs=inputs, outputs=outputs))
        else:
            self._along_others(operation)

    def _new(self, value: int) -> int:
        self.now[value] = self.emitter.new((*self.places, *self.emitter.shape(value)[1:]), self.emitter.dtype(value))
        return self.now[value]

    def _beside(self, like: Operation, value: Input) -> Input:
        """Returns what rows meet in an elementwise operation: rows, or what is the same for all of them."""
        if not isinstance(value, int) or not (shape := self.emitter.shape(value)):
            return value
        if value in self.now:
            return self.now[value]
        if shape[0] == 1:
            return self._reshaped(like, value, (1, *shape))
        maker = self.rows.alike[value]
        (source,), wanted = maker.inputs, (*self.places, *shape[1:])
        dims, dtype = tuple(int(axis) + 1 for axis in maker.params["broadcast_dimensions"]), self.emitter.dtype(value)

        def spread(*array: Any) -> Any:
            (one,) = array or (np.asarray(source.value, dtype),)  # pyright: ignore[reportAttributeAccessIssue]: a literal
            return lax.broadcast_in_dim(one, wanted, dims)

        return self.emitter.write(like, spread, [source] if isinstance(source, int) else [])[0]

    def _along_others(self, operation: Operation):
        shape = (*self.places, *self.emitter.shape(operation.outputs[0])[1:])
        reads = [self.now.get(value, value) for value in operation.inputs if isinstance(value, int)]
        said = {name: value for name, value in operation.params.items() if name in _DEEPER and value is not None}
        changed = {**operation.params, **{name: _DEEPER[name](value, shape) for name, value in said.items()}}

        def run(*arrays: Any) -> Any:
            rest = iter(arrays)
            operands = [next(rest) if isinstance(each, int) else each.value for each in operation.inputs]
            return operation.equation.primitive.bind(*operands, **changed)

        made = self.emitter.write(operation, run, reads)
        self.now.update(zip(operation.outputs, made, strict=True))

    def _multiply(self, operation: Operation):
        left, right, _ = operation.inputs
        over, _ = operation.params["ragged_dot_dimension_numbers"].dot_dimension_numbers
        factor, (number,) = self.how.factor, operation.outputs
        assert isinstance(left, int)
        assert isinstance(right, int)
        if right in self.now:
            reads = [self.now[left], self.now[right], self.ids]
            grad = lambda *x: ragged_grad_p.bind(*x, stacked=0, factor=factor)  # noqa: E731
            self._as_before(operation, grad, reads, number)
            return
        transposed = tuple(over[1]) == (2,)
        reads = [self.now[left], right, self.ids]
        made = self._as_before(
            operation,
            lambda *x: ragged_p.bind(*x, inner=1, transposed=transposed, stacked=0, factor=factor),
            reads,
        )
        self.now[number] = made

    def _as_before(
        self, operation: Operation, function: Callable[..., Any], reads: Sequence[int], number: int | None = None
    ) -> int:
        """Writes a matmul, and a conversion behind it where it made another dtype."""
        dtype = self.emitter.dtype(operation.outputs[0])
        same = self.emitter.dtype(reads[0]) == dtype
        (made,) = self.emitter.write(operation, function, reads, [number if same else None])
        if same:
            return made
        return self.emitter.write(operation, lambda x: lax.convert_element_type(x, dtype), [made], [number])[0]


def _behind(value: Any, _shape: Any) -> Any:
    return tuple(int(axis) + 1 for axis in value)


# Parameters that speak of axes, as they are where rows have another axis in front: of these, and of the shape now.
_DEEPER: Mapping[str, Callable[[Any, tuple[int, ...]], Any]] = {
    **dict.fromkeys(("shape", "new_sizes"), lambda value, shape: shape),
    "broadcast_dimensions": lambda value, shape: (0, *_behind(value, shape)),
    "start_indices": lambda value, shape: (0, *value),
    "limit_indices": lambda value, shape: (*shape[:2], *value[1:]),
    "strides": lambda value, shape: (1, *value),
    "padding_config": lambda value, shape: ((0, 0, 0), *value),
    "permutation": lambda value, shape: (0, *_behind(value, shape)),
    **dict.fromkeys(("dimension", "axis"), lambda value, shape: value + 1),
    **dict.fromkeys(("dimensions", "axes"), _behind),
}
