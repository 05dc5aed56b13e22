"""How a collective goes, hop by hop: who sends which piece to whom, and what each device then has.

    course = KINDS["all-gather"].course(4, ())
    course.hops[0].transfers[0]     Transfer(source=0, target=1, piece=0)
    *_, last = states(course)       at last each member has the pieces 0 to 3

The devices of a group are its members, 0 to n - 1, major first along the mesh axes. What they hold between them is cut
into equal pieces, which have numbers. Of a sum each member has an addend of each piece, and a piece is finished once it
has the addends of all.

These are the rings whose bytes `Kind.sent` counts (Patarasuk and Yuan, 2009). A machine may send the same bytes in
another order: both ways around a ring at once, or along several axes of a torus.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from typing import NamedTuple

# The target of what leaves the mesh: a part that is shifted beyond the last device.
NOBODY = -1

# Of a member its pieces, and of each the members whose addends it has, one bit for each; of what is no sum, the bit of
# the member whose it was.
Held = dict[int, int]
Pairs = Sequence[tuple[int, int]]


class Transfer(NamedTuple):
    """One piece on its way. From a member to itself it stays; to `NOBODY` it is dropped."""

    source: int
    target: int
    piece: int


@dataclasses.dataclass(frozen=True)
class Hop:
    """What is sent at one time.

    Attributes:
        text: what each device does, with {bytes} for the bytes of one piece.
        transfers: all of them.
        adds: whether the target adds what it gets to its own.
        keeps: whether the source keeps what it sends.
    """

    text: str
    transfers: tuple[Transfer, ...]
    adds: bool = False
    keeps: bool = False


@dataclasses.dataclass(frozen=True)
class Course:
    """All of a collective.

    Attributes:
        cut: into how many pieces the operand of one device is cut.
        start: the pieces of each member before it.
        hops: one after the other.
    """

    cut: int
    start: tuple[tuple[int, ...], ...]
    hops: tuple[Hop, ...]


def gather(n: int, _pairs: Pairs = ()) -> Course:
    """Each member passes on what it got last, beginning with its own slice."""
    return Course(1, tuple((i,) for i in range(n)), tuple(_pass_on(n, "slice")))


def reduce(n: int, _pairs: Pairs = ()) -> Course:
    """Each member passes on the sum that it made last; after n - 1 hops each piece is finished where it belongs."""
    return Course(n, _addends(n), tuple(_add_up(n)))


def reduce_and_gather(n: int, _pairs: Pairs = ()) -> Course:
    return Course(n, _addends(n), (*_add_up(n), *_pass_on(n, "finished part")))


def exchange(n: int, _pairs: Pairs = ()) -> Course:
    """Each member sends each other one its piece; `i * n + j` goes from member i to member j."""
    start = tuple(tuple(range(i * n, (i + 1) * n)) for i in range(n))
    hops = []
    for far in range(1, n):
        to = "the next" if far == 1 else f"the one {far} further on"
        sent = tuple(Transfer(i, (i + far) % n, i * n + (i + far) % n) for i in range(n))
        hops.append(Hop(f"each device sends 1/{n} of its slice, {{bytes}}, to {to}", sent))
    return Course(n, start, tuple(hops))


def along(n: int, pairs: Pairs) -> Course:
    """Each member sends its slice to one other, as (source, target) pairs say."""
    targets = dict(pairs)
    sent = tuple(Transfer(i, targets.get(i, NOBODY), i) for i in range(n))
    moving = sum(each.target not in (NOBODY, each.source) for each in sent)
    who = "each device sends" if moving == n else f"{moving} of {n} devices send{'s' * (moving == 1)}"
    text = f"{who} {'its' if moving in (1, n) else 'their'} slice, {{bytes}}, along the arrow"
    return Course(1, tuple((i,) for i in range(n)), (Hop(text, sent),))


def onward(n: int, pairs: Pairs, turns: int) -> Course:
    """Each member sends its slice to one other, and then so often on what it has got."""
    targets, held, hops = dict(pairs), list(range(n)), list[Hop]()
    for turn in range(turns):
        which = "the slice that it just got" if turn else "its slice"
        sent = tuple(Transfer(i, targets[i], held[i]) for i in range(n))
        hops.append(Hop(f"each device sends {which}, {{bytes}}, along the arrow", sent))
        for _, target, piece in sent:
            held[target] = piece
    return Course(1, tuple((i,) for i in range(n)), tuple(hops))


def states(course: Course) -> Iterator[list[Held]]:
    """Yields what each member has, at first and after each hop: the same lists, which change from hop to hop."""
    held = [{piece: 1 << member for piece in pieces} for member, pieces in enumerate(course.start)]
    yield held
    for hop in course.hops:
        sent = [(each, held[each.source][each.piece]) for each in hop.transfers]
        if not hop.keeps:
            for each in hop.transfers:
                del held[each.source][each.piece]
        for each, addends in sent:
            if each.target != NOBODY:
                own = held[each.target].get(each.piece, 0) if hop.adds else 0
                held[each.target][each.piece] = addends | own
        yield held


def sent_by(course: Course, member: int) -> float:
    """Returns what a member sends in all hops, in operands, as `Kind.sent` counts it: with what a permute leaves."""
    return sum(each.source == member for hop in course.hops for each in hop.transfers) / course.cut


def _addends(n: int) -> tuple[tuple[int, ...], ...]:
    return (tuple(range(n)),) * n


def _add_up(n: int) -> Iterator[Hop]:
    for hop in range(n - 1):
        what = f"1/{n} of its addend" if hop == 0 else "the sum that it just made"
        text = f"each device sends {what}, {{bytes}}, to the next, which adds its own"
        yield Hop(text, tuple(Transfer(i, (i + 1) % n, (i - hop - 1) % n) for i in range(n)), adds=True)


def _pass_on(n: int, what: str) -> Iterator[Hop]:
    for hop in range(n - 1):
        which = f"its {what}" if hop == 0 else f"the {what} that it just got"
        text = f"each device sends {which}, {{bytes}}, to the next"
        yield Hop(text, tuple(Transfer(i, (i + 1) % n, (i - hop) % n) for i in range(n)), keeps=True)
