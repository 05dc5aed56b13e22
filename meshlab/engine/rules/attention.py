"""Rules of attention: its scores are in no array, so queries and keys may be sharded over the same mesh axis.

    heads:a      each device its heads                 seq:a         each device its queries, and all keys
    kv:a         each device its keys; what it finds is joined by the maximum and the sum of exponentials, as flash
                 decoding does (https://crfm.stanford.edu/2023/10/12/flashdecoding.html)
    seq:a kv:a   keys and values go round a ring, while each device attends to those that it holds (ring attention,
                 Liu et al. 2023, https://arxiv.org/abs/2310.01889)

In the gradient of a ring the keys' gradients go round with them, and one step more, home.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import lax

from ..code.operations import Operation
from ..collectives.device import Device
from ..specs.spec import Axes
from ..tensors.attention import (
    Attention,
    Carry,
    begin,
    begin_gradients,
    finish,
    visit,
    visit_gradients,
)
from .matmuls import Matmuls, Sizes
from .per_shard import ShardedOperation, per_shard
from .table import NONE, Factors, Facts, rule
from .traits import NOWHERE, Groups, opaque

_SUMMARY = "{dims} is attended to part by part"


def _multiplies(count: float) -> Callable[[Operation, Sequence[Sizes], Sizes], Matmuls]:
    """Returns the count of `count` products of queries and keys over their depth, of what no mask hides.

    Where positions are split, of the device that computes most: under a causal mask that of the last queries, or of the
    first keys.
    """

    def products(operation: Operation, operands: Sequence[Sizes], _result: Sizes) -> Matmuls:
        how: Attention = operation.params["how"]
        sizes = dict(zip(how.q, operands[0], strict=True))
        rows = math.prod(size for axis, size in sizes.items() if axis not in how.k)
        times = math.prod(size for axis, size in sizes.items() if axis in how.k and axis != how.depth)
        keys = operands[1][how.k.index(how.key)]
        return Matmuls(rows, keys, sizes[how.depth], count * times * _shown(how, sizes[how.query], keys))

    return products


def _shown(how: Attention, queries: Any, keys: Any) -> Any:
    """The share of its scores that a device computes, of so many queries at the end and so many keys."""
    share = 1 - np.minimum(queries, keys) / (2 * np.maximum(queries, keys)) if how.causal else 1.0
    reach = None if how.window is None else how.window if how.causal else 2 * how.window - 1
    return share if reach is None else np.minimum(share, reach / keys)


@rule("attention", traits=opaque(linear=NOWHERE, multiplies=_multiplies(2)))
def _attention(operation: Operation, facts: Facts) -> Factors:
    how: Attention = operation.params["how"]
    return _factors(how, how.operands, (how.out, how.rows), summed="")


def _in_cotangent(operation: Operation) -> Groups:
    return (frozenset((len(operation.inputs) - 1,)),)


@rule("attention_grad", traits=opaque(linear=_in_cotangent, multiplies=_multiplies(5)))
def _attention_grad(operation: Operation, facts: Facts) -> Factors:
    how: Attention = operation.params["how"]
    kept = (how.out, how.rows, how.out)
    return _factors(how, (*how.operands, *kept), how.differentiated, summed=how.rows + how.key)


def _factors(how: Attention, operands: Sequence[str], results: Sequence[str], summed: str) -> Factors:
    number = {axis: place for place, axis in enumerate(dict.fromkeys("".join((*operands, *results))))}

    def factors(axes: str) -> tuple[int, ...]:
        return tuple(number[axis] for axis in axes)

    positions = frozenset(factors(how.query + how.key))
    return Factors(
        tuple(map(factors, operands)),
        tuple(map(factors, results)),
        summed=frozenset(factors(summed)),
        per_shard=positions,
        unsharded=frozenset(factors(how.depth + how.value)),
        propagating=NONE,
        exchangeable=frozenset((positions,)),
    )


class _Ring:
    """How the queries and keys of an operation are split, and what goes round.

    Attributes:
        how: which axes are the same.
        queries, keys: the mesh axes of the positions.
        axes: of the ring; none where they are split over different ones.
    """

    def __init__(self, device: Device, sharded: ShardedOperation, operands: Sequence[Any]):
        self.device, self.how = device, sharded.params["how"]
        how: Attention = self.how
        self.queries = sharded.split(how.q.index(how.query), 0)
        self.keys = sharded.split(how.k.index(how.key), 1)
        self.axes = self.queries if self.queries == self.keys else ()
        self.parts = math.prod(device.sizes[axis] for axis in self.axes)
        self.lengths = operands[0].shape[how.q.index(how.query)], operands[1].shape[how.k.index(how.key)]
        self.turns = self.parts - 1
        if how.causal and how.window is not None:
            # Keys come from the parts before; those that are further away than the window are not needed.
            self.turns = min(self.turns, -(-(how.window - 1) // self.lengths[1]))
        # Which operands have keys: those go round.
        self.round = [how.key in axes for axes in how.operands]

    def firsts(self, turn: Any = 0) -> tuple[Any, Any]:
        """The positions of the first query, and of the first key that is here after some turns."""
        query, key = (self.part(axes) for axes in (self.queries, self.keys))
        if self.axes:
            key = (key - turn) % self.parts
        return query * self.lengths[0], key * self.lengths[1]

    def part(self, axes: Axes) -> Any:
        return self.device.index(axes) if axes else 0

    def turned(self, arrays: Sequence[Any], moves: Sequence[bool], distance: int = 1) -> list[Any]:
        """What is here after a turn, or after several at once."""
        pairs = zip(arrays, moves, strict=True)
        return [self.device.shift(a, self.axes, distance, wrap=True) if goes else a for a, goes in pairs]

    def home(self, arrays: Sequence[Any], moves: Sequence[bool]) -> list[Any]:
        """What is here after it has gone the rest of the way around."""
        return self.turned(arrays, moves, self.parts - self.turns) if self.turns else list(arrays)

    def go(self, arrays: Sequence[Any], carry: Carry, goes: Sequence[bool], visited: Callable[..., Carry]) -> Carry:
        """Visits the keys of each device in turn; what of the carry goes round moves with them."""
        if not self.axes or not self.turns:
            return visited(arrays, self.firsts(), carry)

        def turn(now: tuple[Any, ...], number: Any) -> tuple[Any, None]:
            arrays, carry = now
            # The next keys are on their way while these are visited.
            after = self.turned(arrays, self.round)
            carry = visited(arrays, self.firsts(number), carry)
            return (after, tuple(self.turned(carry, goes))), None

        (arrays, carry), _ = lax.scan(turn, (list(arrays), carry), jnp.arange(self.turns))
        return visited(arrays, self.firsts(self.turns), carry)


@per_shard("attention", summary=_SUMMARY, composite=True)
def _run(device: Device, sharded: ShardedOperation, operands: Sequence[Any]) -> list[Any]:
    ring, how = _Ring(device, sharded, operands), sharded.params["how"]

    def visited(arrays: Sequence[Any], firsts: tuple[Any, Any], state: Carry) -> Carry:
        return visit(how, arrays, firsts, state)

    state = ring.go(operands, begin(how, operands), [False] * 3, visited)
    if ring.keys and not ring.axes:
        state = _joined(device, ring.keys, state)
    return finish(how, state, operands[0].dtype)


def _joined(device: Device, axes: Axes, state: Carry) -> Carry:
    """Joins what each device has found among its keys: one maximum, and one sum of values and weights together."""
    values, top, total = state
    highest = device.all_reduce(top, axes, "max")
    weight = jnp.exp(top - highest)[..., None]
    both = device.all_reduce(jnp.concatenate([values, total[..., None]], -1) * weight, axes, "sum")
    return both[..., :-1], highest, both[..., -1]


@per_shard("attention_grad", summary=_SUMMARY, composite=True)
def _run_gradients(device: Device, sharded: ShardedOperation, operands: Sequence[Any]) -> list[Any]:
    *arrays, out, lse, cotangent = operands
    ring, how = _Ring(device, sharded, arrays), sharded.params["how"]
    # They go round again: else a compiler would keep those of the forward pass, of all devices.
    arrays = list(lax.optimization_barrier(tuple(arrays)))

    def visited(arrays: Sequence[Any], firsts: tuple[Any, Any], gradients: Carry) -> Carry:
        return visit_gradients(how, arrays, (out, lse, cotangent), firsts, gradients)

    gradients = begin_gradients(how, arrays)
    goes = ring.round[: len(gradients)]
    sums = ring.go(arrays, gradients, goes, visited)
    rounded = [gradient.astype(array.dtype) for gradient, array in zip(sums, arrays, strict=False)]
    return ring.home(rounded, goes) if ring.axes else rounded
