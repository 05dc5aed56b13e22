"""Writes operations of attention in the place of the matmuls that they replace."""

from __future__ import annotations

import dataclasses
import string
from collections.abc import Callable, Sequence
from typing import Any

import jax.numpy as jnp
from jax import lax

from ..code.operations import Operation
from ..passes.rewrites import Replacing
from ..tensors.attention import Attention, attention_grad_p, attention_p
from ..tensors.marks import mark_rename
from .softmaxes import Softmaxes
from .uses import DEPTH, VALUE, Axes, Matmul, Operand, Uses


class Emitter(Replacing):
    """Writes operations in the place of others, and names the axes of what they make.

    Attributes:
        names: of the new values.
    """

    def __init__(self, softmaxes: Softmaxes):
        super().__init__(softmaxes.program.unmerged)
        self.program, self.query, self.key = softmaxes.program, softmaxes.query, softmaxes.key
        self.names: list[Axes] = []
        # Where operations are written, and the one that they take their line and scope from.
        self.here: list[Operation] = []
        self.like: Operation | None = None

    def emit(self, use: Uses) -> None:
        """Writes one attention in the place of the matmuls that make its result, or its gradients."""
        replaced = [use.out] if use.out is not None else [each for each in use.gradients if each is not None]
        first = min((each.operation for each in replaced if each is not None), key=lambda op: op.outputs[0])
        self.here, self.like = self.before.setdefault(first, []), first
        how = self.how(use)
        dtype = jnp.result_type(*(self.dtype(operand.value) for operand in (use.q, use.k, use.v)))
        operands = [self.given(operand, dtype) for operand in (use.q, use.k, use.v)]
        depth, value = (self.own_name(use.q, DEPTH), self.own_name(use.v, VALUE))
        out_axes = tuple(VALUE if axis == DEPTH else axis for axis in use.q.axes)
        rows = tuple(axis for axis in use.q.axes if axis != DEPTH)
        named = {DEPTH: depth, VALUE: value}

        def names(axes: Axes) -> Axes:
            return tuple(named.get(axis or "", axis) for axis in axes)

        if use.out is not None:
            straight = self.straight(use.out, out_axes, dtype)
            results = self.several(attention_p, operands, how, [names(out_axes), names(rows)], [straight, None])
            self.finish(use.out, results[0], out_axes)
            return
        assert use.cotangent is not None
        kept = self.several(attention_p, operands, how, [names(out_axes), names(rows)], [None, None])
        cotangent = self.moved(self.given(use.cotangent, dtype), use.cotangent.axes, out_axes)
        every = [(matmul, operand.axes) for matmul, operand in zip(use.gradients, (use.q, use.k, use.v), strict=True)]
        targets = [self.straight(matmul, axes, dtype) if matmul else None for matmul, axes in every]
        reads = [*operands, *kept, cotangent]
        made = self.several(attention_grad_p, reads, how, [names(axes) for _, axes in every], targets)
        for (matmul, axes), result in zip(every, made, strict=True):
            if matmul is not None:
                self.finish(matmul, result, axes)

    def how(self, use: Uses) -> Attention:
        """Returns the parameters of the operation, a letter for each axis."""
        axes = dict.fromkeys((*use.q.axes, self.key, VALUE))
        letter = dict(zip(axes, string.ascii_lowercase, strict=False))
        q, k, v = ("".join(letter[axis] for axis in operand.axes) for operand in (use.q, use.k, use.v))
        shown = use.logits.shown
        return Attention(
            *(q, k, v, letter[self.query], letter[self.key], letter[DEPTH], letter[VALUE], None, None),
            causal=shown.causal,
            window=shown.window,
            scale=use.logits.scale,
        )

    def own_name(self, operand: Operand, axis: str) -> str | None:
        return self.names_of(operand.value)[operand.axes.index(axis)]

    def straight(self, matmul: Matmul, axes: Axes, dtype: Any) -> int | None:
        """Returns the number of a matmul's result where the operation makes it as it is; None where it is moved."""
        (number,) = matmul.operation.outputs
        same = _without_depth(axes) == _without_depth(matmul.result) and self.dtype(number) == dtype
        return number if same else None

    def finish(self, matmul: Matmul, made: int, axes: Axes) -> None:
        """Writes what makes the result of a matmul from that of the operation, in its place."""
        (number,) = matmul.operation.outputs
        self.here = self.instead.setdefault(matmul.operation, [])
        self.like = matmul.operation
        if made == number:
            return
        order = [_without_depth(axes).index(axis) for axis in _without_depth(matmul.result)]
        dtype, shape = self.dtype(number), self.shape(number)
        moved = order != sorted(order)
        if moved:
            target = number if self.dtype(made) == dtype else None
            names = tuple(self.names_of(made)[axis] for axis in order)
            made = self.one(lambda x: lax.transpose(x, order), [made], names, target)
        if made != number:
            assert self.shape(made) == shape
            self.one(lambda x: lax.convert_element_type(x, dtype), [made], self.names_of(made), number)

    # Values

    def names_of(self, value: int) -> Axes:
        known = self.program.names
        return known[value] if value < len(known) else self.names[value - len(known)]

    def given(self, operand: Operand, dtype: Any) -> int:
        """Returns an operand of one dtype, whose axes are called as those of the scores are."""
        value, has = operand.value, self.names_of(operand.value)
        if self.dtype(value) != dtype:
            value = self.one(lambda x: lax.convert_element_type(x, dtype), [value], has)
        wanted = tuple(h if axis in (DEPTH, VALUE) else axis for h, axis in zip(has, operand.axes, strict=True))
        if wanted == has:
            return value
        other = [i for i, (one, new) in enumerate(zip(has, wanted, strict=True)) if one != new]
        before, after = (tuple(n if i in other else None for i, n in enumerate(names)) for names in (has, wanted))
        return self.one(lambda x: mark_rename(x, before, after), [value], wanted)

    def moved(self, value: int, axes: Axes, wanted: Axes) -> int:
        """Returns a value whose axes are in another order."""
        order = [axes.index(axis) for axis in wanted]
        if order == sorted(order):
            return value
        names = tuple(self.names_of(value)[axis] for axis in order)
        return self.one(lambda x: lax.transpose(x, order), [value], names)

    # Operations

    def one(self, function: Callable[..., Any], reads: Sequence[int], names: Axes, number: int | None = None) -> int:
        """Writes an operation of one result, of this number or a new one."""
        return self.written(function, reads, [names], [number])[0]

    def several(
        self, primitive: Any, reads: Sequence[int], how: Attention, names: Sequence[Axes], numbers: Sequence[int | None]
    ) -> list[int]:
        """Writes an operation of attention."""
        return self.written(lambda *arrays: primitive.bind(*arrays, how=how), reads, names, numbers)

    def written(
        self, function: Callable[..., Any], reads: Sequence[int], names: Sequence[Axes], numbers: Sequence[int | None]
    ) -> list[int]:
        like = self.like
        assert like is not None
        (equation,) = self.jaxpr(function, reads).equations
        made = []
        for variable, has, number in zip(equation.outvars, names, numbers, strict=True):
            made.append(self.new_named(variable.aval, has) if number is None else number)
        name, inputs, outputs = equation.primitive.name, tuple(reads), tuple(made)
        self.here.append(dataclasses.replace(like, name=name, equation=equation, inputs=inputs, outputs=outputs))
        return made

    def new_named(self, aval: Any, names: Axes) -> int:
        self.names.append(tuple(names))
        return self.new(aval.shape, aval.dtype)


def _without_depth(axes: Axes) -> Axes:
    """Axes, the depth and the values' own called alike."""
    return tuple(VALUE if axis == DEPTH else axis for axis in axes)
