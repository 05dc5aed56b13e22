"""Rules of tokens that go to experts and back (`tensors/experts.py`), and of the matmuls of their rows.

    batch:data experts:data      an all-to-all there, and one back; each device sorts what it gets
    experts:data                 each device has all tokens, keeps those of its experts, and what comes back is a
                                 partial sum: with the batch on `data` around, an all-gather and a reduce-scatter
    batch:data                   nothing is sent: the places of all experts are split

How the first of them, `route_experts`, is split is said in `planning/routed_splits.py`; all others follow it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import jax.numpy as jnp

from ..code.operations import Operation
from ..collectives.device import Device
from ..collectives.kinds import Of
from ..tensors.experts import Counts, Place, Routing, collect, route, send, weigh
from .matmuls import Matmuls, Sizes
from .per_shard import ShardedOperation, per_shard
from .table import NONE, AxisFactors, Factors, Facts, Routed, Shape, local_params, rule
from .traits import FIRST, NOWHERE, Groups, linear_in, opaque

_SUMMARY = "{dims} {are} chosen by tokens"
_THERE = "{dims} {are} split over {axes}: tokens are sent to the devices of their experts."
_BACK = "{dims} {are} split over {axes}: the experts' results are sent back to the devices of their tokens."
_NUMBERS = Of("which experts the rows are for", None, _THERE)
_ROWS = Of("rows to their experts", None, _THERE)
_RETURNED = Of("rows back from their experts", 0, _BACK)


class _Axes:
    """The factors of tokens, choices, experts and their places; all others come behind."""

    def __init__(self, how: Routing):
        self.stack = tuple(range(how.stacked))
        self.tokens = tuple(range(how.stacked, how.stacked + how.items))
        self.k, self.experts, self.rows = (how.stacked + how.items + i for i in range(3))
        self.choice = (*self.stack, *self.tokens, self.k)
        self.places = (*self.stack, self.experts, self.rows)

    def rest(self, count: int) -> AxisFactors:
        return tuple(self.rows + 1 + i for i in range(count))

    def factors(self, operands: Sequence[AxisFactors], results: Sequence[AxisFactors], **options: Any) -> Factors:
        followed = options.pop("followed", ())
        routed = Routed(frozenset(self.tokens), frozenset((self.experts,)), frozenset((self.rows,)), followed)
        return Factors(
            tuple(operands),
            tuple(results),
            per_shard=frozenset((self.experts,)),
            unsharded=frozenset((self.k,)),
            propagating=NONE,
            routed=routed,
            **options,
        )


@rule("route_experts", traits=opaque(linear=NOWHERE, multiplies=None))
def _route(operation: Operation, facts: Facts) -> Factors:
    axes = _Axes(operation.params["how"])
    limits = {axes.rows: operation.params["places"][1]}
    return axes.factors((axes.choice,), (axes.choice, axes.places, axes.places), limits=limits)


@local_params("route_experts")
def _route_local(params: dict[str, Any], _operands: tuple[Shape, ...], results: tuple[Shape, ...]) -> dict[str, Any]:
    return params | {"places": results[1][params["how"].stacked :]}


def _linear_if_weighed(operation: Operation) -> Groups:
    return (FIRST if len(operation.inputs) == 3 else linear_in({0}, {3}))(operation)


@rule("send_experts", traits=opaque(linear=_linear_if_weighed, multiplies=None))
def _send(operation: Operation, facts: Facts) -> Factors:
    axes = _Axes(operation.params["how"])
    own = (*axes.stack, *axes.tokens) if operation.params["repeated"] else axes.choice
    rest = axes.rest(len(facts.operands[0]) - len(own))
    weights = (axes.choice,) * (len(facts.operands) - 3)
    operands = ((*own, *rest), axes.choice, axes.places, *weights)
    return axes.factors(operands, ((*axes.places, *rest),), followed=(1, 2))


@rule("collect_experts", traits=opaque(linear=FIRST, multiplies=None))
def _collect(operation: Operation, facts: Facts) -> Factors:
    axes = _Axes(operation.params["how"])
    own = (*axes.stack, *axes.tokens) if operation.params["summed"] else axes.choice
    rest = axes.rest(len(facts.operands[0]) - len(axes.places))
    operands = ((*axes.places, *rest), axes.choice, axes.places)
    # Where devices have all tokens, each has the rows of its own experts, and zeros for the others.
    return axes.factors(operands, ((*own, *rest),), summed=frozenset((axes.experts,)), followed=(1, 2))


# Not in its weights: what it returns beside the sum are the rows, whatever these are.
@rule("weigh_experts", traits=opaque(linear=FIRST, multiplies=None))
def _weigh(operation: Operation, facts: Facts) -> Factors:
    axes = _Axes(operation.params["how"])
    rest = axes.rest(len(facts.operands[0]) - len(axes.places))
    operands = ((*axes.places, *rest), axes.choice, axes.places, axes.choice)
    results = ((*axes.stack, *axes.tokens, *rest), (*axes.choice, *rest))
    return axes.factors(operands, results, summed=frozenset((axes.experts,)), followed=(1, 2))


@rule("pair_experts", traits=opaque(linear=linear_in({0}, {1}), multiplies=None))
def _pair(operation: Operation, facts: Facts) -> Factors:
    """What a device has not is zero in the first: its partial sum is as large as the second behind it, and less."""
    each = tuple(range(len(facts.operands[0])))
    k = len(facts.results[0])
    cotangent = (*each[: k - 1], *each[k:])
    return Factors(
        (each, cotangent), (each[:k],), summed=frozenset(each[k:]), propagating=NONE, through=frozenset((0,))
    )


def _of_rows(operation: Operation, operands: Sequence[Sizes], result: Sizes) -> Matmuls:
    """Counts the rows that there are: each of a device's places costs nothing while it is empty."""
    stacked, inner = operation.params["stacked"], operation.params["inner"]
    rows = math.prod(operands[0][stacked : stacked + 2]) / operation.params["factor"]
    cut = len(operands[0]) - inner
    columns, summed = math.prod(result[stacked + 2 :]), math.prod(operands[0][cut:])
    return Matmuls(rows, columns, summed, math.prod(operands[0][:stacked]))


