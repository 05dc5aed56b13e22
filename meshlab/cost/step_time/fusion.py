"""Fusion: which values never lie in memory, because compilers compute them where they are read.

    max  x → y        y is read by one product      y is stored: products read their operands from memory
    mul  x, s → y     y is read by additions alone  y is virtual: each of them computes what it needs of it
    reshape  x → y                                  y is an alias: the same bytes under another shape

What compilers fuse is elementwise work, and moves of elements, into the elementwise work and sums that read them. What
takes long to compute (exponentials, roots) is computed once, if it is read more than once. Products, convolutions,
sorts, scatters and collectives read from memory and write to it.

A Fusion tells of one block of steps; the blocks inside a step have their own.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence

from ...engine.planning.steps import Compute, Fill, Move, Step
from ..workload.dataflow import Flow, Key, Roots, flow
from ..workload.primitives import BITCASTS, EXPENSIVE, FUSED, REDUCING


def is_fused(step: Step) -> bool:
    """Whether what a step makes can be computed where it is read."""
    if isinstance(step, Compute):
        return not step.exchanged and step.operation.name in FUSED
    return isinstance(step, Fill) or (isinstance(step, Move) and step.hop.kind == "slice")


def is_bitcast(step: Step) -> bool:
    """Whether what a step makes are the bytes that it reads."""
    return isinstance(step, Compute) and step.operation.name in BITCASTS and not step.exchanged


def fuses_reads(step: Step) -> bool:
    """Whether a step can compute what it reads, instead of reading it."""
    if isinstance(step, Compute) and step.operation.name in REDUCING:
        return not step.exchanged
    return is_fused(step)


@dataclasses.dataclass(frozen=True, eq=False)
class Fusion:
    """What one block of steps has in memory.

    Attributes:
        virtual: what is computed where it is read.
        alias: for what is the same bytes under another shape, whose bytes they are.
        flow: the block.
        gone: by the number of a key, whether it is virtual.
        same: by the number of a key, the number of that whose bytes it is, its own for most.
    """

    virtual: frozenset[Key]
    alias: Mapping[Key, Key]
    flow: Flow
    gone: Sequence[bool]
    same: Sequence[int]

    def loads(self, step: Step) -> tuple[Key, ...]:
        """What a step reads from memory: seen through what is virtual, and by whose bytes they are; each once.

        Nothing, for a step that is computed where it is read.
        """
        position = self._positions.get(id(step))
        if position is None or self.is_gone(position):
            return ()
        keys = self.flow.keys
        return tuple([keys[number] for number in self.loaded(position)])

    def stores(self, step: Step) -> tuple[Key, ...]:
        """What a step writes to memory."""
        position = self._positions.get(id(step))
        return () if position is None else tuple([self.flow.keys[number] for number in self.stored(position)])

    def is_gone(self, position: int) -> bool:
        """Whether nothing is done where a step stands: all that it makes is virtual or an alias."""
        made = self.flow.makes[position]
        return bool(made) and all(self.gone[n] or self.same[n] != n for n in made)

    def loaded(self, position: int) -> list[int]:
        """The numbers of what the step at a position reads from memory, each once."""
        flow, gone, same = self.flow, self.gone, self.same
        found: dict[int, None] = {}
        waiting = list(flow.reads[position])
        seen: set[int] = set()
        while waiting:
            number = same[waiting.pop()]
            if not gone[number]:
                found[number] = None
            elif number not in seen:
                seen.add(number)
                waiting += flow.reads[flow.maker[number]]
        return list(found)

    def stored(self, position: int) -> list[int]:
        """The numbers of what the step at a position writes to memory."""
        return [n for n in self.flow.makes[position] if not self.gone[n] and self.same[n] == n]

    @property
    def _positions(self) -> Mapping[int, int]:
        found = self.__dict__.get("positions")
        if found is None:
            found = {id(step): position for position, step in enumerate(self.flow.steps)}
            object.__setattr__(self, "positions", found)
        return found


def fuse(steps: Sequence[Step], outputs: Sequence[Key], roots: Roots) -> Fusion:
    """Finds what compilers fuse in one block of steps.

    Args:
        steps: of one block, parts written out.
        outputs: what the block returns: it is in memory in the end.
        roots: the values that renames and tags are of, by number.
    """
    return fused(flow(steps, outputs, roots))


def fused(block: Flow) -> Fusion:
    """Finds what compilers fuse in a block whose keys are numbered."""
    steps, maker = block.steps, block.maker
    same, gone = list(range(len(block.keys))), [False] * len(block.keys)
    bitcast, fuses = [is_bitcast(s) for s in steps], [fuses_reads(s) for s in steps]
    for read, made, is_same in zip(block.reads, block.makes, bitcast, strict=True):
        if is_same and read:
            same[made[0]] = same[read[0]]
    # Who reads a value, by whatever shape.
    users = [list(found) for found in block.users]
    kept = set(block.outputs)
    for number, original in enumerate(same):
        if original != number:
            users[original] += [u for u in users[number] if not bitcast[u]]
            if number in kept:
                kept.add(original)
    for number in range(len(block.keys)):
        at = maker[number]
        if at < 0 or same[number] != number or number in kept or not is_fused(steps[at]):
            continue
        readers = {u for u in users[number] if not bitcast[u]}
        cheap = _name(steps[at]) not in EXPENSIVE
        gone[number] = bool(readers) and all(fuses[u] for u in readers) and (cheap or len(readers) == 1)
    keys = block.keys
    virtual = frozenset(keys[n] for n, is_virtual in enumerate(gone) if is_virtual)
    alias = {keys[n]: keys[original] for n, original in enumerate(same) if original != n}
    return Fusion(virtual, alias, block, gone, same)


def _name(step: Step) -> str:
    return step.operation.name if isinstance(step, Compute | Fill) else ""
