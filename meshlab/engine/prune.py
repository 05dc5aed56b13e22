"""Pruning: moves that nothing reads are taken out of a plan.

A value may be stored at a tag in one spec while all that read it want another, which is still at hand: then the first
move is dead. XLA would drop it, so the plan must not count it.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping, Sequence

from .code import Input
from .spec import Spec
from .steps import Compute, Fill, Nested, Step

Shard = tuple[int, Spec]


def prune(
    steps: Sequence[Step], outputs: Iterable[tuple[Input, Spec | None]], roots: Mapping[int, int]
) -> tuple[Step, ...]:
    """Returns the steps that something reads.

    Args:
        steps: of a whole plan.
        outputs: the values that it returns, with their specs.
        roots: for values that are the array of another, which one.
    """
    kept, _ = _pruned(steps, _shards(outputs, roots), roots)
    return kept


def _shards(values: Iterable[tuple[Input, Spec | None]], roots: Mapping[int, int]) -> set[Shard]:
    return {(roots.get(v, v), s) for v, s in values if isinstance(v, int) and s is not None}


def _pruned(steps: Sequence[Step], read: set[Shard], roots: Mapping[int, int]) -> tuple[tuple[Step, ...], set[Shard]]:
    """The steps that are read, and all shards that they, or what comes after them, read."""
    kept: list[Step] = []
    for step in reversed(steps):
        if isinstance(step, Compute):
            read |= _shards(zip(step.operation.inputs, step.operands, strict=True), roots)
        elif isinstance(step, Fill):
            if (step.operation.outputs[0], step.spec) not in read:
                continue
            read |= _shards(((v, Spec(())) for v in step.operation.inputs), roots)
        elif isinstance(step, Nested):
            blocks = []
            for block, inside in zip(step.operation.blocks, step.blocks, strict=True):
                returned = _shards(zip(block.outputs, inside.outputs, strict=True), roots)
                inner, wanted = _pruned(inside.steps, returned, roots)
                blocks.append(dataclasses.replace(inside, steps=inner))
                read |= wanted
            step = dataclasses.replace(step, blocks=tuple(blocks))  # noqa: PLW2901 - the step, its blocks pruned
            read |= _shards(zip(step.operation.inputs, step.operands, strict=True), roots)
        else:
            if (step.value, step.hop.result) not in read:
                continue
            read.add((step.value, step.start))
        kept.append(step)
    return tuple(reversed(kept)), read
