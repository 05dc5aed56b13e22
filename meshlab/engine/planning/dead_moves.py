"""Removes moves that nothing reads from a plan.

A value may be stored at a tag in one spec while all that read it want another, which is still at hand: then the first
move is dead. XLA would drop it, so the plan must not count it.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping, Sequence

from ..code.operations import Input
from ..specs.spec import Spec
from .steps import Compute, Iterated, Materialise, Move, Nested, Repeated, Step

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
        """Notes that values are read in specs."""
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
            if isinstance(step, Compute):
                self.note(read, zip(step.operation.inputs, step.operands, strict=True))
            elif isinstance(step, Materialise):
                if step.spec not in read.get(step.operation.outputs[0], _NOWHERE):
                    continue
                self.note(read, ((v, Spec(())) for v in step.operation.inputs))
            elif isinstance(step, Nested):
                step = self.nested(step, read)  # noqa: PLW2901 - the step, its blocks pruned
            elif isinstance(step, Iterated):
                step = self.iterated(step, read)  # noqa: PLW2901 - the loop, its steps and results pruned
            elif isinstance(step, Repeated):
                step = self.repeated(step, read)  # noqa: PLW2901 - the repetition, its steps pruned
            elif isinstance(step, Move):
                if step.via.result not in read.get(step.value, _NOWHERE):
                    continue
                self.note(read, ((step.value, step.start),))
            remaining.append(step)
        return tuple(reversed(remaining))

    def nested(self, step: Nested, read: Reads) -> Nested:
        """Prunes a nested step: its blocks' outputs are read in them, what they read besides is read around them."""
        blocks = []
        for block, inside in zip(step.operation.blocks, step.blocks, strict=True):
            within = Reads()
            self.note(within, zip(block.outputs, inside.outputs, strict=True))
            blocks.append(dataclasses.replace(inside, steps=self.pruned(inside.steps, within)))
            for value, specs in within.items():
                read[value] = read.get(value, _NOWHERE) | specs
        self.note(read, zip(step.operation.inputs, step.operands, strict=True))
        return dataclasses.replace(step, blocks=tuple(blocks))

    def iterated(self, step: Iterated, read: Reads) -> Iterated:
        """Prunes a loop over a serial axis: the results that are read after it, and what they and its steps read."""
        results = tuple(each for each in step.results if each.outside in read.get(each.value, _NOWHERE))
        self.note(read, ((each.value, each.inside) for each in results))
        return dataclasses.replace(step, steps=self.pruned(step.steps, read), results=results)

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
