"""Rules of attention: its scores are in no array, so queries and keys may be sharded over the same mesh axis.

    heads:a      each device its heads                 seq:a         each device its queries, and all keys
    kv:a         each device its keys; what it finds is joined by the maximum and the sum of exponentials, as flash
                 decoding does (https://crfm.stanford.edu/2023/10/12/flashdecoding.html)
    seq:a kv:a   keys and values go round a ring, while each device attends to those that it holds (ring attention,
                 Liu et al. 2023, https://arxiv.org/abs/2310.01889)

In the gradient of a ring the keys' gradients go round with them, and one step more, home.

In zig-zag order devices exchange halves of their shards in front of attention and behind it: each sends its first half
to one other and its second half to one other, in two collective-permutes.

    4 devices, 8 halves    [0 1] [2 3] [4 5] [6 7]   →   [0 7] [1 6] [2 5] [3 4]
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
from ..collectives.kinds import Of
from ..specs.spec import Axes
from ..tensors.attention import (
    Attention,
    Carry,
    Runs,
    begin,
    begin_gradients,
    finish,
    visit,
    visit_gradients,
)
from .matmuls import Matmuls, Sizes
from .per_shard import ShardedOperation, per_shard
from .table import NONE, Factors, Facts, rule
from .traits import FIRST, NOWHERE, Groups, opaque

_SUMMARY = "{dims} {are} attended to part by part"
_GRADIENT = "gradient of "
_AROUND = "{dims} {are} split over {axes} in attention: keys and values go around the devices, in a ring."
_BACK = "{dims} {are} split over {axes} in attention: gradients of keys and values go around the devices, in a ring."
_BALANCED = "{dims} {are} in zig-zag order over {axes}, for even work: devices exchange halves of their parts."


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
        share = (_even if how.zigzag else _shown)(operation, sizes[how.query], keys)
        return Matmuls(rows, keys, sizes[how.depth], count * times * share)

    return products


def _lengths(operation: Operation) -> tuple[int, int]:
    """How many queries and keys there are on all devices."""
    how: Attention = operation.params["how"]
    q, k = (variable.aval.shape for variable in operation.equation.invars[:2])
    return q[how.q.index(how.query)], k[how.k.index(how.key)]


def _shown(operation: Operation, queries: Any, keys: Any) -> Any:
    """The share of its scores that a device computes, of so many queries at the end and so many keys.

    All of them where keys are split as well, over other axes: some device has the last queries and the first keys.
    """
    how: Attention = operation.params["how"]
    every_query, every_key = _lengths(operation)
    apart = (queries < every_query) & (keys < every_key)
    hidden = np.where(apart, 0.0, np.minimum(queries, keys) / (2 * np.maximum(queries, keys)))
    share = 1 - hidden if how.causal else 1.0
    reach = None if how.window is None else how.window if how.causal else 2 * how.window - 1
    return share if reach is None else np.minimum(share, reach / keys)


def _even(operation: Operation, queries: Any, keys: Any) -> Any:
    """The share of its scores that a device computes of so many queries and keys in zig-zag order.

    As much as any other one, unless queries and keys are split over different axes, and one side alone is in the order.
    """
    how: Attention = operation.params["how"]
    every_query, every_key = _lengths(operation)
    apart = (queries < every_query) & (keys < every_key) & (len(how.zigzag) == 1)
    share = 1 - every_key / (2 * every_query) if every_key < every_query else every_query / (2 * every_key)
    return np.where(apart, 1.0, share)


@rule("attention", traits=opaque(linear=NOWHERE, multiplies=_multiplies(2)))
def _attention(operation: Operation, facts: Facts) -> Factors:
    how: Attention = operation.params["how"]
    return _factors(how, operation.name, summed="")


def _in_cotangent(operation: Operation) -> Groups:
    return (frozenset((len(operation.inputs) - 1,)),)


@rule("attention_grad", traits=opaque(linear=_in_cotangent, multiplies=_multiplies(5)))
def _attention_grad(operation: Operation, facts: Facts) -> Factors:
    how: Attention = operation.params["how"]
    return _factors(how, operation.name, summed=how.rows + how.key)


def _factors(how: Attention, name: str, summed: str) -> Factors:
    operands, results = how.axes_of(name)
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
            self.turns = max(self.turns_of(part, how.window) for part in range(self.parts))
        # Which operands have keys: those go round.
        self.round = [how.key in axes for axes in how.operands]

    def turns_of(self, part: int, window: int) -> int:
        """After how many turns a part of the queries has met all keys of a window before it."""
        queries, keys = self.lengths
        first, last = max(part * queries - window + 1, 0) // keys, ((part + 1) * queries - 1) // keys
        return max(((part - each) % self.parts for each in range(first, min(last, self.parts - 1) + 1)), default=0)

    def runs(self, turn: Any = 0) -> Runs:
        """The positions of the first queries, and of the first keys that are here after some turns."""
        query, key = (self.part(axes) for axes in (self.queries, self.keys))
        if self.axes:
            key = (key - turn) % self.parts
        how = self.how
        return self.run(how.query, query, self.queries, self.lengths[0]), self.run(
            how.key, key, self.keys, self.lengths[1]
        )

    def run(self, letter: str, part: Any, axes: Axes, length: int) -> tuple[Any, ...]:
        """The first positions of a part: of all of it, or of its two halves in zig-zag order."""
        if letter not in self.how.zigzag or not axes:
            return (part * length,)
        half, parts = length // 2, math.prod(self.device.sizes[axis] for axis in axes)
        return part * half, (2 * parts - 1 - part) * half

    def part(self, axes: Axes) -> Any:
        return self.device.index(axes) if axes else 0

    def turned(self, arrays: Sequence[Any], moves: Sequence[bool], what: str = "", distance: int = 1) -> list[Any]:
        """What is here after a turn, or after several at once; `what` says what of the operands it is."""
        why, ahead = _BACK if what else _AROUND, not what
        of = [Of(f"{what}{name} of {{}}", i, why) for i, name in enumerate(self.how.names)]
        return [
            self.device.shift(a, self.axes, distance, wrap=True, of=of[i], ahead=ahead) if goes else a
            for i, (a, goes) in enumerate(zip(arrays, moves, strict=True))
        ]

    def home(self, arrays: Sequence[Any], moves: Sequence[bool]) -> list[Any]:
        """What of the gradients is here after it has gone the rest of the way around."""
        return self.turned(arrays, moves, _GRADIENT, self.parts - self.turns) if self.turns else list(arrays)

    def go(self, arrays: Sequence[Any], carry: Carry, goes: Sequence[bool], visited: Callable[..., Carry]) -> Carry:
        """Visits the keys of each device in turn; what of the carry goes round moves with them."""
        if not self.axes or not self.turns:
            return visited(arrays, self.runs(), carry)

        def turn(now: tuple[Any, ...], number: Any) -> tuple[Any, None]:
            arrays, carry = now
            # The next keys are on their way while these are visited.
            after = self.turned(arrays, self.round)
            carry = visited(arrays, self.runs(number), carry)
            return (after, tuple(self.turned(carry, goes, _GRADIENT))), None

        (arrays, carry), _ = lax.scan(turn, (list(arrays), carry), jnp.arange(self.turns))
        return visited(arrays, self.runs(self.turns), carry)


@per_shard("attention", summary=_SUMMARY, composite=True)
def _run(device: Device, sharded: ShardedOperation, operands: Sequence[Any]) -> list[Any]:
    ring, how = _Ring(device, sharded, operands), sharded.params["how"]

    def visited(arrays: Sequence[Any], runs: Runs, state: Carry) -> Carry:
        return visit(how, arrays, runs, state)

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

    def visited(arrays: Sequence[Any], runs: Runs, gradients: Carry) -> Carry:
        return visit_gradients(how, arrays, (out, lse, cotangent), runs, gradients)

    gradients = begin_gradients(how, arrays)
    goes = ring.round[: len(gradients)]
    sums = ring.go(arrays, gradients, goes, visited)
    rounded = [gradient.astype(array.dtype) for gradient, array in zip(sums, arrays, strict=False)]
    return ring.home(rounded, goes) if ring.axes else rounded


# --- the zig-zag order ------------------------------------------------------------------------------------------------


@rule("zigzag", traits=opaque(linear=FIRST, multiplies=None))
def _zigzag(operation: Operation, facts: Facts) -> Factors:
    axes, positions = tuple(range(len(facts.operands[0]))), frozenset((operation.params["axis"],))
    # Positions are split as attention has them: in their new order they are not moved.
    return Factors(
        (axes,), (axes,), per_shard=positions, propagating=frozenset(axes) - positions, through=frozenset((0,))
    )


def places(parts: int) -> list[tuple[int, int]]:
    """Returns where each part's first and second half go: which part holds them in zig-zag order."""
    holder = [half if half < parts else 2 * parts - 1 - half for half in range(2 * parts)]
    return [(holder[2 * part], holder[2 * part + 1]) for part in range(parts)]


