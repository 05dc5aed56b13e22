"""Compares the collectives of a compiled program with those predicted, and explains differences by named rules.

The collectives of both are split into single arrays, with the number of times that each is sent. Equal bytes by kind
and mesh axes count as equal, however the compiler has joined, split or moved collectives. Of the others, each predicted
array is matched with compiled arrays, and a difference is explained only if one of these rules fits exactly:

    narrowed      the array is sent in bfloat16 instead of float32: an all-gather, all-to-all or permute of a value that
                  all its readers round to bfloat16 (casts, and matmuls, which a TPU computes so at JAX's default
                  precision), so that no precision is lost; likewise a maximum of values that are bfloat16 already
    summed whole  a reduce-scatter is an all-reduce of the same array, of which each device keeps its part. The TPU
                  compiler does so where the parts would not be whole tiles of the array in memory (32 of the 128
                  elements in a row of a tile, say), and among all devices of some slices (`xla_substitutes`)
    gathered by adding
                  an all-gather is an all-reduce of the full array, in which each device has put its part among zeros.
                  The TPU compiler does so for the same reasons
    padded        a reduce-scatter whose parts are larger than asked for, by the same share each, and permutes that
                  bring the excess from a neighbour to its own device: of n devices the last is off by n-1 such shares.
                  The TPU compiler sends parts in equal pieces of whole tiles
    sent again    a collective runs twice, so that its result need not be stored in the meantime: XLA rematerialises it
                  where a program does not fit a device otherwise, and marks the instruction's name
                  (`HloRematerialization`)

Differences that no rule fits are unexplained, and make `Comparison.ok` false.
"""

from __future__ import annotations

import dataclasses
import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import NamedTuple

from ...engine.collectives.kinds import ALL_GATHER, ALL_REDUCE, COLLECTIVE_PERMUTE, KINDS, REDUCE_SCATTER
from ...engine.plans.collective import Collective
from ...engine.verifying.hlo import HloCollective

Axes = tuple[str, ...] | None
Key = tuple[str, Axes]
Candidates = Iterator[tuple["Piece", ...]]

NARROWED, SUMMED_WHOLE, GATHERED_BY_ADDING, PADDED = "narrowed", "summed whole", "gathered by adding", "padded"
AGAIN = "sent again"
RULES = {
    NARROWED: "sent in bfloat16, to which all its readers round it (casts, matmuls at JAX's default precision)",
    SUMMED_WHOLE: "a reduce-scatter is an all-reduce, of which each device keeps its part: the parts would not be"
    " whole tiles of the array in the memory of a TPU, or the devices are all of a slice that is as long along one"
    " axis as along another",
    GATHERED_BY_ADDING: "an all-gather is an all-reduce, in which devices sum their parts among zeros: the parts are"
    " not whole tiles, or the devices are all of a slice of 64 or more along three axes of a torus",
    PADDED: "the parts of a reduce-scatter are padded, so that each is sent in equal pieces, and permutes bring the"
    " excess on a neighbour to its own device",
    AGAIN: "it is sent once more, so that its result is not stored in the meantime: the program would not fit a device"
    " otherwise",
}
# The mark of rematerialised instructions in XLA's names.
_AGAIN = ".remat"


class Piece(NamedTuple):
    """One array that a collective sends.

    Attributes:
        kind: of the collective.
        axes: over which it runs, in the mesh's order.
        dtype: of the array.
        payload: its bytes on one device.
        exact: whether 16 bits hold its values: it is a maximum or minimum of values that are rounded already.
    """

    kind: str
    axes: Axes
    dtype: str
    payload: int
    exact: bool = False

    @property
    def key(self) -> Key:
        """The kind and mesh axes by which bytes are summed."""
        return self.kind, self.axes


@dataclasses.dataclass(frozen=True)
class Difference:
    """Arrays whose compiled collectives differ from the predicted one.

    Attributes:
        rule: one of `RULES`.
        predicted: the predicted piece of one array; None of one that is sent once more.
        compiled: all pieces compiled in its place.
        times: the number of such arrays in a run of the program.
    """

    rule: str
    predicted: Piece | None
    compiled: tuple[Piece, ...]
    times: int

    @property
    def predicted_bytes(self) -> int:
        """The predicted payload of one array."""
        return self.predicted.payload if self.predicted else 0

    @property
    def compiled_bytes(self) -> int:
        """The payload of the pieces compiled in place of one array."""
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
        axes: mesh axes, in the mesh's order; None where the device groups follow no set of axes.
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
        """Whether they are equal, or the whole difference is explained."""
        return self.predicted + sum(self.explained.values()) == self.compiled


