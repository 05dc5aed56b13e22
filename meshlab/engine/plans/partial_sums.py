"""Finds where a partial sum was made, which is where its cause is.

Partial sums travel through linear operations, out of rematerialised regions and along the carries of loops before they
are reduced. They are followed back, against all that, to the operations that sum a dim that is split:

    all-reduce of a gradient over `data`  ←  div by the trip count  ←  the carry of a scan  ←  add  ←  dot_general
                                                                                              `batch` is summed here
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Iterable, Iterator, Mapping

from ..code.loops import LOOPS, carried
from ..code.operations import Operation, walk
from ..planning.step import Step, only
from ..planning.steps import Compute
from ..programs.outline import Repetition, repetitions_by_value
from ..programs.program import Program
from ..rules import names_where
from ..specs.spec import Axes

Split = tuple[str, Axes]
# Operations that only bring an array into another form.
_FORMS = names_where(lambda traits: traits.keeps)


_SAID = {
    "carried": "; the sum is carried through the loop and added up once after it",
    "stacked": "; the sums of all iterations are stacked and added up once after it",
    "next": "; the sum is carried into the next iteration and added up there",
}


@dataclasses.dataclass(frozen=True)
class Way:
    """The way of a partial sum to where it is reduced.

    Attributes:
        loop: the outermost loop that it came through, if there is one.
        how: "carried" from iteration to iteration and out of the loop; "stacked", a sum for each iteration; or carried
            only to the "next" iteration.
    """

    loop: Operation | None = None
    how: str = ""

    @property
    def said(self) -> str:
        """What is said of it behind the cause of the sum; "" where it came through no loop."""
        return _SAID.get(self.how, "")


@dataclasses.dataclass(frozen=True)
class Origin:
    """An operation that makes a partial sum.

    Attributes:
        operation: which one.
        dims: the dims that it sums, each with the mesh axes that split it.
        way: the sum's way from there to where it is reduced.
    """

    operation: Operation
    dims: tuple[Split, ...]
    way: Way


class Origins:
    """Follows the values of a plan back.

    Args:
        program: the planned program.
        steps: the steps of its plan, each once.
        stand_ins: for each repetition of a stretch the one that stands for it.
    """

    def __init__(self, program: Program, steps: Iterable[Step], stand_ins: Mapping[Repetition, Repetition]):
        self.program, self.stand_ins = program, stand_ins
        self.results = {v: step for step in only(Compute, steps) for v in step.operation.outputs}

    def of_sum(self, value: int, axes: Axes) -> tuple[list[Origin], Operation | None, list[int]]:
        """Follows a partial sum over mesh axes back.

        Returns:
            The operations that sum dims split over these axes, the last one first, each axis once; the operation that
            made the value; and the values on the way, the last one first.
        """
        origins: list[Origin] = []
        way_back: list[int] = []
        waiting, seen, left, maker = [(value, Way())], set(), set(axes), None
        while waiting and left:
            value, way = waiting.pop()
            way_back.append(value)
            value, way = self.inward(value, way)
            if value in seen:
                continue
            seen.add(value)
            maker = maker or self.program.makers.get(value)
            step = self.results.get(value)
            if step is None:
                outside = self.program.outermost(value)
                waiting += [(outside, way)] if outside != value else []
                if value in self.carried_from:
                    loop, after = self.carried_from[value]
                    waiting.append((after, way if way.loop else Way(loop, "next")))
                continue
            dims = self.summed(step, left)
            if dims:
                origins.append(Origin(step.operation, dims, way))
                left -= {axis for _, split in dims for axis in split}
            operands = zip(step.operation.inputs, step.operands, strict=True)
            partial = [v for v, s in operands if isinstance(v, int) and s is not None and left & set(s.partial)]
            waiting += [(v, way) for v in reversed(partial)]
        return origins, maker, way_back

    @functools.cached_property
    def carried_from(self) -> dict[int, tuple[Operation, int]]:
        """For each value carried into an iteration the loop, and the value that the iteration before returned."""
        return {
            before: (operation, after)
            for operation in walk(self.program.code.block)
            if operation.name in LOOPS
            for body in operation.blocks[:1]
            for before, after in list(zip(body.inputs, body.outputs, strict=False))[: carried(operation)]
            if isinstance(after, int)
        }

    def inward(self, value: int, way: Way) -> tuple[int, Way]:
        """Returns the value inside blocks that one is, in the numbers of its stand-in, and the way out of there."""
        program = self.program
        while value in program.insides or value in program.original_of:
            operation = program.makers.get(value)
            if operation is not None and operation.name in LOOPS and way.loop is None:
                stacked = operation.outputs.index(value) >= carried(operation)
                way = Way(operation, "stacked" if stacked else "carried")
            value = program.insides.get(value, program.original_of.get(value, value))
        repetition = repetitions_by_value(self.program).get(value)
        if repetition is not None and repetition in self.stand_ins:
            value = self.stand_ins[repetition].produced[repetition.positions[value]]
        return value, way

    def summed(self, step: Compute, axes: Iterable[str]) -> tuple[Split, ...]:
        """Returns the dims that a step sums, of those sharded over some mesh axes, each with these."""
        summed, wanted = self.program.factors[step.operation].summed, set(axes)
        splits = {name: split for name, factor, split in self.axes(step) if factor in summed and wanted & set(split)}
        return tuple((name, tuple(a for a in split if a in wanted)) for name, split in splits.items())

    def per_shard(self, step: Compute, axes: Axes) -> tuple[Split, ...]:
        """Returns the sharded dims that take a per-shard implementation; those on some mesh axes if there are any."""
        factors = self.program.factors[step.operation].per_shard
        read, made = self.axes(step), self.axes(step, made=True)
        splits = {name: split for name, factor, split in read if split and factor in factors}
        splits = splits or {name: split for name, factor, split in made if split and factor in factors}
        on_these = {name: split for name, split in splits.items() if set(split) & set(axes)}
        return tuple((on_these or splits).items())

    def axes(self, step: Compute, made: bool = False) -> Iterator[tuple[str, int, Axes]]:
        """Yields the name, factor and split of each axis of the operands that a step reads, or of its results."""
        operation, factors_of = step.operation, self.program.factors[step.operation]
        read = operation.inputs, step.operands, factors_of.operands
        for value, spec, factors in zip(
            *((operation.outputs, step.results, factors_of.results) if made else read), strict=True
        ):
            if isinstance(value, int) and spec is not None:
                for factor, split, name in zip(factors, spec.splits, self.program.names[value], strict=True):
                    yield self.dim(name), factor, split

    def dim(self, name: str | None) -> str:
        """Returns the dim that a layout has for an axis of a name: `heads` for `heads*head`, and for `heads.1`."""
        return next(iter(self.program.splitters(name)), name or "?")

    def stored(self, value: int) -> int | None:
        """Returns the argument that a value is in another form, if it is one."""
        program = self.program
        value = program.outermost(program.original_of.get(value, value))
        while value not in program.stored_at:
            operation = program.makers.get(value)
            if operation is None or operation.name not in _FORMS or not isinstance(operation.inputs[0], int):
                return None
            value = program.outermost(operation.inputs[0])
        return value
