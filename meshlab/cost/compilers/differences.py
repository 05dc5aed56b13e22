"""Where a compiler's collectives differ from those predicted, and why: each difference by a rule that has a name.

A plan's collectives and the compiled program's are taken apart into single arrays, as often as each is sent. Equal
bytes by kind and mesh axes are equal, however the compiler has joined, split or moved them. Of what is not equal, array
is held against array, and a difference is explained only if one of these rules fits it exactly:

    narrowed      the array is sent in bfloat16 instead of float32: an all-gather, all-to-all or permute of a value that
                  all its readers round to bfloat16 (casts, and products, which a TPU computes so at JAX's default
                  precision), so that nothing more is lost; likewise a maximum of values that are bfloat16 already
    summed whole  a reduce-scatter is an all-reduce of the same array, of which each device keeps its part. The TPU
                  compiler does so where the devices' parts would not be whole tiles of the array as it lies there (32
                  of the 128 numbers in a row of a tile, say), and among all devices of some slices (`substitutes`)
    gathered by adding
                  an all-gather is an all-reduce of the full array, in which each device has put its part among zeros.
                  The TPU compiler does so for the same reasons
    padded        a reduce-scatter of which every device's part is larger than asked for, by as much for each, and
                  permutes that bring what then lies on a neighbour to where it belongs: of n devices the last is off
                  by n-1 such shares. The TPU compiler sends parts in equal pieces of whole tiles
    sent again    a collective is run twice, not to keep what it makes in the meantime: XLA does so where a program does
                  not fit a device otherwise, and says so in the instruction's name (`HloRematerialization`)

What no rule fits is unexplained, and makes `Comparison.ok` false.
"""

from __future__ import annotations

import dataclasses
import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import NamedTuple, Protocol

from ...engine.verifying.hlo import HloCollective

Axes = tuple[str, ...] | None
Key = tuple[str, Axes]
Candidates = Iterator[tuple["Piece", ...]]

NARROWED, SUMMED_WHOLE, GATHERED_BY_ADDING, PADDED = "narrowed", "summed whole", "gathered by adding", "padded"
AGAIN = "sent again"
RULES = {
    NARROWED: "sent in bfloat16, to which all that read it round it (casts, products at JAX's default precision)",
    SUMMED_WHOLE: "a reduce-scatter is an all-reduce, of which each device keeps its part: the parts would be no whole"
    " tiles of the array as it lies in the memory of a TPU, or the devices are all of a slice that is as long one way"
    " as another",
    GATHERED_BY_ADDING: "an all-gather is an all-reduce, to which devices add their parts among zeros: the parts are no"
    " whole tiles, or the devices are all of a slice of 64 or more along three axes of a torus",
    PADDED: "the parts of a reduce-scatter are made larger, so that each is sent in equal pieces, and permutes bring"
    " what then lies on a neighbour to where it belongs",
    AGAIN: "it is sent once more, not to keep what it makes in the meantime: the program would not fit a device"
    " otherwise",
}
# How XLA marks what it computes again.
_AGAIN = ".remat"


class Planned(Protocol):
    """What is read of a plan's collective (`engine/collective.py`)."""

    @property
    def kind(self) -> str:
        """all-reduce, all-gather, reduce-scatter, all-to-all or collective-permute."""
        ...

    @property
    def axes(self) -> tuple[str, ...]:
        """Mesh axes, major first."""
        ...

    @property
    def payload_bytes(self) -> int:
        """Of its operand on one device."""
        ...

    @property
    def times(self) -> int:
        """Executions in one run."""
        ...

    @property
    def dtype(self) -> str:
        """Of its operand."""
        ...


class Piece(NamedTuple):
    """One array that a collective sends.

    Attributes:
        kind: of the collective.
        axes: over which it runs, in the mesh's order.
        dtype: of the array.
        payload: its bytes on one device.
        exact: whether 16 bits hold its values: it is the maximum or minimum of what is rounded already.
    """

    kind: str
    axes: Axes
    dtype: str
    payload: int
    exact: bool = False

    @property
    def key(self) -> Key:
        """What bytes are added up by."""
        return self.kind, self.axes


