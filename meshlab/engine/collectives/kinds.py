"""The kinds of collectives, as a table: who lowers, counts, prices, reads or draws one reads this.

    ALL_REDUCE.sent(8)         1.75 bytes that a device sends, for each byte of its operand, among 8 devices
    ALL_REDUCE.course(8, ())   the same, hop by hop
    KINDS["all-gather"].shard  True: its operand is a shard of the full array

A kind that is added here is lowered, counted in per-shard implementations, priced, measured, found in compiled
programs, drawn and explained. A reshard uses it once `chains.py` offers it as a move.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, Protocol

from jax import lax

from ..specs.spec import Axes
from . import hops
from .routes import Route, pairs

# How the devices of a group send: each passes parts on to the next; each sends every other one a part of its own; each
# sends what it has to one other.
RING, EACH, PAIRS = "ring", "each", "pairs"

Shape = tuple[int, ...]


class Here(Protocol):
    """The device that a collective is lowered for: the mesh axes' sizes, and where it stands (`device.Device`)."""

    @property
    def sizes(self) -> Mapping[str, int]: ...

    def index(self, axes: Axes) -> Any:
        """Returns the number of its shard over mesh axes."""
        ...


class Of(NamedTuple):
    """What an operation sends that sends several things.

    Attributes:
        what: its name; `{}` stands for the operation's own.
        operand: the operand that has its dims; None where the result has them.
        why: the cause of it, a sentence with `{dims}`, `{are}` and `{axes}`; "" where the operation's does.
    """

    what: str
    operand: int | None = None
    why: str = ""


class Sending(NamedTuple):
    """What a device asks of the others in one collective.

    Attributes:
        axes: the mesh axes, major first.
        axis: the axis of the operand that is cut, or along which parts are joined.
        other: all-to-all only: the axis along which parts are joined.
        route: of a collective-permute, who sends to whom.
        operation: "sum", "max" or "min".
        of: of an operation that sends several things, what this is.
        ahead: whether it is for the next turn of an operation, which computes this one meanwhile.
        ragged: whether each part is full in front alone, and what is empty may be left out (`ragged.py`).
    """

    axes: Axes
    axis: int = -1
    other: int = -1
    route: Route | None = None
    operation: str = "sum"
    of: Of | None = None
    ahead: bool = False
    ragged: bool = False


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class Kind:
    """One kind of collective; or the slice that a device takes of its own shard, which sends nothing.

    Attributes:
        name: its name in plans, and in HLO.
        meaning: a sentence for the glossary.
        way: how devices send: `RING`, `EACH` or `PAIRS`; None: nothing is sent.
        sent: the bytes that one device sends, per byte of its operand, among `n` devices.
        formula: the same in words.
        course: how it goes, hop by hop: of the number of devices, and the (source, target) pairs of its route.
        run: lowers it: the device, its operand and the request, to the result.
        answer: the shape of the result: of the operand's shape, the request, and the number of devices.
        passes: how often the data go round the ring.
        sums: whether the operand is a partial sum.
        shard: whether the operand is a shard of the full array, whose bytes machines' prices count.
        cuts: whether it cuts an axis of the operand into the devices' parts.
    """

    name: str
    meaning: str
    way: str | None
    sent: Callable[[int], float]
    formula: str
    course: Callable[[int, hops.Pairs], hops.Course]
    run: Callable[[Here, Any, Sending], Any]
    answer: Callable[[Shape, Sending, int], Shape]
    passes: int = 1
    sums: bool = False
    shard: bool = False
    cuts: bool = False

    def __str__(self):
        return self.name

    __repr__ = __str__

    def __reduce__(self):
        return _named, (self.name,)

    @property
    def sends(self) -> bool:
        return self.way is not None

    @property
    def moves_blocks(self) -> bool:
        """Says whether devices swap blocks, none of which grows."""
        return self.way in (EACH, PAIRS)

    def wire_bytes(self, payload: int, axes: Axes, sizes: Mapping[str, int]) -> float:
        """Returns the bytes that one device sends, over mesh `axes`, for an operand of `payload` bytes."""
        count = math.prod(sizes[axis] for axis in axes)
        return payload * self.sent(count) if count > 1 else 0.0


def _named(name: str) -> Kind:
    """Returns the kind itself where a copy of it is read: there is one object for each kind."""
    return SLICE if name == SLICE.name else KINDS[name]


