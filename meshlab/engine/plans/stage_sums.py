"""Completes after a pipeline what only one of its stages has: the gradient of the embedding, the loss.

A stage adds up what its own cells make, so what the first or the last stage makes is a partial sum over the stages:
nothing to the others. It stays one through what is linear in it, and is reduced where that ends; with what the devices
of a stage have to reduce, if they do so there:

    gradient, partial over data, of the first stage                 all-reduce over data
    gradient, partial over data and pipe                            all-reduce over data+pipe

What several steps read, as Adam's two moments read a gradient, is reduced in front of the first of them, or each might
reduce what it makes of it; unless it waits for the devices of a stage as well.
"""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

from ..code.operations import Input
from ..collectives.kinds import ALL_REDUCE
from ..collectives.reshard import Reshard, ReshardStep
from ..planning.staged import Staged, summed_over
from ..planning.step import Step
from ..planning.step_keys import Key
from ..planning.steps import Cause, Compute, Move, move_of
from ..planning.sums_in_time import stays_partial
from ..programs.program import Program
from ..specs.spec import Grid, Spec


def completed(
    program: Program, grid: Grid, steps: Iterable[Step], pipeline: Staged, outputs: Iterable[Key]
) -> tuple[Step, ...]:
    """Returns the steps after a pipeline, with the sums over its stages.

    Args:
        program: the program.
        grid: the mesh axes' sizes.
        steps: which take what the pipeline makes for whole.
        pipeline: the pipeline.
        outputs: the keys that the plan returns.
    """
    steps, outputs = tuple(steps), tuple(outputs)
    readers = Counter(key for step in steps for key in dict.fromkeys(step.keys(program.original_of)[0]))
    sums = _Sums(program, grid, pipeline, readers + Counter(outputs))
    done = [each for step in steps for each in sums.step(step)]
    return (*done, *(move for key in outputs for move in sums.whole(key, Cause("sum"))))


class _Sums:
    """One walk over the steps after a pipeline."""

    def __init__(self, program: Program, grid: Grid, pipeline: Staged, readers: Counter[Key]):
        self.program, self.grid, self.axis, self.readers = program, grid, pipeline.axis, readers
        # By key as the steps have it, the spec that the value has in truth: partial over the stages as well.
        self.partial: dict[Key, Spec] = {}
        for result in pipeline.results:
            if self.axis in result.outside.partial and self.axis not in (*result.inside.axes, *result.inside.partial):
                self.partial[result.value, _without(result.outside, self.axis)] = result.outside

    def step(self, step: Step) -> Iterator[Step]:
        """Yields a step on what it reads in truth, behind the sums that it needs."""
        read, made = step.keys(self.program.original_of)
        found = [key for key in dict.fromkeys(read) if key in self.partial]
        if not found:
            yield step
        elif (move := move_of(step)) and (move.via.kind.sums or not move.via.kind.sends):
            yield self.moved(move, found[0], made[0])
        elif isinstance(step, Compute) and self.passes(step) and not any(map(self.is_shared, found)):
            yield self.computed(step, made)
        else:
            for key in found:
                yield from self.whole(key, Cause("sum", step.runs))
            yield step

    def moved(self, step: Move, key: Key, made: Key) -> Move:
        """Returns a move of a sum that is partial over the stages too: an all-reduce is over both at once."""
        start, via = self.partial[key], step.via
        if via.kind is ALL_REDUCE:
            axes = tuple(axis for axis in self.grid if axis in (*via.axes, self.axis))
            via = via._replace(axes=axes)
        else:
            self.partial[made] = summed_over(via.result, self.axis)
            via = via._replace(result=self.partial[made])
        return dataclasses.replace(step, start=start, via=via, reshard=Reshard(start, (via,)))

    def is_shared(self, key: Key) -> bool:
        """Whether several steps read a sum that waits for nothing but the stages."""
        return self.readers[key] > 1 and not key[1].partial

    def passes(self, step: Compute) -> bool:
        """Whether an operation is linear in what is partial over the stages."""
        zeros = self.program.uniform[1]
        is_zero = lambda value: value in zeros if isinstance(value, int) else value.is_zero  # noqa: E731
        factors = self.program.factors[step.operation]
        return stays_partial(self.axis, step.operation, factors, self.operands(step), is_zero)

    def operands(self, step: Compute) -> list[Spec | None]:
        """Returns the specs of what a step reads, as they are in truth."""
        original_of = self.program.original_of

        def of(value: Input, spec: Spec | None) -> Spec | None:
            if spec is None or not isinstance(value, int):
                return spec
            return self.partial.get((original_of.get(value, value), spec), spec)

        return [of(value, spec) for value, spec in zip(step.operation.inputs, step.operands, strict=True)]

    def computed(self, step: Compute, made: Sequence[Key]) -> Compute:
        results = tuple(summed_over(spec, self.axis) for spec in step.results)
        self.partial.update(zip(made, results, strict=True))
        return dataclasses.replace(step, operands=tuple(self.operands(step)), results=results)

    def whole(self, key: Key, cause: Cause) -> Iterator[Move]:
        """Yields the sum over the stages of a value that one of them has."""
        if (start := self.partial.pop(key, None)) is not None:
            via = ReshardStep(ALL_REDUCE, (self.axis,), -1, -1, key[1])
            yield Move(key[0], start, via, cause, key[0], Reshard(start, (via,)))


def _without(spec: Spec, axis: str) -> Spec:
    return Spec(spec.splits, tuple(each for each in spec.partial if each != axis))