def _of_pairs(operation: Operation, operands: Sequence[Sizes], _result: Sizes) -> Matmuls:
    stacked = operation.params["stacked"]
    rows = math.prod(operands[0][stacked : stacked + 2]) / operation.params["factor"]
    left, right = (math.prod(sizes[stacked + 2 :]) for sizes in operands[:2])
    return Matmuls(left, right, rows, math.prod(operands[0][:stacked]))


@rule("ragged_experts", traits=opaque(linear=linear_in({0}, {1}), multiplies=_of_rows))
def _ragged(operation: Operation, facts: Facts) -> Factors:
    stacked, inner = operation.params["stacked"], operation.params["inner"]
    stack, (experts, rows) = tuple(range(stacked)), (stacked, stacked + 1)
    outer = len(facts.operands[1]) - stacked - 1 - inner
    summed = tuple(stacked + 2 + i for i in range(inner))
    made = tuple(stacked + 2 + inner + i for i in range(outer))
    weights = (*made, *summed) if operation.params["transposed"] else (*summed, *made)
    places = (*stack, experts, rows)
    return Factors(
        ((*places, *summed), (*stack, experts, *weights), places),
        ((*places, *made),),
        summed=frozenset(summed),
        propagating=NONE,
        routed=Routed(NONE, frozenset((experts,)), frozenset((rows,)), (2,)),
    )