def _scaled(shape: Shape, factors: Mapping[int, float]) -> Shape:
    return tuple(round(size * factors.get(axis, 1)) for axis, size in enumerate(shape))


def _slice(device: Here, x: Any, asked: Sending) -> Any:
    size = x.shape[asked.axis] // math.prod(device.sizes[axis] for axis in asked.axes)
    return lax.dynamic_slice_in_dim(x, device.index(asked.axes) * size, size, asked.axis)


def _reduce(_device: Here, x: Any, asked: Sending) -> Any:
    return {"sum": lax.psum, "max": lax.pmax, "min": lax.pmin}[asked.operation](x, asked.axes)


def _permute(device: Here, x: Any, asked: Sending) -> Any:
    assert asked.route is not None, "a collective-permute has a route"
    # `ppermute` counts devices in the order of the mesh, whatever the order of the axes that it is given.
    return lax.ppermute(x, *pairs(asked.route, device.sizes))


# What a device sends: as the bandwidth-optimal ring algorithms do (Patarasuk and Yuan, J. Parallel Distrib. Comput. 69,
# 2009).
ALL_REDUCE = Kind(
    "all-reduce",
    "Each device of a group has a partial sum; afterwards each has the whole sum.",
    way=RING,
    passes=2,
    sums=True,
    sent=lambda n: 2 * (n - 1) / n,
    formula="2 (n − 1)/n",
    course=hops.reduce_and_gather,
    run=_reduce,
    answer=lambda shape, _asked, _n: shape,
)
ALL_GATHER = Kind(
    "all-gather",
    "Each device of a group has a slice; afterwards each has all of them.",
    way=RING,
    shard=True,
    sent=lambda n: float(n - 1),
    formula="(n − 1)",
    course=hops.gather,
    run=lambda _, x, asked: lax.all_gather(x, asked.axes, axis=asked.axis, tiled=True),
    answer=lambda shape, asked, n: _scaled(shape, {asked.axis: n}),
)
REDUCE_SCATTER = Kind(
    "reduce-scatter",
    "Each device of a group has a partial sum; afterwards each has its own slice of the whole sum.",
    way=RING,
    sums=True,
    cuts=True,
    sent=lambda n: (n - 1) / n,
    formula="(n − 1)/n",
    course=hops.reduce,
    run=lambda _, x, asked: lax.psum_scatter(x, asked.axes, scatter_dimension=asked.axis, tiled=True),
    answer=lambda shape, asked, n: _scaled(shape, {asked.axis: 1 / n}),
)
ALL_TO_ALL = Kind(
    "all-to-all",
    "Each device of a group has a slice along one dim; afterwards each has one along another dim.",
    way=EACH,
    shard=True,
    cuts=True,
    sent=lambda n: (n - 1) / n,
    formula="(n − 1)/n",
    course=hops.exchange,
    run=lambda _, x, asked: lax.all_to_all(x, asked.axes, asked.axis, asked.other, tiled=True),
    answer=lambda shape, asked, n: _scaled(_scaled(shape, {asked.axis: 1 / n}), {asked.other: n}),
)
COLLECTIVE_PERMUTE = Kind(
    "collective-permute",
    "Each device has a slice; afterwards another device has that slice.",
    way=PAIRS,
    shard=True,
    sent=lambda _n: 1.0,
    formula="1",
    course=hops.along,
    run=_permute,
    answer=lambda shape, _asked, _n: shape,
)
SLICE = Kind(
    "slice",
    "Each device keeps its part of what it holds; nothing is sent.",
    way=None,
    cuts=True,
    sent=lambda _n: 0.0,
    formula="0",
    course=lambda n, _: hops.Course(1, tuple((i,) for i in range(n)), ()),
    run=_slice,
    answer=lambda shape, asked, n: _scaled(shape, {asked.axis: 1 / n}),
)

_SENDING = (ALL_REDUCE, REDUCE_SCATTER, ALL_GATHER, ALL_TO_ALL, COLLECTIVE_PERMUTE)
KINDS: dict[str, Kind] = {kind.name: kind for kind in _SENDING}
# What compiled programs may hold beside these: no plan has them.
OTHERS_IN_HLO = ("collective-broadcast", "send", "recv")
# An all-to-all of parts of which each is sent as far as it is full.
RAGGED_IN_HLO = "ragged-all-to-all"
