"""A per-shard implementation runs an operation on shards that depend on each other.

Most operations run on shards as they are. Some must communicate: a maximum is the greatest of the devices' maxima, a
running sum starts from the sums of the shards before, a convolution reads over the edges of its shard. Such an
operation has a **per-shard implementation**: a function of one device's shards, which asks a `Device` for collectives.

    reduce_max x[hidden] over hidden, split over model      device.all_reduce(local maximum, ("model",), "max")

The same function runs twice: on shapes alone, with a device that records the collectives for the plan to count
(`plans.per_shard_collectives`), and on shards, with a device that runs them (`running.lower`), so the two agree.

It is used where a factor that the rule calls *per-shard* is sharded; else the primitive runs as it is.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from ..code.operations import Operation
from ..collectives.device import Device
from ..specs.spec import Axes, Spec, local_shape
from .table import LOCAL_PARAMS, Shape


@dataclasses.dataclass(frozen=True)
class ShardedOperation:
    """Describes a sharded operation to its per-shard implementation.

    Attributes:
        operation: the operation.
        operand_shapes: the operands' global shapes.
        result_shapes: the results' global shapes.
        operands: each operand's spec; literals and scalars are replicated.
        results: each result's spec.
    """

    operation: Operation
    operand_shapes: tuple[Shape, ...]
    result_shapes: tuple[Shape, ...]
    operands: tuple[Spec, ...]
    results: tuple[Spec, ...]

    @property
    def params(self) -> dict[str, Any]:
        """Returns the primitive's parameters for global shapes."""
        return self.operation.params

    def split(self, axis: int, operand: int = 0) -> Axes:
        """Returns the mesh axes that shard an axis of an operand."""
        return self.operands[operand].splits[axis]

    def run(self, operands: Sequence[Any], sizes: Mapping[str, int], **changed: Any) -> list[Any]:
        """Runs the primitive on shards, with parameters converted to local shapes, and some changed."""
        shapes = tuple(map(local_shape, self.result_shapes, self.results, (sizes,) * len(self.results)))
        convert = LOCAL_PARAMS.get(self.operation.name)
        params = convert(self.params, tuple(np.shape(o) for o in operands), shapes) if convert else self.params
        return bind(self.operation, operands, params | changed)


Binder = Callable[[Operation, Sequence[Any], dict[str, Any]], list[Any]]
BINDERS: dict[str, Binder] = {}


def binder(name: str) -> Callable[[Binder], Binder]:
    """Registers a function that runs a primitive on shards, where binding it alone is not enough."""

    def register(function: Binder) -> Binder:
        BINDERS[name] = function
        return function

    return register


def bind(operation: Operation, operands: Sequence[Any], params: dict[str, Any]) -> list[Any]:
    """Runs an operation's primitive with parameters of its own; returns its results as a list."""
    if operation.name in BINDERS:
        return BINDERS[operation.name](operation, operands, params)
    primitive = operation.equation.primitive
    results = primitive.bind(*operands, **params)
    return list(results) if primitive.multiple_results else [results]


Function = Callable[[Device, ShardedOperation, Sequence[Any]], Sequence[Any]]


@dataclasses.dataclass(frozen=True)
class PerShard:
    """Describes the per-shard implementation of a primitive.

    Attributes:
        run: the function of shards.
        summary: what happens to the sharded `{dims}`, for people.
        padded: whether it may be used on padded axes.
        gathers: whether it gathers one slice of each shard.
        composite: whether it is made of many operations where nothing is split, too: its own arrays take memory.
        moves: whether it moves data, and computes nothing.
    """

    run: Function
    summary: str
    padded: bool
    gathers: bool
    composite: bool
    moves: bool

    def said(self, dims: str, several: bool) -> str:
        """Returns the beginning of a sentence about sharded dims, one or several."""
        text = self.summary.format(dims=dims, are="are" if several else "is")
        return f"{text[:1].upper()}{text[1:]}"


PER_SHARD: dict[str, PerShard] = {}


def per_shard(
    *names: str,
    summary: str,
    padded: bool = False,
    gathers: bool = False,
    composite: bool = False,
    moves: bool = False,
) -> Callable[[Function], Function]:
    """Registers the per-shard implementation of one or more primitives.

    The function takes the device, the operation with its specs, and the shards; it returns the results' shards.

    Args:
        *names: the primitives.
        summary: what happens to the sharded dims, for people: "{dims} {are} shifted".
        padded: whether it may be used where the sharded axis is padded: the padding is then neutral.
        gathers: whether it gathers one slice of each shard; where a shard is one element the operand is gathered
            instead, which other operations may read as well.
        composite: whether it is made of many operations where nothing is split, too.
        moves: whether it moves data alone, so that a device computes meanwhile.
    """

    def register(function: Function) -> Function:
        PER_SHARD.update(dict.fromkeys(names, PerShard(function, summary, padded, gathers, composite, moves)))
        return function

    return register