@dataclasses.dataclass(frozen=True)
class Difference:
    """Arrays that are sent otherwise than predicted.

    Attributes:
        rule: one of `RULES`.
        predicted: what was predicted of one array; None of what is sent once more.
        compiled: what is compiled in its place, all of it.
        times: how many such arrays a run of the program sends.
    """

    rule: str
    predicted: Piece | None
    compiled: tuple[Piece, ...]
    times: int

    @property
    def predicted_bytes(self) -> int:
        """The payload that was predicted of one array."""
        return self.predicted.payload if self.predicted else 0

    @property
    def compiled_bytes(self) -> int:
        """The payload of what is compiled in place of one array."""
        return sum(piece.payload for piece in self.compiled)

    def __str__(self):
        over = "+".join(self.compiled[0].axes or ("?",))
        after = " + ".join(f"{piece.kind} of {piece.payload:,} B" for piece in self.compiled)
        before = f"{self.predicted.kind} over {over} of {self.predicted.payload:,} B" if self.predicted else "nothing"
        return f"{self.times:,} × {before} → {after}: {RULES[self.rule]}"


@dataclasses.dataclass(frozen=True)
class Row:
    """The bytes of one kind of collective over one set of mesh axes, in one run of the program, on one device.

    Attributes:
        kind: of collective.
        axes: mesh axes, in the mesh's order; None where the devices that take part are those of no set of axes.
        predicted: payload bytes.
        compiled: payload bytes.
        explained: compiled bytes less predicted ones, by rule.
    """

    kind: str
    axes: Axes
    predicted: int
    compiled: int
    explained: Mapping[str, int]

    @property
    def equal(self) -> bool:
        """Whether the compiled bytes are those predicted."""
        return self.predicted == self.compiled

    @property
    def ok(self) -> bool:
        """Whether they are equal, or all of what differs is explained."""
        return self.predicted + sum(self.explained.values()) == self.compiled


@dataclasses.dataclass(frozen=True)
class Comparison:
    """A plan's collectives beside a compiled program's.

    Attributes:
        rows: by kind and axes.
        differences: what is explained, array by array.
    """

    rows: tuple[Row, ...]
    differences: tuple[Difference, ...]

    @property
    def equal(self) -> bool:
        """Whether all bytes are those predicted."""
        return all(row.equal for row in self.rows)

    @property
    def ok(self) -> bool:
        """Whether all bytes are those predicted, but for differences that are explained."""
        return all(row.ok for row in self.rows)


def compare(predicted: Iterable[Planned], compiled: Iterable[HloCollective], sizes: Mapping[str, int]) -> Comparison:
    """Holds a plan's collectives against those of a compiled program.

    Args:
        predicted: the plan's.
        compiled: as read from the compiled program.
        sizes: of the mesh axes, by name, major first.
    """
    compiled = tuple(compiled)
    planned, made = _planned(predicted, sizes), _made(compiled)
    again = _made(c for c in compiled if _AGAIN in c.name)
    sums = _sums(planned), _sums(made)
    keys = sorted({*sums[0], *sums[1]}, key=str)
    unequal = {key for key in keys if sums[0][key] != sums[1][key]}
    differences = _explained(
        Counter({p: n for p, n in planned.items() if p.key in unequal}),
        Counter({p: n for p, n in made.items() if p.key in unequal}),
        again,
        sizes,
    )
    explained: dict[Key, Counter] = {key: Counter() for key in keys}
    for found in differences:
        if found.predicted:
            explained[found.predicted.key][found.rule] -= found.predicted_bytes * found.times
        for piece in found.compiled:
            explained[piece.key][found.rule] += piece.payload * found.times
    rows = (
        Row(kind, axes, sums[0][kind, axes], sums[1][kind, axes], {r: n for r, n in explained[kind, axes].items() if n})
        for kind, axes in keys
    )
    return Comparison(tuple(rows), differences)


def _planned(collectives: Iterable[Planned], sizes: Mapping[str, int]) -> Counter:
    order = list(sizes)
    pieces: Counter = Counter()
    for c in collectives:
        if c.payload_bytes:
            pieces[Piece(c.kind, tuple(sorted(c.axes, key=order.index)), c.dtype, c.payload_bytes)] += c.times
    return pieces


