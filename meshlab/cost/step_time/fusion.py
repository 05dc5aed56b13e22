"""Fusion: finds the values that are never stored in memory, because compilers compute them where they are read.

    max  x → y        y is read by one matmul       y is stored: matmuls read their operands from memory
    mul  x, s → y     y is read by additions alone  y is virtual: each of them computes the elements that it needs
    reshape  x → y                                  y is an alias: the same bytes under another shape

Compilers fuse elementwise operations, and moves of elements, into the elementwise operations and reductions that read
them. Expensive ones (exponentials, roots) are computed once, if they have several readers. Matmuls, convolutions,
sorts, scatters and collectives read from memory and write to it.

A Fusion is of one block of steps; the blocks inside a step have their own.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Collection, Mapping, Sequence

from ...engine.planning.step import Step
from ...engine.planning.step_keys import Key, Originals
from ..workload.dataflow import Flow, flow
from ..workload.primitives import BITCASTS, EXPENSIVE, FUSED, REDUCING


def is_fused(step: Step) -> bool:
    """Returns whether readers can compute the result of a step themselves."""
    if step.computes:
        return not step.per_shard and step.primitive in FUSED
    return step.droppable and step.collective is None


def is_bitcast(step: Step) -> bool:
    """Returns whether the result of a step is its operand's bytes."""
    return step.primitive in BITCASTS and not step.per_shard


def fuses_reads(step: Step) -> bool:
    """Returns whether a step can compute its operands, instead of reading them."""
    if step.primitive in REDUCING:
        return not step.per_shard
    return is_fused(step)


@dataclasses.dataclass(frozen=True, eq=False)
class Fusion:
    """The memory traffic of one block of steps.

    Attributes:
        virtual: the keys that are computed where they are read.
        alias: for keys that are the same bytes under another shape, the key whose bytes they are.
        flow: the block.
        gone: by the number of a key, whether it is virtual.
        same: by the number of a key, the number of the key whose bytes it is; its own for most.
    """

    virtual: frozenset[Key]
    alias: Mapping[Key, Key]
    flow: Flow
    gone: Sequence[bool]
    same: Sequence[int]
    _loaded: dict[int, list[int]] = dataclasses.field(default_factory=dict, init=False, repr=False)

    def loads(self, step: Step) -> tuple[Key, ...]:
        """Returns the keys that a step reads from memory, through virtual ones and aliases, each once.

        A step whose results are virtual reads nothing itself.
        """
        position = self._positions.get(id(step))
        if position is None or self.is_gone(position):
            return ()
        keys = self.flow.keys
        return tuple([keys[number] for number in self.loaded(position)])

    def stores(self, step: Step) -> tuple[Key, ...]:
        """Returns the keys that a step writes to memory."""
        position = self._positions.get(id(step))
        return () if position is None else tuple([self.flow.keys[number] for number in self.stored(position)])

    def is_gone(self, position: int) -> bool:
        """Returns whether a step is no kernel: all of its results are virtual or aliases."""
        return self._gone_steps[position]

    @functools.cached_property
    def _gone_steps(self) -> Sequence[bool]:
        gone, same = self.gone, self.same
        return [bool(made) and all([gone[n] or same[n] != n for n in made]) for made in self.flow.makes]

    def with_virtual(self, numbers: Collection[int]) -> Fusion:
        """Returns the fusion in which further keys, by their numbers, are computed where they are read."""
        gone = list(self.gone)
        for number in numbers:
            gone[number] = True
        other = dataclasses.replace(self, gone=gone)
        # What reads none of them reads the same from memory.
        other._loaded.update((at, loads) for at, loads in self._loaded.items() if not any(gone[n] for n in loads))
        return other

    def loaded(self, position: int) -> list[int]:
        """Returns the numbers of the keys that the step at a position reads from memory, each once."""
        known = self._loaded.get(position)
        if known is None:
            known = self._loaded[position] = self._found(position)
        return known

    def _found(self, position: int) -> list[int]:
        flow, gone, same = self.flow, self.gone, self.same
        loads: dict[int, None] = {}
        waiting = list(flow.reads[position])
        seen: set[int] = set()
        while waiting:
            number = same[waiting.pop()]
            if not gone[number]:
                loads[number] = None
            elif number not in seen:
                seen.add(number)
                waiting += flow.reads[flow.maker[number]]
        return list(loads)

    def stored(self, position: int) -> list[int]:
        """Returns the numbers of the keys that the step at a position writes to memory."""
        return [n for n in self.flow.makes[position] if not self.gone[n] and self.same[n] == n]

    @property
    def _positions(self) -> Mapping[int, int]:
        positions = self.__dict__.get("positions")
        if positions is None:
            positions = {id(step): position for position, step in enumerate(self.flow.steps)}
            object.__setattr__(self, "positions", positions)
        return positions


def fuse(steps: Sequence[Step], outputs: Sequence[Key], original_of: Originals) -> Fusion:
    """Returns the fusion of one block of steps, given as `flow` takes them; what the block returns is stored."""
    return fused(flow(steps, outputs, original_of))


def fused(block: Flow) -> Fusion:
    """Returns the fusion of a block whose keys are numbered."""
    steps, maker = block.steps, block.maker
    same, gone = list(range(len(block.keys))), [False] * len(block.keys)
    bitcast, fuses = [is_bitcast(s) for s in steps], [fuses_reads(s) for s in steps]
    for read, written, is_same in zip(block.reads, block.makes, bitcast, strict=True):
        if is_same and read:
            same[written[0]] = same[read[0]]
    # The readers of each key, through aliases.
    users: list[Sequence[int]] = list(block.users)
    returned = set(block.outputs)
    for number, original in enumerate(same):
        if original != number:
            users[original] = [*users[original], *(u for u in users[number] if not bitcast[u])]
            if number in returned:
                returned.add(original)
    for number in range(len(block.keys)):
        at = maker[number]
        if at < 0 or same[number] != number or number in returned or not is_fused(steps[at]):
            continue
        readers = {u for u in users[number] if not bitcast[u]}
        cheap = steps[at].primitive not in EXPENSIVE
        gone[number] = bool(readers) and all(fuses[u] for u in readers) and (cheap or len(readers) == 1)
    keys = block.keys
    virtual = frozenset(keys[n] for n, is_virtual in enumerate(gone) if is_virtual)
    alias = {keys[n]: keys[original] for n, original in enumerate(same) if original != n}
    return Fusion(virtual, alias, block, gone, same)
