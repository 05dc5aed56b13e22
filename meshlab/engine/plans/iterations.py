"""Divides the steps of a plan by an axis in time: what runs before its loop, in each iteration, and after it.

A layout on a mesh with an axis in time is planned as if that axis were one of devices. The steps then say themselves
what an iteration is:

    slice over micro                     the iteration's block of an argument                 in the loop
    mul  [data+micro, ·] → …             what is split over micro                             in the loop
    dot_general → partial over micro     an addend: the iterations' are accumulated           in the loop
    mul  partial → partial               linear, so it is computed of the sum, once           after it
    all-reduce over micro                the sum is known: nothing is left to do              after it
    all-gather over micro                the iterations' blocks, one behind the other         after it
    cast of a weight                     nothing of it is split or partial                    before it

All that is split or partial over the axis is gone then from the steps around the loop, and the loop is one nested
step more (`steps.Iterated`), which all who walk through steps know.

**The law**: nothing in an iteration may need what only all iterations together know. Where something does, and a loop
of its own can find that without a contraction (the sum of a mask), that loop runs in front (`two_loops.py`). Else the
layout is refused, with both lines: who needs it, and what makes it.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Sequence
from typing import TypeVar

from ..axes.axis import EACH, ONCE, InTime
from ..code.operations import Input, Operation
from ..collectives.kinds import ALL_GATHER, ALL_REDUCE, REDUCE_SCATTER
from ..legality.refusal import Refusal, refuse
from ..planning.dead_moves import prune
from ..planning.planned import Planned
from ..planning.step import Step, unfolded
from ..planning.step_keys import Key
from ..planning.steps import Iterated, Materialise, Move, Result
from ..programs.data import Program
from ..specs.in_time import without
from ..specs.spec import Spec
from .data import Plan
from .iteration_refusals import Refusals
from .per_shard_collectives import per_shard_collectives_of
from .two_loops import Loops, in_each_iteration, two_loops

BEFORE, LOOP, AFTER = "before", "loop", "after"
AnyPlan = TypeVar("AnyPlan", bound=Plan)
Outputs = Sequence[tuple[Input, Spec | None]]


def divided(plan: AnyPlan) -> AnyPlan:
    """Returns a plan with the loop over its axis in time, which was planned as one of devices.

    Raises:
        LayoutError: an iteration needs what only all of them together know; all such needs are listed.
    """
    planned, problems = iterated(plan)
    refuse(plan.mesh, plan.layout, problems)
    return dataclasses.replace(plan, planned=planned)


def iterated(plan: Plan, refused: Collection[Operation] = ()) -> tuple[Planned, tuple[Refusal, ...]]:
    """Divides a plan's steps by its axis in time, which they take for one of devices.

    Args:
        plan: the plan.
        refused: the operations for which it is refused already: what follows from them is no problem of its own.

    Returns:
        The `Planned` with an `Iterated` step, and the refusals: why an iteration cannot run alone.
    """
    ((axis, options),) = plan.rules.in_time.items()
    program, steps = plan.program, unfolded(plan.planned.steps)
    division = _Division(program, axis, options, steps)
    for step in steps:
        division.take(step)
    division.end(tuple(zip(program.code.block.outputs, plan.output_specs, strict=True)))
    sent = per_shard_collectives_of(steps, program, plan.grid)
    refusals = Refusals(program, axis, plan.rules, division.made_by)
    problems = [
        *refusals.in_blocks(steps),
        *refusals.between_shards(sent),
        *(refusals.moved_in_time(step) for step in division.moved),
    ]
    loops, late = division.loops(), division.late
    lines = {operation.source for operation in refused if operation.source}
    if problems or lines:
        late = [(step, key) for step, key in late if refusals.is_cause(key, division.moved, lines)]
    if late:
        keys = tuple(dict.fromkeys(key for _, key in late))
        sending = frozenset(operation for operation, collectives in sent.items() if collectives)
        in_two = two_loops(loops, keys, division.outputs, sending)
        if isinstance(in_two, str):
            problems += [refusals.late(step, key, in_two) for step, key in late]
        else:
            loops = in_two
    gather = options.gather or options.reduce or (EACH if division.reduces else ONCE)
    if gather == EACH:
        loops = in_each_iteration(loops, division.outputs)
    left = dict.fromkeys(problem for problem in problems if problem.source not in lines)
    # What was read of a partial sum alone is read of the sum now, and moves to it may be dead.
    around = prune(_around(loops, axis, options.size), division.outputs, program.original_of)
    return dataclasses.replace(plan.planned, steps=around), tuple(left)


def _around(loops: Loops, axis: str, times: int) -> tuple[Step, ...]:
    """Returns the steps of a plan with its loops in their places."""
    steps = list(loops.before)
    for loop, then in loops.loops:
        if loop.steps:
            steps.append(Iterated(axis, times, tuple(loop.steps), tuple(loop.results)))
        steps += then
    return tuple(steps)


class _Division:
    """One walk over the steps of a plan, from the first to the last."""

    def __init__(self, program: Program, axis: str, options: InTime, steps: Sequence[Step]):
        self.program, self.original_of, self.axis = program, program.original_of, axis
        self.lists: dict[str, list[Step]] = {BEFORE: [], LOOP: [], AFTER: []}
        # Where each key is made; of arguments nowhere.
        self.phase: dict[Key, str] = {}
        self.made_by: dict[Key, Step] = {}
        # Constants and iotas, which are made wherever they are read.
        self.deferred: dict[Key, Materialise] = {}
        self.emitted: set[tuple[Key, str]] = set()
        self.results: dict[Key, Result] = {}
        self.late: list[tuple[Step, Key]] = []
        self.moved: list[Move] = []
        self.outputs: tuple[Key, ...] = ()
        self.reduces, self.eager = self.reduced_in_loop(steps, options)

    def reads(self, step: Step) -> tuple[Key, ...]:
        return step.reads(self.original_of)

    def makes(self, step: Step) -> tuple[Key, ...]:
        return step.makes(self.original_of)

    def reduced_in_loop(self, steps: Sequence[Step], options: InTime) -> tuple[bool, frozenset[int]]:
        """Finds the steps on partial sums that run in each iteration: for what devices reduce there, or blocks read.

        Returns:
            Whether devices reduce there, and the ids of these steps.
        """
        kinds = {ONCE: (), EACH: (REDUCE_SCATTER, ALL_REDUCE)}.get(options.reduce or "", (REDUCE_SCATTER,))
        wanted: set[Key] = set()
        ids, any_reduces = set[int](), False
        for step in reversed(steps):
            split, partial = mentions(step, self.axis)
            if not partial:
                continue
            via = step.collective
            reduces = via is not None and self.axis not in via.axes and via.kind in kinds
            if not split and (reduces or not wanted.isdisjoint(self.makes(step))):
                ids.add(id(step))
                any_reduces |= reduces
            elif not split:
                continue
            wanted.update(key for key in self.reads(step) if self.axis in key[1].partial)
        return any_reduces, frozenset(ids)

    def take(self, step: Step):
        """Finds where a step runs."""
        if isinstance(step, Move) and step.collective and self.axis in step.via.axes:
            self.leave(step)
        elif isinstance(step, Materialise) and not self.is_late(step):
            self.deferred[self.makes(step)[0]] = step
        else:
            self.place(step, self.phase_of(step))

    def is_late(self, step: Step) -> bool:
        return any(self.phase.get(key) == AFTER for key in self.reads(step))

    def phase_of(self, step: Step) -> str:
        """Returns where a step runs: what is split in the loop, what is only partial after it, of the sum."""
        split, partial = mentions(step, self.axis)
        late = [key for key in self.reads(step) if self.phase.get(key) == AFTER]
        if split:
            self.late += [(step, key) for key in late]
            return LOOP
        if late:
            return AFTER
        inside = {key for key in self.reads(step) if self.phase.get(key) == LOOP}
        if partial:
            addends = sum(self.axis in spec.partial for _, spec in inside)
            # Addends of one sum are added in the loop, so that one array is accumulated.
            return LOOP if id(step) in self.eager or addends > 1 else AFTER
        return LOOP if inside else BEFORE

    def place(self, step: Step, phase: str):
        for key in self.reads(step):
            self.use(key, phase)
        self.lists[phase].append(_after(step, self.axis) if phase == AFTER else step)
        for key in self.makes(step):
            self.phase[key], self.made_by[key] = phase, step

    def use(self, key: Key, phase: str):
        """Makes a key known where it is read."""
        deferred = self.deferred.get(key)
        if deferred is not None and (key, phase) not in self.emitted:
            self.emitted.add((key, phase))
            for read in self.reads(deferred):
                self.use(read, phase)
            self.lists[phase].append(_after(deferred, self.axis) if phase == AFTER else deferred)
        elif phase == AFTER and self.phase.get(key) == LOOP:
            self.results.setdefault(key, Result(key[0], key[1], without(key[1], self.axis)))

    def leave(self, step: Move):
        """Takes note that a value is known of all iterations from here on: their sum, or their blocks joined."""
        key, via = (step.value, step.start), step.via
        result = step.value, via.result
        if via.axes != (self.axis,) or via.kind not in (ALL_REDUCE, ALL_GATHER):
            self.moved.append(step)
        elif via.kind is ALL_REDUCE:
            self.use(key, AFTER)
        elif self.phase.get(key) == LOOP:
            self.results[key] = Result(*key, via.result, via.axis)
        self.phase[result], self.made_by[result] = AFTER, step

    def end(self, outputs: Outputs):
        """Makes the outputs known after the loop."""
        pairs = ((self.original_of.get(v, v), s) for v, s in outputs if isinstance(v, int) and s is not None)
        self.outputs = tuple(pairs)
        for key in self.outputs:
            self.use(key, AFTER)

    def loops(self) -> Loops:
        """Returns the steps in their places, with one loop."""
        after = _each_move_once(self.lists[AFTER])
        return Loops(self.original_of, self.lists[BEFORE], self.lists[LOOP], after, dict(self.results))


def mentions(step: Step, axis: str) -> tuple[bool, bool]:
    """Says whether a step reads or makes anything that is split, and anything that is partial, over a mesh axis."""
    specs = tuple(step.specs())
    return any(axis in spec.axes for spec in specs), any(axis in spec.partial for spec in specs)


def _after(step: Step, axis: str) -> Step:
    """Returns a step as it runs after the loop: on sums, which are not partial over the axis any more."""
    if mentions(step, axis) == (False, False):
        return step
    return _each_move_once([step.under(lambda spec: without(spec, axis))])[0]


def _each_move_once(steps: Sequence[Step]) -> list[Step]:
    """Leaves out moves that are equal to one before: one was of a sum that was partial, and one of the sum."""
    known: set[tuple[int, Spec]] = set()
    left = []
    for step in steps:
        key = (step.value, step.via.result) if isinstance(step, Move) else None
        if key is None or key not in known:
            left.append(step.with_parts([_each_move_once(part.steps) for part in step.parts]))
        if key is not None:
            known.add(key)
    return left
