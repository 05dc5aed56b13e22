"""How layers that lie on stages one after the other are dealt to them in turn, and back.

    4 stages of 2 chunks, as stored:   0 1 | 2 3 | 4 5 | 6 7
    as a schedule deals them:          0 4 | 1 5 | 2 6 | 3 7

A stage sends each of its chunks to one stage, and gets as many: in so many rounds, in each of which every stage sends
one and gets one.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from .schedule import Schedule


class Round(NamedTuple):
    """One chunk from each stage to another, or to itself.

    Attributes:
        pairs: which stage sends to which.
        sent: by stage which of its chunks as stored it sends.
        got: by stage as which chunk of the schedule it gets one.
    """

    pairs: tuple[tuple[int, int], ...]
    sent: tuple[int, ...]
    got: tuple[int, ...]

    @property
    def stays(self) -> bool:
        """Whether no stage sends anything."""
        return all(here == there for here, there in self.pairs)

    @property
    def back(self) -> Round:
        return Round(tuple((there, here) for here, there in self.pairs), self.got, self.sent)


def rounds(schedule: Schedule) -> tuple[Round, ...]:
    """Returns the rounds that deal the chunks of a schedule; none where each stage has one, in order."""
    stages, chunks = schedule.stages, schedule.chunks
    if chunks == 1:
        return ()
    left = {divmod(part, chunks): schedule.needs.home[part] for part in range(stages * chunks)}
    found = []
    while left:
        chosen = _matched(left, stages)
        for here in chosen:
            del left[here]
        found.append(chosen)
    return tuple(_round(chosen, stages) for chosen in found)


def _round(chosen: dict[tuple[int, int], tuple[int, int]], stages: int) -> Round:
    sent, got, pairs = [0] * stages, [0] * stages, []
    for (here, stored), (there, chunk) in sorted(chosen.items()):
        sent[here], got[there] = stored, chunk
        pairs.append((here, there))
    return Round(tuple(pairs), tuple(sent), tuple(got))


def _matched(left: dict[tuple[int, int], tuple[int, int]], stages: int) -> dict[tuple[int, int], tuple[int, int]]:
    """Chooses one chunk of each stage, all for different stages: there is such a choice, as all have equally many."""
    taken: dict[int, tuple[int, int]] = {}

    def place(stage: int, seen: set[int]) -> bool:
        for here, (there, _) in left.items():
            if here[0] == stage and there not in seen:
                seen.add(there)
                if there not in taken or place(taken[there][0], seen):
                    taken[there] = here
                    return True
        return False

    for stage in range(stages):
        place(stage, set())
    return {here: left[here] for here in taken.values()}


def dealt(stored: Sequence[int], schedule: Schedule) -> list[list[int]]:
    """Returns by stage and chunk what stages have after the rounds, of one thing for each chunk as stored."""
    have = [[-1] * schedule.chunks for _ in range(schedule.stages)]
    for each in rounds(schedule):
        for here, there in each.pairs:
            have[there][each.got[there]] = stored[here * schedule.chunks + each.sent[here]]
    return have