@dataclasses.dataclass(frozen=True)
class Comparison:
    """A plan's collectives beside a compiled program's.

    Attributes:
        rows: by kind and axes.
        differences: the explained ones, array by array.
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


def compare(predicted: Iterable[Collective], compiled: Iterable[HloCollective], sizes: Mapping[str, int]) -> Comparison:
    """Compares a plan's collectives with those of a compiled program; `sizes` are of the mesh axes, major first."""
    compiled = tuple(compiled)
    predicted_pieces, compiled_pieces = _predicted_pieces(predicted, sizes), _compiled_pieces(compiled)
    again = _compiled_pieces(c for c in compiled if _AGAIN in c.name)
    sums = _sums(predicted_pieces), _sums(compiled_pieces)
    keys = sorted({*sums[0], *sums[1]}, key=str)
    unequal = {key for key in keys if sums[0][key] != sums[1][key]}
    differences = _explained(
        Counter({p: n for p, n in predicted_pieces.items() if p.key in unequal}),
        Counter({p: n for p, n in compiled_pieces.items() if p.key in unequal}),
        again,
        sizes,
    )
    explained: dict[Key, Counter] = {key: Counter() for key in keys}
    for difference in differences:
        if difference.predicted:
            explained[difference.predicted.key][difference.rule] -= difference.predicted_bytes * difference.times
        for piece in difference.compiled:
            explained[piece.key][difference.rule] += piece.payload * difference.times
    rows = (
        Row(kind, axes, sums[0][kind, axes], sums[1][kind, axes], {r: n for r, n in explained[kind, axes].items() if n})
        for kind, axes in keys
    )
    return Comparison(tuple(rows), differences)


def _predicted_pieces(collectives: Iterable[Collective], sizes: Mapping[str, int]) -> Counter:
    order = list(sizes)
    pieces: Counter = Counter()
    for c in collectives:
        if c.payload_bytes:
            pieces[Piece(c.kind, tuple(sorted(c.axes, key=order.index)), c.dtype, c.payload_bytes)] += c.counted
    return pieces


def _compiled_pieces(collectives: Iterable[HloCollective]) -> Counter:
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


def _explained(
    predicted: Counter, compiled: Counter, again: Counter, sizes: Mapping[str, int]
) -> tuple[Difference, ...]:
    """Matches each predicted piece with compiled ones: equal ones first, then those that a rule makes of it.

    Compiled pieces that are left over may be sent `again`.
    """
    for piece in list(predicted):
        for exact in (False, True):
            _take(predicted, compiled, piece, (piece._replace(exact=exact),))
    differences = []
    # All pieces try a rule before any tries the next one.
    for rule, candidates in _CANDIDATES:
        for piece in sorted(predicted, key=str):
            for others in candidates(piece, math.prod(sizes[axis] for axis in piece.axes or ()), compiled):
                if times := _take(predicted, compiled, piece, others):
                    differences.append(Difference(rule, piece, others, times))
    surplus = ((piece, min(times, again[piece])) for piece, times in sorted(compiled.items(), key=str))
    return (*differences, *(Difference(AGAIN, None, (piece,), times) for piece, times in surplus if times))


def _take(predicted: Counter, compiled: Counter, piece: Piece, others: tuple[Piece, ...]) -> int:
    """Removes a predicted piece and those compiled in its place, as often as both exist; returns how often."""
    wanted = Counter(others)
    times = min(predicted[piece], *(compiled[other] // count for other, count in wanted.items()))
    predicted[piece] -= times
    for other, count in wanted.items():
        compiled[other] -= times * count
    return times


def _narrow(piece: Piece) -> Candidates:
    """The same array in bfloat16."""
    if piece.dtype == "float32":
        yield (piece._replace(dtype="bfloat16", payload=piece.payload // 2),)


def _moved_narrow(piece: Piece, _devices: int, _compiled: Counter) -> Candidates:
    if KINDS[piece.kind].shard:
        yield from _narrow(piece)


def _greatest_narrow(piece: Piece, _devices: int, _compiled: Counter) -> Candidates:
    if piece.kind == ALL_REDUCE.name:
        yield from _narrow(piece._replace(exact=True))


def _summed_whole(piece: Piece, _devices: int, _compiled: Counter) -> Candidates:
    if piece.kind == REDUCE_SCATTER.name:
        yield (piece._replace(kind=ALL_REDUCE.name),)


def _added(piece: Piece, devices: int, _compiled: Counter) -> Candidates:
    if piece.kind == ALL_GATHER.name:
        added = piece._replace(kind=ALL_REDUCE.name, payload=devices * piece.payload)
        yield (added,)
        yield from _narrow(added)


def _padded(piece: Piece, devices: int, compiled: Counter) -> Candidates:
    """Larger parts, and permutes of the last device's offset: as many whole parts as fit in it, and the rest."""
    if piece.kind != REDUCE_SCATTER.name:
        return
    for other, times in sorted(compiled.items(), key=str):
        more = other.payload - piece.payload
        if not times or more <= 0 or more % devices or other != piece._replace(payload=other.payload):
            continue
        shards, rest = divmod(more // devices * (devices - 1), other.payload // devices)
        moved = [other.payload // devices] * shards + [rest] * (rest > 0)
        yield (other, *(piece._replace(kind=COLLECTIVE_PERMUTE.name, payload=size) for size in moved))


# By rule, the pieces that it makes of a predicted one, nearest first; none where it does not apply.
_CANDIDATES: tuple[tuple[str, Callable[[Piece, int, Counter], Candidates]], ...] = (
    (NARROWED, _moved_narrow),
    (NARROWED, _greatest_narrow),
    (SUMMED_WHOLE, _summed_whole),
    (GATHERED_BY_ADDING, _added),
    (PADDED, _padded),
)
