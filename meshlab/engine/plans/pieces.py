"""Finds for each step of an iteration the piece of a pipeline that it is in, and what the pieces read of each other.

A step is where what it reads is: in `pre` if that depends on no scan, in `mid` behind the forward scan's carry, in
`post` behind the backward scan's. What is split over the stages, or partial over them, is each stage's own: in `F` or
`B`. Steps that depend on no scan go to whoever reads them alone, since `mid` may need what `pre` would have to send.

Pieces are numbered in this order: every second one has a scan, and those of the forward and the backward pass of a
stack are as far from `mid`, on both sides of it.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping, Sequence

from ..planning.staged import FORWARD, MID, PIECES_OF, POST, PRE, beside_carries, carries
from ..planning.step import Step
from ..planning.step_keys import Key, Originals
from ..planning.steps import Iterated, Nested
from ..rules.traits import TRAITS
from .placing import mentions

# A scan over layers forward, and the one in reverse.
Pair = tuple[Nested, Nested]
# Of what depends on no scan.
_BEFORE = 0


@dataclasses.dataclass(frozen=True)
class Crossing:
    """What goes from piece to piece.

    Attributes:
        again: by piece the keys that it computes again.
        passed: by stack what is sent on.
        returned: by stack what is sent back.
        kept: by stack what a stage keeps from its forward cell to its backward cell.
        refused: who reads what a stage cannot have, and the key.
    """

    again: dict[str, dict[Key, None]]
    passed: list[dict[Key, None]]
    returned: list[dict[Key, None]]
    kept: list[dict[Key, None]]
    refused: list[tuple[Step, Key]]


class Pieces:
    """Places the steps of one iteration.

    Args:
        loop: over micro-batches.
        stacks: by stack, in the order of the forward pass, its two scans over layers.
        axis: of the stages.
        original_of: the originals of renames and tags, by number.

    Attributes:
        steps: by piece its steps, in order.
        names: of the pieces, in order.
        home: by key that the iteration makes, the piece where it is known; the end of a scan is in the one behind it.
        ends: what scans carry, when they have ended.
        misplaced: steps on all stages that read what is known behind the backward scan, with that key.
    """

    def __init__(self, loop: Iterated, stacks: Sequence[Pair], axis: str, original_of: Originals):
        self.loop, self.stacks, self.axis = loop, stacks, axis
        self.original_of = original_of
        self.names = PIECES_OF[len(stacks)]
        self.number = {name: number for number, name in enumerate(self.names)}
        self.misplaced: list[tuple[Step, Key]] = []
        scans = (*(forward for forward, _ in stacks), *(backward for _, backward in reversed(stacks)))
        # By the id of a scan the number of its piece.
        self._scans = {id(scan): 2 * position + 1 for position, scan in enumerate(scans)}
        self._scan = {id(scan): scan for scan in scans}
        self._rank: dict[Key, int] = {}
        # By the id of a step: the number of the last piece that it depends on, and its piece.
        self._after: dict[int, int] = {}
        self._piece: dict[int, str] = {known: self.names[number] for known, number in self._scans.items()}
        self._by_dependency(loop.steps)
        self._by_readers(loop.steps)
        self.steps = {name: [s for s in loop.steps if self._piece[id(s)] == name] for name in self.names}
        self.ends = {key for scan in scans for key in carries(scan, original_of, out=True)}
        self.home = self._homes()

    def reads(self, step: Step) -> tuple[Key, ...]:
        return step.reads(self.original_of)

    def makes(self, step: Step) -> tuple[Key, ...]:
        return step.makes(self.original_of)

    def scan(self, step: Step) -> Nested | None:
        """Returns one of the scans over layers; None of any other step."""
        return self._scan.get(id(step))

    def beside(self, name: str) -> str:
        """Returns the piece with a scan in whose cell a stage runs a piece alone."""
        number = self.number[name]
        behind = name == POST or (PRE != name and number < self.number[MID])
        return self.names[number - 1 if behind else number + 1]

    def _by_dependency(self, steps: Iterable[Step]):
        last = self.number[POST]
        for step in steps:
            if (scan := self.scan(step)) is not None:
                own = self._scans[id(step)]
                self._rank.update(dict.fromkeys(self.makes(step), own))
                self._rank.update(dict.fromkeys(carries(scan, self.original_of, out=True), own + 1))
                continue
            after = max((self._rank.get(key, _BEFORE) for key in self.reads(step)), default=_BEFORE)
            if any(mentions(step, self.axis)) and after:
                if after == last:
                    self.misplaced += [(step, key) for key in self.reads(step) if self._rank.get(key) == last]
                after = min(after | 1, last - 1)
            self._after[id(step)] = after
            self._rank.update(dict.fromkeys(self.makes(step), after))

    def _by_readers(self, steps: Sequence[Step]):
        """Places steps from the last to the first: what depends on no scan goes to its readers."""
        readers: dict[Key, set[str]] = {}

        def note(read: Iterable[Key], piece: str):
            for key in read:
                readers.setdefault(key, set()).add(piece)

        for step in reversed(steps):
            if (scan := self.scan(step)) is not None:
                number = self._scans[id(step)]
                note(carries(scan, self.original_of, out=False), self.names[number - 1])
                note(self.reads(beside_carries(scan)), self.names[number])
                continue
            piece = self.names[self._after[id(step)]]
            if piece == PRE:
                by = {each for key in self.makes(step) for each in readers.get(key, ())}
                piece = self._for_readers(by, is_own=any(mentions(step, self.axis)))
            self._piece[id(step)] = piece
            note(self.reads(step), piece)

    def _for_readers(self, by: set[str], is_own: bool) -> str:
        """Returns the piece of a step that depends on no scan, by the pieces that read it."""
        own, between = self.names[1::2], self.names[2:-2]
        if is_own:
            return min(by, key=self.number.__getitem__) if by and by <= {*own} else FORWARD
        alone = next(iter(by)) if len(by) == 1 else ""
        if alone and alone not in own:
            return alone
        # In front of the second stack, where nobody reads it before.
        return between[0] if by and by <= {*between} else PRE

    def _homes(self) -> dict[Key, str]:
        home = {key: self._piece[id(step)] for step in self.loop.steps for key in self.makes(step)}
        for scan in self._scan.values():
            behind = self.names[self._scans[id(scan)] + 1]
            home |= {key: behind for key in carries(scan, self.original_of, out=True)}
        return home

    def wanted(self, name: str) -> dict[Key, Step]:
        """Returns the keys that a piece reads of others, each with the first step that reads it."""
        made: set[Key] = set()
        found: dict[Key, Step] = {}
        for step in self.steps[name]:
            scan = self.scan(step)
            for key in self.reads(step if scan is None else beside_carries(scan)):
                if key in self.home and key not in made:
                    found.setdefault(key, step)
            made.update(self.makes(step))
        number = self.number[name]
        if number % 2 == 0 and name not in (PRE, POST):
            scan = next(scan for scan in self._scan.values() if self._scans[id(scan)] == number + 1)
            starts = carries(scan, self.original_of, out=False)
            found |= {key: scan for key in starts if key in self.home and key not in made}
        if name == MID:
            ends = ((result.value, result.inside) for result in self.loop.results)
            here = (key for key in ends if key in self.ends and self.home[key] == MID and key not in found)
            found |= dict.fromkeys(here, self.stacks[-1][0])
        return found

    def crossing(self) -> Crossing:
        """Finds how each piece comes by what it reads of others."""
        cheap = self._computed_anywhere()
        passed, returned, kept = ([dict[Key, None]() for _ in self.stacks] for _ in range(3))
        crossing = Crossing({name: {} for name in self.names}, passed, returned, kept, list(self.misplaced))
        for name in self.names[1:]:
            for key, reader in self.wanted(name).items():
                if key in cheap:
                    crossing.again[name][key] = None
                elif not self._cross(crossing, key, name):
                    crossing.refused.append((reader, key))
        return crossing

    def _cross(self, crossing: Crossing, key: Key, name: str) -> bool:
        """Takes note of how a piece comes by a key of another one; False where it cannot."""
        there, here, mid, last = (self.number[each] for each in (self.home[key], name, MID, POST))
        # The piece of the forward pass in whose cell a stage holds what is read here, and what is made there.
        mirror = last - here
        if there % 2:  # a stage's own
            if there < mid and mirror == there:
                crossing.kept[there // 2][key] = None
            return there < mid and mirror == there
        if here < there:
            return False
        if there < mid and here <= mid:
            self._goes(crossing.passed, key, there, here)
            if here == mid:
                crossing.kept[-1][key] = None
        elif there < mid and mirror >= there:
            self._goes(crossing.passed, key, there, mirror)
            crossing.kept[_stack_of_cell(mirror)][key] = None
        else:
            if there < mid or (there == mid and key in self.ends):
                crossing.kept[_stack_of_cell(there)][key] = None
            self._goes(crossing.returned, key, max(there, last - there), here)
        return True

    def _goes(self, ways: Sequence[dict[Key, None]], key: Key, there: int, here: int):
        """Takes note of a key that goes through the scans between two pieces, and to a piece that has a scan."""
        last = self.number[POST]
        for number in range(there + 1, here + 1):
            if number % 2:
                ways[min(number, last - number) // 2][key] = None

    def _computed_anywhere(self) -> set[Key]:
        """Returns the keys that any stage can make by itself: without a product, by gathers of what is stored."""
        good: dict[Key, bool] = {}
        for step in self.loop.steps:
            fine = self._after.get(id(step)) == _BEFORE and _is_cheap(step, self.reads(step), good)
            good.update(dict.fromkeys(self.makes(step), fine))
        return {key for key, fine in good.items() if fine}

    def closure(self, keys: Iterable[Key], steps: Sequence[Step]) -> list[Step]:
        """Returns those of some steps that lead to keys."""
        wanted, chosen = set(keys), []
        for step in reversed(steps):
            if not wanted.isdisjoint(self.makes(step)):
                chosen.append(step)
                wanted.update(self.reads(step))
        return chosen[::-1]


def _stack_of_cell(number: int) -> int:
    """Returns the stack in whose forward cell a piece of the forward pass is run, or its end is known."""
    return max(number - 1, 0) // 2


# Kinds of work of which a result is sent rather than made twice.
_HEAVY = ("matmul", "gather", "scatter", "opaque")


def _is_cheap(step: Step, read: Iterable[Key], good: Mapping[Key, bool]) -> bool:
    """Says whether a step may run on several stages: it takes no product, looks nothing up, and is no loop."""
    if step.parts or step.per_shard:
        return False
    if step.collective is not None:  # a gather of what is stored is sent less often than its result would be passed on
        return not any(key in good for key in read)
    if step.computes:
        traits = TRAITS.get(step.primitive)
        if traits is None or traits.kind in _HEAVY:
            return False
    return all(good.get(key, True) for key in read)
