"""Removes moves that nothing reads from a plan.

A value may be stored at a tag in one spec while all that read it want another, which is still at hand: then the first
move is dead. XLA would drop it, so the plan must not count it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from ..code.operations import Input
from ..specs.spec import Spec
from .step import Step
from .steps import Repeated

# The specs in which each value is read.
Reads = dict[int, frozenset[Spec]]
_NOWHERE: frozenset[Spec] = frozenset()


def prune(
    steps: Sequence[Step], outputs: Iterable[tuple[Input, Spec | None]], original_of: Mapping[int, int]
) -> tuple[Step, ...]:
    """Returns the steps that something reads.

    Args:
        steps: of a whole plan.
        outputs: the values that it returns, with their specs.
        original_of: for values that are the array of another, which one.
    """
    pruner, read = _Pruner(original_of), Reads()
    pruner.note(read, outputs)
    return pruner.pruned(steps, read)


class _Pruner:
    """Prunes one plan; repetitions whose interfaces are read alike are pruned once."""

    def __init__(self, original_of: Mapping[int, int]):
        self.original_of = original_of
        self.known: dict[tuple, tuple[tuple[Step, ...], list[tuple[int, frozenset[Spec]]]]] = {}

    def note(self, read: Reads, values: Iterable[tuple[Input, Spec | None]]):
        for value, spec in values:
            if isinstance(value, int) and spec is not None:
                original = self.original_of.get(value, value)
                specs = read.get(original, _NOWHERE)
                if spec not in specs:
                    read[original] = specs | {spec}

    def pruned(self, steps: Sequence[Step], read: Reads) -> tuple[Step, ...]:
        """Returns the steps that are read, and adds to `read` what they read themselves."""
        remaining: list[Step] = []
        for step in reversed(steps):
            left = _PRUNE.get(type(step), _Pruner.one)(self, step, read)
            if left is not None:
                remaining.append(left)
        return tuple(reversed(remaining))

    def one(self, step: Step, read: Reads) -> Step | None:
        """Prunes a step: what its parts return is read in them, what they read besides is read around them."""
        left = step.kept(lambda value, spec: spec in read.get(value, _NOWHERE))
        if left is None:
            return None
        if left.parts:
            parts = []
            for part in left.parts:
                within = Reads()
                self.note(within, zip(*part.returned, strict=True))
                parts.append(self.pruned(part.steps, within))
                for value, specs in within.items():
                    read[value] = read.get(value, _NOWHERE) | specs
            left = left.with_parts(parts)
        self.note(read, zip(*left.read(), strict=True))
        return left

    def repeated(self, step: Repeated, read: Reads) -> Repeated:
        """Prunes a repetition in the numbers of the representative."""
        interface, first = step.repetition.interface, step.repetition.representative.interface
        key = (id(step.steps), *map(read.get, interface))
        if key not in self.known:
            within = {v: specs for v, specs in zip(first, key[1:], strict=True) if specs}
            remaining = self.pruned(step.steps, within)
            more = [(i, within[v]) for i, v in enumerate(first) if v in within and within[v] is not key[1 + i]]
            self.known[key] = remaining, more
        remaining, more = self.known[key]
        read.update([(interface[i], specs) for i, specs in more])
        return Repeated(step.repetition, remaining)


# By the kind of step, what prunes it; `one` all others.
_PRUNE: dict[type[Step], Callable[[_Pruner, Any, Reads], Step | None]] = {Repeated: _Pruner.repeated}
