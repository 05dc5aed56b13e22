"""Builds the terms of operators that only name, reshape, transpose, reverse or repeat, and of reductions of constants.

    x.T.T → x        x[:, None].reshape(8, 8) → x        broadcast(broadcast(x)) → one broadcast        sum(ones(8)) → 8

Parameters are those of shapes without axes of size 1 (see `terms`), so that adding, moving or removing an axis of size
1 does not change the term.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from ..code.operations import Operation
from ..rules import TRAITS, names_where
from ..rules.traits import IDEMPOTENT
from .terms import Number, Shape, Terms, positions, squeezed

# Returns the term of an operation's result; None where nothing simplifies it.
Mover = Callable[[Terms, Operation, list[Number]], Number | None]


def _operand_shape(operation: Operation) -> Shape:
    return tuple(operation.equation.invars[0].aval.shape)


def _result(operation: Operation) -> Any:
    return operation.equation.outvars[0].aval


def _reshape(terms: Terms, operation: Operation, inputs: list[Number]) -> Number | None:
    (number,) = inputs
    if operation.name == "reshape" and operation.params["dimensions"] is not None:
        return None
    shape = squeezed(_result(operation).shape)
    while terms[number].name == "reshape":
        (number,) = terms[number].inputs
    term = terms[number]
    if term.name == "const" or term.shape == shape:
        return number
    return terms.make("reshape", (), (number,), shape, term.dtype)


def _broadcast(terms: Terms, operation: Operation, inputs: list[Number]) -> Number:
    (number,) = inputs
    shape, target = _operand_shape(operation), _result(operation).shape
    where = positions(target)
    axes = tuple(where[a] for a, n in zip(operation.params["broadcast_dimensions"], shape, strict=True) if n != 1)
    return repeated(terms, number, axes, squeezed(target))


def repeated(terms: Terms, number: Number, axes: tuple[int, ...], shape: Shape) -> Number:
    """Broadcasts a term, whose axes become `axes` of the shape."""
    term = terms[number]
    if term.name == "const" or term.shape == shape:
        return number
    if term.name == "broadcast":
        return repeated(terms, term.inputs[0], tuple(axes[a] for a in term.params), shape)
    return terms.make("broadcast", axes, (number,), shape, term.dtype)


def _transpose(terms: Terms, operation: Operation, inputs: list[Number]) -> Number:
    (number,) = inputs
    shape, term = _operand_shape(operation), terms[number]
    where = positions(shape)
    order = tuple(where[a] for a in operation.params["permutation"] if shape[a] != 1)
    if term.name == "transpose":
        (number,), order = term.inputs, tuple(term.params[axis] for axis in order)
        term = terms[number]
    if term.name == "const" or order == tuple(range(len(order))):
        return number
    return terms.make("transpose", order, (number,), tuple(term.shape[axis] for axis in order), term.dtype)


def _reverse(terms: Terms, operation: Operation, inputs: list[Number]) -> Number:
    """Reverses a term: the gradient of a transposed convolution reverses its kernel twice."""
    (number,) = inputs
    shape = _operand_shape(operation)
    where = positions(shape)
    axes = frozenset(where[a] for a in operation.params["dimensions"] if shape[a] != 1)
    if terms[number].name == "rev":
        axes ^= frozenset(terms[number].params)
        (number,) = terms[number].inputs
    return (
        terms.make("rev", tuple(sorted(axes)), (number,), terms[number].shape, terms[number].dtype) if axes else number
    )


def _concatenate(_terms: Terms, operation: Operation, inputs: list[Number]) -> Number | None:
    """Returns the only piece that has elements, as `jnp.pad` makes them for a dim that it does not pad."""
    along = operation.params["dimension"]
    pieces = [i for i, v in zip(inputs, operation.equation.invars, strict=True) if v.aval.shape[along]]
    return pieces[0] if len(pieces) == 1 else None


def _reduce(terms: Terms, operation: Operation, inputs: list[Number]) -> Number | None:
    """Reduces a constant: a compiler does so itself, and no device sends its part."""
    (number,) = inputs
    value, shape = terms.number_of(number), _operand_shape(operation)
    count = math.prod(shape[axis] for axis in operation.params["axes"])
    if value is None or not count:
        return None
    if operation.name == "reduce_sum":
        with np.errstate(all="ignore"):
            return terms.constant(value * count, _result(operation).dtype)
    return number if TRAITS[operation.name].joins in IDEMPOTENT else None


MOVERS: dict[str, Mover] = {
    **dict.fromkeys(names_where(lambda traits: traits.identity), lambda _terms, _operation, inputs: inputs[0]),
    **dict.fromkeys(names_where(lambda traits: traits.kind == "bitcast" and not traits.identity), _reshape),
    **dict.fromkeys(names_where(lambda traits: traits.kind == "reduce"), _reduce),
    "broadcast_in_dim": _broadcast,
    "concatenate": _concatenate,
    "rev": _reverse,
    "transpose": _transpose,
}
