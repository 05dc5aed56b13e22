"""Finds for each step of an iteration the piece of a pipeline that it is in, and what the pieces read of each other.

A step is where what it reads is: in `pre` if that depends on no scan, in `mid` behind the forward scan's carry, in
`post` behind the backward scan's. What is split over the stages, or partial over them, is each stage's own: in `F` or
`B`. Steps that depend on no scan go to whoever reads them alone, since `mid` may need what `pre` would have to send.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping, Sequence

from ..planning.staged import BACKWARD, FORWARD, MID, PIECES, POST, PRE, beside_carries, carries
from ..planning.step import Step
from ..planning.step_keys import Key, Originals
from ..planning.steps import Iterated, Nested
from ..rules.traits import TRAITS
from .placing import mentions

# Where carries are when a scan has ended: on the last stage, and on the first.
END_OF_FORWARD, END_OF_BACKWARD = "end of F", "end of B"
# In which order pieces depend on each other.
_BEFORE, _OWN, _BEHIND_FORWARD, _OWN_BACKWARD, _BEHIND_BACKWARD = range(5)


@dataclasses.dataclass(frozen=True)
class Crossing:
    """What goes from piece to piece.

    Attributes:
        again: by piece the keys that it computes again.
        passed: what is sent on.
        returned: what is sent back.
        kept: what a stage keeps from its forward cell to its backward cell.
        refused: who reads what a stage cannot have, and the key.
    """

    again: dict[str, dict[Key, None]]
    passed: dict[Key, None]
    returned: dict[Key, None]
    kept: dict[Key, None]
    refused: list[tuple[Step, Key]]


class Pieces:
    """Places the steps of one iteration.

    Args:
        loop: over micro-batches.
        forward: its scan over layers.
        backward: the one in reverse.
        axis: of the stages.
        original_of: the originals of renames and tags, by number.

    Attributes:
        steps: by piece its steps, in order.
        home: by key that the iteration makes, the piece or the end of a scan where it is known.
        misplaced: steps on all stages that read what is known behind the backward scan, with that key.
    """

    def __init__(self, loop: Iterated, forward: Nested, backward: Nested, axis: str, original_of: Originals):
        self.loop, self.forward, self.backward, self.axis = loop, forward, backward, axis
        self.original_of = original_of
        self.misplaced: list[tuple[Step, Key]] = []
        self._rank: dict[Key, int] = {}
        # By the id of a step: what it depends on, and its piece.
        self._after: dict[int, int] = {}
        self._piece: dict[int, str] = {id(forward): FORWARD, id(backward): BACKWARD}
        self._by_dependency(loop.steps)
        self._by_readers(loop.steps)
        self.steps = {name: [s for s in loop.steps if self._piece[id(s)] == name] for name in PIECES}
        self.home = self._homes()

    def reads(self, step: Step) -> tuple[Key, ...]:
        return step.reads(self.original_of)

    def makes(self, step: Step) -> tuple[Key, ...]:
        return step.makes(self.original_of)

    def scan(self, step: Step) -> Nested | None:
        """Returns one of the two scans over layers; None of any other step."""
        return next((scan for scan in (self.forward, self.backward) if step is scan), None)

    def _by_dependency(self, steps: Iterable[Step]):
        for step in steps:
            if (scan := self.scan(step)) is not None:
                behind, own = (_BEHIND_FORWARD, _OWN) if scan is self.forward else (_BEHIND_BACKWARD, _OWN_BACKWARD)
                self._rank.update(dict.fromkeys(self.makes(step), own))
                self._rank.update(dict.fromkeys(carries(scan, self.original_of, out=True), behind))
                continue
            after = max((self._rank.get(key, _BEFORE) for key in self.reads(step)), default=_BEFORE)
            if any(mentions(step, self.axis)) and after:
                if after == _BEHIND_BACKWARD:
                    late = (k for k in self.reads(step) if self._rank.get(k) == _BEHIND_BACKWARD)
                    self.misplaced += [(step, key) for key in late]
                after = _OWN if after == _OWN else _OWN_BACKWARD
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
                piece, starts = (FORWARD, PRE) if scan is self.forward else (BACKWARD, MID)
                note(carries(scan, self.original_of, out=False), starts)
                note(self.reads(beside_carries(scan)), piece)
                continue
            piece = _PIECE_OF[self._after[id(step)]]
            if piece == PRE:
                by = {each for key in self.makes(step) for each in readers.get(key, ())}
                first, *alone = (FORWARD, BACKWARD) if any(mentions(step, self.axis)) else (PRE, MID, POST)
                piece = next((each for each in alone if by == {each}), first)
            self._piece[id(step)] = piece
            note(self.reads(step), piece)

    def _homes(self) -> dict[Key, str]:
        home = {key: self._piece[id(step)] for step in self.loop.steps for key in self.makes(step)}
        home.update(dict.fromkeys(carries(self.forward, self.original_of, out=True), END_OF_FORWARD))
        home.update(dict.fromkeys(carries(self.backward, self.original_of, out=True), END_OF_BACKWARD))
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
        if name == MID:
            starts = carries(self.backward, self.original_of, out=False)
            found |= {key: self.backward for key in starts if key in self.home and key not in made}
            ends = ((result.value, result.inside) for result in self.loop.results)
            found |= {key: self.forward for key in ends if self.home.get(key) == END_OF_FORWARD and key not in found}
        return found

    def crossing(self) -> Crossing:
        """Finds how each piece comes by what it reads of others."""
        cheap = self._computed_anywhere()
        crossing = Crossing({name: {} for name in PIECES}, {}, {}, {}, list(self.misplaced))
        for name in PIECES[1:]:
            for key, reader in self.wanted(name).items():
                if key in cheap:
                    crossing.again[name][key] = None
                elif not self._cross(crossing, key, name):
                    crossing.refused.append((reader, key))
        return crossing

    def _cross(self, crossing: Crossing, key: Key, name: str) -> bool:
        """Takes note of how a piece comes by a key of another one; False where it cannot."""
        there = self.home[key]
        on_last = there in (MID, END_OF_FORWARD)
        if there == PRE and name != POST:
            crossing.passed[key] = None
        if there == END_OF_FORWARD or (there in (PRE, FORWARD) and name != FORWARD):
            crossing.kept[key] = None
        if on_last and name in (BACKWARD, POST):
            crossing.returned[key] = None
        allowed = {PRE: PIECES, FORWARD: (BACKWARD,), END_OF_BACKWARD: (POST,)}
        return on_last or name in allowed.get(there, ())

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


_PIECE_OF = {_BEFORE: PRE, _OWN: FORWARD, _BEHIND_FORWARD: MID, _OWN_BACKWARD: BACKWARD, _BEHIND_BACKWARD: POST}


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