@rule("ragged_experts_grad", traits=opaque(linear=linear_in({0}, {1}), multiplies=_of_pairs))
def _ragged_grad(operation: Operation, facts: Facts) -> Factors:
    stacked = operation.params["stacked"]
    stack, (experts, rows) = tuple(range(stacked)), (stacked, stacked + 1)
    places = (*stack, experts, rows)
    left = tuple(range(stacked + 2, len(facts.operands[0])))
    right = tuple(stacked + 2 + len(left) + i for i in range(len(facts.operands[1]) - stacked - 2))
    return Factors(
        ((*places, *left), (*places, *right), places),
        ((*stack, experts, *left, *right),),
        summed=frozenset((rows,)),
        propagating=NONE,
        routed=Routed(NONE, frozenset((experts,)), frozenset((rows,)), (2,)),
    )


class _Split(Place):
    """Experts in parts on devices, and who exchanges rows with whom.

    Attributes:
        over: the mesh axes of the experts.
        exchanged: those of them that split tokens too: over the others each device has the same tokens.
        of: what is exchanged.
    """

    def __init__(self, device: Device, sharded: ShardedOperation, choice: int, places: Any, of: Of):
        how: Routing = sharded.params["how"]
        self.device, self.of = device, of
        self.over = places.splits[how.stacked]
        tokens = {a for axis in range(how.stacked, how.stacked + how.items) for a in sharded.split(axis, choice)}
        self.exchanged = tuple(axis for axis in self.over if axis in tokens)
        self.sources = math.prod(device.sizes[axis] for axis in self.exchanged)
        super().__init__(how.experts // math.prod(device.sizes[axis] for axis in self.over))
        self.every = how.experts

    def home(self, choice: Any) -> Any:
        part, is_here = choice // self.experts, (choice >= 0) & (choice < self.every)
        to, parts, stride = jnp.zeros_like(choice), 1, 1
        for axis in reversed(self.over):
            size = self.device.sizes[axis]
            number, parts = part // parts % size, parts * size
            if axis in self.exchanged:
                to, stride = to + number * stride, stride * size
            else:
                is_here &= number == self.device.index((axis,))
        return jnp.where(is_here, to, self.sources)

    def exchange(self, x: Any, full: Counts = None) -> Any:
        return self.device.exchange(x, self.exchanged, 1, full, self.of) if self.sources > 1 else x


@per_shard("route_experts", summary=_SUMMARY, composite=True)
def _run_route(device: Device, sharded: ShardedOperation, operands: Sequence[Any]) -> list[Any]:
    how: Routing = sharded.params["how"]
    place = _Split(device, sharded, 0, sharded.results[1], _NUMBERS)
    rows, over = sharded.params["places"][1], sharded.results[1].splits[how.stacked + 1]
    places = (place.experts, rows // math.prod(device.sizes[axis] for axis in over))
    return route(how, place, operands[0], places)


@per_shard("send_experts", summary=_SUMMARY, composite=True)
def _run_send(device: Device, sharded: ShardedOperation, operands: Sequence[Any]) -> list[Any]:
    place = _Split(device, sharded, 1, sharded.operands[2], _ROWS)
    x, choice, order, *rest = operands
    weights = rest[0] if rest else None
    return [send(sharded.params["how"], place, sharded.params["repeated"], x, (choice, order), weights=weights)]


@per_shard("collect_experts", summary=_SUMMARY, composite=True)
def _run_collect(device: Device, sharded: ShardedOperation, operands: Sequence[Any]) -> list[Any]:
    place = _Split(device, sharded, 1, sharded.operands[2], _RETURNED)
    return [collect(sharded.params["how"], place, sharded.params["summed"], operands[0], (operands[1], operands[2]))]


@per_shard("weigh_experts", summary=_SUMMARY, composite=True)
def _run_weigh(device: Device, sharded: ShardedOperation, operands: Sequence[Any]) -> list[Any]:
    rows, choice, order, weights = operands
    place = _Split(device, sharded, 1, sharded.operands[2], _RETURNED)
    return weigh(sharded.params["how"], place, rows, (choice, order), weights)
