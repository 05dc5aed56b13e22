"""Says where the steps of a plan run beside a loop over an axis in time: before, in or after it.

First by dependency: what is split over the axis exists for one iteration, what reads a sum over all of them comes after
the loop, what knows nothing of the axis before it. What reads addends of a sum alone could run in each iteration or on
the sum, which is policy: once, but where devices are to reduce in each iteration.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ..axes.axis import EACH, ONCE, InTime
from ..code.operations import Input
from ..collectives.kinds import ALL_GATHER, ALL_REDUCE, REDUCE_SCATTER
from ..planning.step import Step
from ..planning.step_keys import Key
from ..planning.steps import Materialise, Move, Result, move_of
from ..programs.program import Program
from ..specs.in_time import without
from ..specs.spec import Spec
from .two_loops import Loops

BEFORE, LOOP, AFTER = "before", "loop", "after"


class Placing:
    """One walk over the steps of a plan, from the first to the last.

    Args:
        program: whose plan it is.
        axis: the axis in time.
        options: of it.
        steps: of the plan.
        apart: whether addends of one sum may be made on different stages, which add them up each by itself.

    Attributes:
        late: steps in the loop that read what is known only after it, with that key.
        moved: moves that go over the axis in time as over one of devices, which no loop can do.
        outputs: the keys that the plan returns.
        made_by: by key, the step that makes it.
        reduces: whether devices reduce partial sums in each iteration.
    """

    def __init__(self, program: Program, axis: str, options: InTime, steps: Sequence[Step], apart: bool = False):
        self.program, self.original_of, self.axis = program, program.original_of, axis
        self._lists: dict[str, list[Step]] = {BEFORE: [], LOOP: [], AFTER: []}
        # Where each key is made; of arguments nowhere.
        self._phase: dict[Key, str] = {}
        self.made_by: dict[Key, Step] = {}
        # Constants and iotas, which are made wherever they are read.
        self._deferred: dict[Key, Materialise] = {}
        self._apart = apart
        self._emitted: set[tuple[Key, str]] = set()
        self._results: dict[Key, Result] = {}
        self.late: list[tuple[Step, Key]] = []
        self.moved: list[Move] = []
        self.outputs: tuple[Key, ...] = ()
        self.reduces, self._eager = self._reduced_in_loop(steps, options)

    def _reads(self, step: Step) -> tuple[Key, ...]:
        return step.reads(self.original_of)

    def _makes(self, step: Step) -> tuple[Key, ...]:
        return step.makes(self.original_of)

    def _reduced_in_loop(self, steps: Sequence[Step], options: InTime) -> tuple[bool, frozenset[int]]:
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
            if not split and (reduces or not wanted.isdisjoint(self._makes(step))):
                ids.add(id(step))
                any_reduces |= reduces
            elif not split:
                continue
            wanted.update(key for key in self._reads(step) if self.axis in key[1].partial)
        return any_reduces, frozenset(ids)

    def run(self, steps: Iterable[Step], outputs: Iterable[tuple[Input, Spec | None]]):
        """Places steps in order, and makes the outputs known after the loop."""
        for step in steps:
            self._take(step)
        pairs = ((self.original_of.get(v, v), s) for v, s in outputs if isinstance(v, int) and s is not None)
        self.outputs = tuple(pairs)
        for key in self.outputs:
            self._use(key, AFTER)

    def _take(self, step: Step):
        """Finds where a step runs."""
        move = move_of(step)
        if move and move.collective and self.axis in move.via.axes:
            self._leave(move)
        elif isinstance(step, Materialise) and not self._is_late(step):
            self._deferred[self._makes(step)[0]] = step
        else:
            self._place(step, self._phase_of(step))

    def _is_late(self, step: Step) -> bool:
        return any(self._phase.get(key) == AFTER for key in self._reads(step))

    def _phase_of(self, step: Step) -> str:
        """Returns where a step runs: where it must, and else where that is better."""
        return self._by_dependency(step) or self._by_policy(step)

    def _by_dependency(self, step: Step) -> str | None:
        """Returns where a step must run; None where it may run in each iteration, on addends, or once, on their sum."""
        split, partial = mentions(step, self.axis)
        late = [key for key in self._reads(step) if self._phase.get(key) == AFTER]
        if split:
            self.late += [(step, key) for key in late]
            return LOOP
        if late:
            return AFTER
        if partial:
            return None
        return LOOP if any(self._phase.get(key) == LOOP for key in self._reads(step)) else BEFORE

    def _by_policy(self, step: Step) -> str:
        """Waits for the sum, but where devices reduce it in each iteration, or several addends make one array."""
        inside = {key for key in self._reads(step) if self._phase.get(key) == LOOP}
        addends = sum(self.axis in spec.partial for _, spec in inside)
        if addends > 1 and self._apart:
            return AFTER
        return LOOP if id(step) in self._eager or addends > 1 else AFTER

    def _place(self, step: Step, phase: str):
        for key in self._reads(step):
            self._use(key, phase)
        self._lists[phase].append(_after(step, self.axis) if phase == AFTER else step)
        for key in self._makes(step):
            self._phase[key], self.made_by[key] = phase, step

    def _use(self, key: Key, phase: str):
        """Makes a key known where it is read."""
        deferred = self._deferred.get(key)
        if deferred is not None and (key, phase) not in self._emitted:
            self._emitted.add((key, phase))
            for read in self._reads(deferred):
                self._use(read, phase)
            self._lists[phase].append(_after(deferred, self.axis) if phase == AFTER else deferred)
        elif phase == AFTER and self._phase.get(key) == LOOP:
            self._results.setdefault(key, Result(key[0], key[1], without(key[1], self.axis)))

    def _leave(self, step: Move):
        """Takes note that a value is known of all iterations from here on: their sum, or their blocks joined."""
        key, via = (step.value, step.start), step.via
        result = step.value, via.result
        if via.axes != (self.axis,) or via.kind not in (ALL_REDUCE, ALL_GATHER):
            self.moved.append(step)
        elif via.kind is ALL_REDUCE:
            self._use(key, AFTER)
        elif self._phase.get(key) == LOOP:
            self._results[key] = Result(*key, via.result, via.axis)
        self._phase[result], self.made_by[result] = AFTER, step

    def loops(self) -> Loops:
        """Returns the steps in their places, with one loop."""
        after = _each_move_once(self._lists[AFTER])
        return Loops(self.original_of, self._lists[BEFORE], self._lists[LOOP], after, dict(self._results))


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
        key = (move.value, move.via.result) if (move := move_of(step)) else None
        if key is None or key not in known:
            left.append(step.with_parts([_each_move_once(part.steps) for part in step.parts]))
        if key is not None:
            known.add(key)
    return left