@per_shard("zigzag", summary="{dims} {are} put in zig-zag order", moves=True)
def _exchange(device: Device, sharded: ShardedOperation, operands: Sequence[Any]) -> list[Any]:
    (block,), axis, back = operands, sharded.params["axis"], sharded.params["back"]
    axes = sharded.split(axis)
    parts = math.prod(device.sizes[a] for a in axes)
    # A first half is of an even number. In zig-zag order those are first on the even devices, second on the odd ones.
    swaps = device.index(axes) % 2 == 1
    halves = _swapped(jnp.split(block, 2, axis), swaps if back else None)
    sent = []
    for number, half in enumerate(halves):
        targets = [(part, both[number]) for part, both in enumerate(places(parts))]
        pairs = [(target, part) for part, target in targets] if back else targets
        sent.append(_permuted(device, half, axes, pairs, Of("halves of {}", 0, _BALANCED)))
    return [jnp.concatenate(_swapped(sent, None if back else swaps), axis)]


def _swapped(halves: Sequence[Any], swaps: Any) -> list[Any]:
    first, second = halves
    return [first, second] if swaps is None else [jnp.where(swaps, b, a) for a, b in ((first, second), (second, first))]


def _permuted(device: Device, x: Any, axes: Axes, pairs: Sequence[tuple[int, int]], of: Of) -> Any:
    """Sends halves from part to part; parts are counted along the axes as given, devices in the order of the mesh."""
    if all(source == target for source, target in pairs):
        return x
    ordered = tuple(a for a in device.sizes if a in axes)
    numbers = np.arange(len(pairs)).reshape([device.sizes[a] for a in ordered])
    of_part = numbers.transpose([ordered.index(a) for a in axes]).ravel().tolist()
    targets = [(of_part[source], of_part[target]) for source, target in pairs]
    return device.permute(x, ordered, targets, of=of)