def _made(collectives: Iterable[HloCollective]) -> Counter:
    pieces: Counter = Counter()
    for c in collectives:
        exact = c.where.rpartition("/")[2] in ("pmax", "pmin")
        for size in c.operands:
            if c.axes != () and size:
                pieces[Piece(c.kind, c.axes, c.dtype, size, exact)] += c.times
    return pieces


def _sums(pieces: Counter) -> Counter:
    sums: Counter = Counter()
    for piece, times in pieces.items():
        sums[piece.key] += piece.payload * times
    return sums


def _explained(planned: Counter, made: Counter, again: Counter, sizes: Mapping[str, int]) -> tuple[Difference, ...]:
    """Finds for each array that was predicted one that is compiled: its like first, then what a rule makes of it.

    What is left over may be `again`.
    """
    for piece in list(planned):
        for exact in (False, True):
            _take(planned, made, piece, (piece._replace(exact=exact),))
    found = []
    # Every array tries its nearest likes before any tries its farther ones.
    for rule, candidates in _CANDIDATES:
        for piece in sorted(planned, key=str):
            for others in candidates(piece, math.prod(sizes[axis] for axis in piece.axes or ()), made):
                if times := _take(planned, made, piece, others):
                    found.append(Difference(rule, piece, others, times))
    surplus = ((piece, min(times, again[piece])) for piece, times in sorted(made.items(), key=str))
    return (*found, *(Difference(AGAIN, None, (piece,), times) for piece, times in surplus if times))


def _take(planned: Counter, made: Counter, piece: Piece, others: tuple[Piece, ...]) -> int:
    """Takes an array, and all that is compiled in its place, as often as there are both; returns how often."""
    wanted = Counter(others)
    times = min(planned[piece], *(made[other] // count for other, count in wanted.items()))
    planned[piece] -= times
    for other, count in wanted.items():
        made[other] -= times * count
    return times


def _narrow(piece: Piece) -> Candidates:
    """The same array in bfloat16."""
    if piece.dtype == "float32":
        yield (piece._replace(dtype="bfloat16", payload=piece.payload // 2),)


def _moved_narrow(piece: Piece, _devices: int, _made: Counter) -> Candidates:
    if piece.kind in ("all-gather", "all-to-all", "collective-permute"):
        yield from _narrow(piece)


def _greatest_narrow(piece: Piece, _devices: int, _made: Counter) -> Candidates:
    if piece.kind == "all-reduce":
        yield from _narrow(piece._replace(exact=True))


def _summed_whole(piece: Piece, _devices: int, _made: Counter) -> Candidates:
    if piece.kind == "reduce-scatter":
        yield (piece._replace(kind="all-reduce"),)


def _added(piece: Piece, devices: int, _made: Counter) -> Candidates:
    if piece.kind == "all-gather":
        added = piece._replace(kind="all-reduce", payload=devices * piece.payload)
        yield (added,)
        yield from _narrow(added)


def _padded(piece: Piece, devices: int, made: Counter) -> Candidates:
    """Larger parts, and what the last device's is off by: as many whole parts as fit in that, and the rest."""
    if piece.kind != "reduce-scatter":
        return
    for other, times in sorted(made.items(), key=str):
        more = other.payload - piece.payload
        if not times or more <= 0 or more % devices or other != piece._replace(payload=other.payload):
            continue
        hops, rest = divmod(more // devices * (devices - 1), other.payload // devices)
        moved = [other.payload // devices] * hops + [rest] * (rest > 0)
        yield (other, *(piece._replace(kind="collective-permute", payload=size) for size in moved))


# What each rule makes of an array that was predicted, nearest first; nothing where it does not apply.
_CANDIDATES: tuple[tuple[str, Callable[[Piece, int, Counter], Candidates]], ...] = (
    (NARROWED, _moved_narrow),
    (NARROWED, _greatest_narrow),
    (SUMMED_WHOLE, _summed_whole),
    (GATHERED_BY_ADDING, _added),
    (PADDED, _padded),
)
