"""Puts a loop in front of another, for what its iterations must know beforehand; and gathers into the loop.

The loss of a language model is `(l * mask).sum() / mask.sum()`: every gradient is divided by the number of tokens in
all micro-batches, which the first of them cannot know. A loop in front counts them:

    loop in front     slice the mask, sum it                     → the number of tokens
    then              1 / number
    the loop          forward, backward, divided by it           → gradients

It may run whatever costs little, and whatever the other one does not run: two steps of gradient descent in one function
are two loops, and what the first contractions make besides is a result of the first loop. A contraction, or a loop,
that both loops would have to run is not worth it, and not what the author of a batch norm meant by micro-batches: that
is refused.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

from ..code.operations import Operation
from ..legality.refusal import named
from ..planning.step import Step
from ..planning.step_keys import Key
from ..planning.steps import Result
from ..rules.traits import TRAITS


@dataclasses.dataclass(frozen=True)
class Loop:
    """One loop over an axis in time: its steps, and what is known after it."""

    steps: Sequence[Step]
    results: Sequence[Result]


@dataclasses.dataclass(frozen=True)
class Loops:
    """The steps of a plan around its loops.

    Attributes:
        original_of: the originals of renames and tags, by number.
        before: the steps in front of the loops.
        inside: the steps of an iteration.
        after: the steps behind it.
        results: by key in an iteration, what is known after it.
        front: a loop in front and the steps behind that one; None for a single loop.
    """

    original_of: Mapping[int, int]
    before: Sequence[Step]
    inside: Sequence[Step]
    after: Sequence[Step]
    results: Mapping[Key, Result]
    front: tuple[Loop, Sequence[Step]] | None = None

    @property
    def loops(self) -> tuple[tuple[Loop, Sequence[Step]], ...]:
        """The loops in order, each with the steps behind it."""
        last = Loop(self.inside, tuple(self.results.values())), self.after
        return (last,) if self.front is None else (self.front, last)

    def closure(self, keys: Iterable[Key], steps: Sequence[Step]) -> list[Step]:
        """Returns those of some steps that lead to keys."""
        wanted, chosen = set(keys), []
        for step in reversed(steps):
            if not wanted.isdisjoint(step.makes(self.original_of)):
                chosen.append(step)
                wanted.update(step.reads(self.original_of))
        return chosen[::-1]

    def following(self, steps: Sequence[Step], chosen: Callable[[Step], bool]) -> set[Key]:
        """Returns the keys that chosen steps make, and all that some steps make of these."""
        keys: set[Key] = set()
        for step in steps:
            if chosen(step) or not keys.isdisjoint(step.reads(self.original_of)):
                keys.update(step.makes(self.original_of))
        return keys

    def read(self, steps: Iterable[Step]) -> set[Key]:
        return {key for step in steps for key in step.reads(self.original_of)}

    def made(self, steps: Iterable[Step]) -> set[Key]:
        return {key for step in steps for key in step.makes(self.original_of)}


def two_loops(
    loops: Loops, late: Collection[Key], outputs: Collection[Key], sending: Collection[Operation]
) -> Loops | str:
    """Moves what an iteration must know beforehand into a loop in front.

    Args:
        loops: with one loop.
        late: the keys that it reads and that are known only after it.
        outputs: the keys that the plan returns.
        sending: the operations whose per-shard implementations send something.

    Returns:
        The same with two loops; or, in words, why that cannot be.
    """
    early = loops.closure(late, loops.after)
    needed = loops.read(early) | set(late)
    sums = _needed(loops.results, needed)
    if any(not result.is_sum for result in sums.values()):
        return "It is gathered from all iterations, and they read it again."
    known = loops.made(early) | set(late)
    if loops.read(loops.closure(sums, loops.inside)) & known:
        return "More than two loops would be needed."
    rest = [step for step in loops.after if all(step is not other for other in early)]
    left = _needed(loops.results, loops.read(rest) | set(outputs))
    first = _in_front(loops, sums, left, known, sending)
    one = loops.closure(first, loops.inside)
    left = {key: result for key, result in left.items() if key not in first}
    two = loops.closure(left, loops.inside)
    chosen = set(map(id, two))
    twice = [step for step in one if id(step) in chosen and _is_heavy(step, sending)]
    if twice:
        again = next(step.serves for step in twice if step.serves)
        return f"A loop in front, to find it, would compute {named(again)} a second time."
    front = Loop(one, tuple(first.values())), early
    return dataclasses.replace(loops, inside=two, after=rest, results=left, front=front)


def _in_front(
    loops: Loops,
    sums: Mapping[Key, Result],
    left: Mapping[Key, Result],
    known: set[Key],
    sending: Collection[Operation],
) -> dict[Key, Result]:
    """Returns the results of the loop in front: some sums, and what shares their contractions and can be known there.

    A function that takes two steps returns the loss of the first one too, which the first gradient computes.
    """
    first = dict(sums)
    late = loops.following(loops.inside, lambda step: not known.isdisjoint(step.reads(loops.original_of)))
    while True:
        heavy = {id(step) for step in loops.closure(first, loops.inside) if _is_heavy(step, sending)}
        shared = loops.following(loops.inside, lambda step, heavy=heavy: id(step) in heavy) if heavy else set[Key]()
        more = {key: r for key, r in left.items() if key in shared and key not in late and key not in first}
        if not more:
            return first
        first |= more


def _needed(results: Mapping[Key, Result], keys: Collection[Key]) -> dict[Key, Result]:
    """Returns the results of a loop that some steps behind it read."""
    return {key: r for key, r in results.items() if (r.value, r.outside) in keys}


def _is_heavy(step: Step, sending: Collection[Operation]) -> bool:
    operation = step.computes
    if operation is None:
        return bool(step.parts)
    traits = TRAITS.get(operation.name)
    return operation in sending or (traits is not None and traits.multiplies is not None)


def in_each_iteration(loops: Loops, outputs: Collection[Key]) -> Loops:
    """Moves collectives from in front of the loop into it, with all that depends on them, where only it reads them."""
    elsewhere = loops.read(loops.after) | set(outputs)
    for loop, then in loops.loops[:-1]:
        elsewhere |= loops.read(loop.steps) | loops.read(then)
    free: list[Step] = []
    for step in reversed(loops.before):
        if elsewhere.isdisjoint(step.makes(loops.original_of)):
            free.append(step)
        else:
            elsewhere.update(step.reads(loops.original_of))
    ids, gathered = set(map(id, free)), set[Key]()
    stay: list[Step] = []
    go: list[Step] = []
    for step in loops.before:
        if id(step) in ids and (step.collective or not gathered.isdisjoint(step.reads(loops.original_of))):
            go.append(step)
            gathered.update(step.makes(loops.original_of))
        else:
            stay.append(step)
    return dataclasses.replace(loops, before=stay, inside=[*go, *loops.inside])
