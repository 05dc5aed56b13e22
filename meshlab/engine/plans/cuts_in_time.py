"""Says which elements the block of an iteration has, where devices share it otherwise than when it was cut.

    batch  [data]  →  [data+micro]         cut: of each device's shard the next block
    groups [data+micro, ·]  →  [micro, data]   an all-to-all: each device has the block's elements of all devices

Inside of an iteration a block is a smaller value, and what devices do with it is their own affair: it may be gathered,
scattered or sent, as if there were no axis in time. But it keeps its elements: those that were cut from the shards of
`data`, though nothing is split over `data` any more. So values meet only if they were cut alike; blocks are joined only
when each device has the part that it cut; and nothing may ask where in the whole its elements lie but then.

Where no block is moved between devices all that holds by itself.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from ..code.loops import carried
from ..code.operations import Input
from ..legality.refusal import Refusal
from ..planning.propagation import bodies
from ..planning.shared_steps import each_once
from ..planning.step import Step, only
from ..planning.step_keys import Key
from ..planning.steps import Compute, Materialise, Move, Nested
from ..programs.program import Program
from ..specs.in_time import part_in_time
from ..specs.spec import Axes, Grid, Spec
from .iteration_refusals import Refusals


def cuts_in_time(
    program: Program, axis: str, grid: Grid, steps: Sequence[Step], refusals: Refusals
) -> tuple[list[Refusal], dict[Key, Axes]]:
    """Returns why blocks that devices share otherwise than they were cut cannot be, and how those were cut that can.

    Args:
        program: the program.
        axis: the axis in time.
        grid: the sizes of all mesh axes.
        steps: of a plan, which take the axis for one of devices.
        refusals: words them.

    Returns:
        The problems; and by key of a value the axes of the devices over whose shards it was cut.
    """
    moves = [move for move in only(Move, (step for step, *_ in each_once(steps))) if _shared_otherwise(move, axis)]
    if not moves:
        return [], {}
    if grid.padded:
        return [refusals.moved_in_time(move) for move in moves], {}
    cuts = _Cuts(program, axis, grid, refusals)
    cuts.walk(steps)
    return cuts.problems, {key: cut for key, cut in cuts.of.items() if cut != _devices(key[1], axis)}


def _shared_otherwise(move: Move, axis: str) -> bool:
    ends = move.start, move.via.result
    return all(axis in spec.axes for spec in ends) and len({_devices(spec, axis) for spec in ends}) > 1


def _devices(spec: Spec, axis: str) -> Axes:
    """Returns the axes of devices that split an axis of a value beside one in time."""
    split = next(split for split in spec.splits if axis in split)
    return tuple(each for each in split if each != axis)


class _Cuts:
    """One walk over steps: by key, the axes of devices over whose shards blocks were cut; none if any would do."""

    def __init__(self, program: Program, axis: str, grid: Grid, refusals: Refusals):
        self.program, self.axis, self.grid, self.refusals = program, axis, grid, refusals
        self.of: dict[Key, Axes] = {}
        self.problems: list[Refusal] = []

    def walk(self, steps: Iterable[Step]):
        for step in steps:
            if step.shared:
                self.walk(step.written())
            else:
                _WALK[type(step)](self, step)

    def key(self, value: Input, spec: Spec | None) -> Key | None:
        """Returns the key of a value that is cut; None for all others."""
        if not isinstance(value, int) or spec is None or self.axis not in spec.axes:
            return None
        return self.program.original_of.get(value, value), spec

    def keys(self, values: Iterable[Input], specs: Iterable[Spec | None]) -> Iterator[Key]:
        yield from (key for v, s in zip(values, specs, strict=True) if (key := self.key(v, s)) is not None)

    def hand_on(self, one: Key | None, other: Key | None):
        """Takes one value for another."""
        if one is not None and other is not None and one in self.of:
            self.of[other] = self.of[one]

    def move(self, step: Move):
        """Cuts a value, joins its blocks, or moves them between devices."""
        one, other = self.key(step.value, step.start), self.key(step.value, step.via.result)
        if one is not None:
            self.hand_on(one, other)
            if other is None and one in self.of and self.of[one] != _devices(step.start, self.axis):
                self.problems.append(self.refusals.moved_in_time(step))
        elif other is not None:
            self.of[other] = _devices(step.via.result, self.axis)

    def materialise(self, step: Materialise):
        """Makes indices as if they were cut where they are; a broadcast number is the same everywhere."""
        (value,) = step.operation.outputs
        key = self.key(value, step.spec)
        if key is None or step.operation.name != "iota":
            return
        if part_in_time(step.spec, self.axis)[0] == step.operation.params["dimension"]:
            self.of[key] = _devices(step.spec, self.axis)

    def compute(self, step: Compute):
        """Lets values meet that were cut alike."""
        read = [*self.keys(step.operation.inputs, step.operands)]
        made = [*self.keys(step.operation.outputs, step.results)]
        cuts = dict.fromkeys(self.of[key] for key in read if key in self.of)
        if len(cuts) > 1:
            self.problems.append(self.refusals.cut_otherwise(step.operation, cuts))
        if not cuts and not read and step.per_shard:
            cuts = dict.fromkeys(_devices(spec, self.axis) for _, spec in made)
        cut = next(iter(cuts), None)
        if cut is None:
            return
        self.of.update(dict.fromkeys(made, cut))
        if any(_devices(spec, self.axis) != cut for spec in self.in_places(step, cut)):
            self.problems.append(self.refusals.places(step.operation, cut))

    def in_places(self, step: Compute, cut: Axes) -> Iterator[Spec]:
        """Yields the specs of those values of which an operation asks where blocks lie, or takes them apart."""
        factors = self.program.factors[step.operation]
        parts = math.prod(self.grid[axis] for axis in (*cut, self.axis))
        # Places for rows lie nowhere: each block has its own.
        slots = factors.routed.slots if factors.routed else frozenset()
        every = *factors.operands, *factors.results
        for axes, spec in zip(every, (*step.operands, *step.results), strict=True):
            place = part_in_time(spec, self.axis)[0] if spec is not None else None
            if spec is None or place is None:
                continue
            factor = axes[place]
            if factor in slots:
                continue
            if (step.per_shard and factor in factors.per_shard) or factors.limits.get(factor, parts) % parts:
                yield spec

    def nested(self, step: Nested):
        """Walks the blocks of an operation: a loop's twice, since what goes round may be known only at its end."""
        operation = step.operation
        for block, inside in zip(operation.blocks, step.blocks, strict=True):
            inputs = [self.key(*pair) for pair in zip(block.inputs, inside.inputs, strict=True)]
            outputs = [self.key(*pair) for pair in zip(block.outputs, inside.outputs, strict=True)]
            for value, spec, own in zip(operation.inputs, step.operands, inputs, strict=False):
                self.hand_on(self.key(value, spec), own)
            self.walk(inside.steps)
            if block not in bodies(operation):
                continue
            if step.loops:
                self.go_round(step, inputs, outputs)
                self.walk(inside.steps)
            for value, spec, own in zip(operation.outputs, step.results, outputs, strict=True):
                self.hand_on(own, self.key(value, spec))

    def go_round(self, step: Nested, inputs: Sequence[Key | None], outputs: Sequence[Key | None]):
        """Takes what an iteration of a loop returns for what the next one reads."""
        count = carried(step.operation)
        for own, after in zip(inputs[:count], outputs[:count], strict=True):
            cuts = dict.fromkeys(self.of[key] for key in (own, after) if key is not None and key in self.of)
            if len(cuts) > 1:
                self.problems.append(self.refusals.cut_otherwise(step.operation, cuts))
            self.hand_on(after, own)


_WALK: dict[type[Step], Callable[[_Cuts, Any], None]] = {
    Move: _Cuts.move,
    Materialise: _Cuts.materialise,
    Compute: _Cuts.compute,
    Nested: _Cuts.nested,
}
