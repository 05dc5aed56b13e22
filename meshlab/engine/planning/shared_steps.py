"""Identical layers share one list of steps: this reads such lists; `steps.unfolded` writes all of them out.

Repetitions that are planned alike are `Repeated` steps that share one list, in the numbers of the representative.
Written out they are what runs. `each_once` yields each list once, and how often it comes, which is what is counted and
shown: the rows of a model of 80 layers are as many as those of one of 8.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from ..programs.outline import Repetition
from .step import AnyStep, Step
from .steps import Repeated


def each_once(
    steps: Iterable[Step], times: int = 1, repetitions: tuple[Repetition, ...] = ()
) -> Iterator[tuple[Step, int, tuple[Repetition, ...]]]:
    """Yields every step, those inside loops too, with how often it runs, and the repetitions that it stands for.

    Of repetitions alike the first one stands for all. Of branches each counts as if it ran.
    """
    alike: dict[int, list[Repetition]] = {}
    steps = tuple(steps)
    for step in steps:
        if isinstance(step, Repeated):
            alike.setdefault(id(step.steps), []).append(step.repetition)
    for step in steps:
        if isinstance(step, Repeated):
            group = tuple(alike.pop(id(step.steps), ()))
            yield from each_once(step.written(), times * len(group), group) if group else ()
            continue
        yield step, times, repetitions
        for part in step.parts:
            yield from each_once(part.steps, times * part.times, repetitions)


def counted(steps: Iterable[Step]) -> Iterator[tuple[Step, int]]:
    """Yields every step with how often it runs; see `each_once`."""
    return ((step, times) for step, times, _ in each_once(steps))


def counted_only(kind: type[AnyStep], steps: Iterable[Step]) -> Iterator[tuple[AnyStep, int]]:
    return ((step, times) for step, times, _ in each_once(steps) if isinstance(step, kind))


class WrittenOut(NamedTuple):
    """A step as it runs.

    Attributes:
        step: it, in the program's own numbers.
        position: that of the step that `each_once` yields for it.
        number: the repetition that it is in, from 1 on.
        repetitions: how many of them are planned alike; 1 of what is in none.
    """

    step: Step
    position: int
    number: int = 1
    repetitions: int = 1


def written_out(steps: Iterable[Step], written: Iterable[Step]) -> list[WrittenOut]:
    """Lists every step that runs, those inside loops too, beside the one that is counted and shown for it.

    Args:
        steps: as planned, `plan.planned.steps`.
        written: the same with all repetitions written out, `plan.steps`.
    """
    rows: list[WrittenOut] = []
    _write_out(rows, tuple(steps), iter(written), itertools.count())
    return rows


def _write_out(
    rows: list[WrittenOut], steps: tuple[Step, ...], written: Iterator[Step], positions: Iterator[int], *repetition: int
):
    alike = Counter(id(step.steps) for step in steps if isinstance(step, Repeated))
    seen: dict[int, tuple[int, list[int]]] = {}
    for step in steps:
        if not isinstance(step, Repeated):
            there = next(written)
            rows.append(WrittenOut(there, next(positions), *repetition))
            for part, whole in zip(step.parts, there.parts, strict=True):
                _write_out(rows, part.steps, iter(whole.steps), positions, *repetition)
            continue
        key, mine, first = id(step.steps), tuple(itertools.islice(written, len(step.steps))), len(rows)
        number, places = seen.get(key, (0, []))
        _write_out(rows, mine, iter(mine), iter(places) if number else positions, number + 1, alike[key])
        seen[key] = number + 1, places or [row.position for row in rows[first:]]


def stand_ins(steps: Iterable[Step]) -> dict[Repetition, Repetition]:
    """Returns for each repetition the one that `each_once` yields in its place."""
    first: dict[int, Repetition] = {}
    stand_in_of: dict[Repetition, Repetition] = {}
    for step in steps:
        if isinstance(step, Repeated):
            stand_in_of[step.repetition] = first.setdefault(id(step.steps), step.repetition)
            continue
        # The steps of a repetition in its own block come after those that it asked for in the blocks around.
        stand_in_of |= {one: other for part in step.parts for one, other in stand_ins(part.steps).items()}
    return stand_in_of
