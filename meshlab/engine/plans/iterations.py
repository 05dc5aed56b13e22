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
from collections.abc import Collection
from typing import TypeVar

from ..axes.axis import EACH, ONCE
from ..code.operations import Operation
from ..legality.refusal import Refusal, refuse
from ..planning.dead_moves import prune
from ..planning.planned import Planned
from ..planning.step import Step, unfolded
from ..planning.steps import Iterated
from .cuts_in_time import cuts_in_time
from .iteration_refusals import Refusals
from .per_shard_collectives import per_shard_collectives_of
from .placing import Placing
from .plan_data import Plan
from .stages import staged
from .two_loops import Loops, in_each_iteration, two_loops

AnyPlan = TypeVar("AnyPlan", bound=Plan)


def divided(plan: AnyPlan) -> AnyPlan:
    """Returns a plan with the loop over its axis in time, which was planned as one of devices.

    Refuses one where an iteration needs what only all of them together know.
    """
    planned, problems = divide(plan)
    refuse(plan.mesh, plan.layout, problems)
    return dataclasses.replace(plan, planned=planned)


def divide(plan: Plan, refused: Collection[Operation] = ()) -> tuple[Planned, tuple[Refusal, ...]]:
    """Divides a plan's steps by its axis in time, and cuts the loop at its stages; see `iterated`."""
    planned, problems = iterated(plan, refused)
    if problems or refused or not plan.rules.stages:
        return planned, problems
    return staged(plan, planned)


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
    placed = Placing(program, axis, options, steps, apart=bool(plan.rules.stages))
    placed.run(steps, zip(program.code.block.outputs, plan.output_specs, strict=True))
    sent = per_shard_collectives_of(steps, program, plan.grid)
    refusals = Refusals(program, axis, plan.rules, placed.made_by)
    wrongly_cut, cuts = cuts_in_time(program, axis, plan.grid, steps, refusals)
    problems = [
        *refusals.in_blocks(steps),
        *refusals.between_shards(sent),
        *wrongly_cut,
        *(refusals.moved_in_time(step) for step in placed.moved),
    ]
    loops, late = placed.loops(), placed.late
    lines = {operation.source for operation in refused if operation.source}
    if problems or lines:
        late = [(step, key) for step, key in late if refusals.is_cause(key, placed.moved, lines)]
    if late:
        keys = tuple(dict.fromkeys(key for _, key in late))
        sending = frozenset(operation for operation, collectives in sent.items() if collectives)
        in_two = two_loops(loops, keys, placed.outputs, sending)
        if isinstance(in_two, str):
            problems += [refusals.late(step, key, in_two) for step, key in late]
        else:
            loops = in_two
    gather = options.gather or options.reduce or (EACH if placed.reduces else ONCE)
    if gather == EACH:
        loops = in_each_iteration(loops, placed.outputs)
    left = dict.fromkeys(problem for problem in problems if problem.source not in lines)
    # What was read of a partial sum alone is read of the sum now, and moves to it may be dead.
    around = prune(_around(loops, axis, options.size), placed.outputs, program.original_of)
    return dataclasses.replace(plan.planned, steps=around, cuts=cuts), tuple(left)


def _around(loops: Loops, axis: str, times: int) -> tuple[Step, ...]:
    """Returns the steps of a plan with its loops in their places."""
    steps = list(loops.before)
    for loop, then in loops.loops:
        if loop.steps:
            steps.append(Iterated(axis, times, tuple(loop.steps), tuple(loop.results)))
        steps += then
    return tuple(steps)
