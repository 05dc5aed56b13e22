"""Exchanges: the collectives that a local form asks for, counted without running it.

A local form is a function of shards that asks a device for what it needs of others. Here it is evaluated on shapes
alone, for a device that writes down every request; what it wrote down is what the plan counts and shows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from .code import Code, Literal
from .rules.local import LOCAL_FORMS, Local
from .spec import Axes, Spec, local_shape
from .steps import Compute

Memo = dict[tuple, tuple["Exchange", ...]]


class Exchange(NamedTuple):
    """One collective of a local form.

    Attributes:
        kind: all-reduce, all-gather or collective-permute.
        axes: the mesh axes, major first.
        shape: of its operand on one device.
        dtype: of its operand.
    """

    kind: str
    axes: Axes
    shape: tuple[int, ...]
    dtype: Any


class _Recorder:
    """A device that writes down what it is asked for, and answers with zeros of the right shape."""

    def __init__(self, sizes: Mapping[str, int]):
        self.sizes = sizes
        self.asked: list[Exchange] = []

    def note(self, kind: str, x: Any, axes: Axes):
        self.asked.append(Exchange(kind, axes, tuple(np.shape(x)), jnp.result_type(x)))

    def index(self, axes: Axes) -> Any:
        return jnp.zeros((), jnp.int32)

    def all_reduce(self, x: Any, axes: Axes, operation: str) -> Any:
        self.note("all-reduce", x, axes)
        return x

    def all_gather(self, x: Any, axes: Axes, axis: int) -> Any:
        self.note("all-gather", x, axes)
        count = int(np.prod([self.sizes[a] for a in axes]))
        return jnp.zeros((*x.shape[:axis], x.shape[axis] * count, *x.shape[axis + 1 :]), x.dtype)

    def permute(self, x: Any, axes: Axes, distance: int, wrap: bool = False) -> Any:
        crossed = crossed_axes(axes, distance, wrap, self.sizes)
        if crossed:
            self.note("collective-permute", x, crossed)
        return x if not distance else jnp.zeros_like(x)


def crossed_axes(axes: Axes, distance: int, wrap: bool, sizes: Mapping[str, int]) -> Axes:
    """The mesh axes that a permute of so many parts crosses; none where nothing is sent.

    A distance that is a multiple of a minor axis leaves the place on that axis as it is.
    """
    count = int(np.prod([sizes[a] for a in axes]))
    left = abs(distance % count if wrap else distance)
    if not left or left >= count:
        return ()
    crossed = list(axes)
    while crossed and left % sizes[crossed[-1]] == 0:
        left //= sizes[crossed.pop()]
    return tuple(crossed)


def local_of(step: Compute, code: Code) -> Local:
    """The operation of a step as its local form sees it."""
    operation = step.operation
    return Local(
        operation,
        tuple(code.shape_of(i) for i in operation.inputs),
        tuple(code.shapes[o] for o in operation.outputs),
        tuple(spec or Spec(()) for spec in step.operands),
        step.results,
    )


def exchanges(step: Compute, code: Code, sizes: Mapping[str, int], memo: Memo) -> tuple[Exchange, ...]:
    """Returns the collectives inside a step, in the order in which its local form asks for them.

    Args:
        step: of a plan.
        code: the program's.
        sizes: the mesh axes' sizes.
        memo: where the answers of a program are kept.
    """
    if not step.exchanged:
        return ()
    key = (step.operation, step.operands, step.results, tuple(sizes.items()))
    if key not in memo:
        memo[key] = _recorded(step, code, sizes)
    return memo[key]


def _recorded(step: Compute, code: Code, sizes: Mapping[str, int]) -> tuple[Exchange, ...]:
    recorder, local = _Recorder(sizes), local_of(step, code)

    def shard(position: int) -> Any:
        value = step.operation.inputs[position]
        if isinstance(value, Literal):
            return value.value
        shape = local_shape(code.shapes[value], local.operands[position], sizes)
        return jax.ShapeDtypeStruct(shape, code.dtypes[value])

    given = [shard(i) for i in range(len(step.operation.inputs))]
    abstract = [g for g in given if isinstance(g, jax.ShapeDtypeStruct)]

    def run(*arrays: Any) -> Sequence[Any]:
        waiting = iter(arrays)
        operands = [next(waiting) if isinstance(g, jax.ShapeDtypeStruct) else g for g in given]
        return list(LOCAL_FORMS[step.operation.name].run(recorder, local, operands))

    jax.eval_shape(run, *abstract)
    return tuple(recorder.asked)
