"""Says why a program cannot run block by block, with both lines: who needs all blocks, and what makes it of them.

`sub` at norm.py:12 needs in each iteration over `micro` what only all of them together know: the sum that
`reduce_sum` at norm.py:11 makes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from ..code.operations import Operation
from ..planning.refusal import Refusal
from ..planning.shared_steps import each_once
from ..planning.step_keys import Key, makes, reads
from ..planning.steps import Compute, Iterated, Move, Nested, Repeated, Step
from ..programs.data import Program
from .per_shard_collectives import PerShardCollective

MadeBy = Mapping[Key, Step]


class Refusals:
    """Words the refusals of one layout.

    Args:
        program: the program.
        axis: the serial axis.
        dims: the dims on it, in words.
    """

    def __init__(self, program: Program, axis: str, dims: str):
        self.program, self.axis, self.dims = program, axis, dims
        self.off = f"Take {dims} off `{axis}`"

    def needs(self, reader: Operation | None, maker: str, why: str = "") -> Refusal:
        """Refuses what an operation needs of all iterations."""
        text = (
            f"{named(reader)} needs in each iteration over `{self.axis}` what only all of them together know: {maker}."
        )
        fix = f"{self.off}, or let the function compute this from one block alone."
        return Refusal("serial", f"{text} {why}".strip(), fix, reader.source if reader else None)

    def late(self, step: Step, key: Key, made_by: MadeBy, why: str) -> Refusal:
        """Refuses a step that reads in an iteration what is known after the loop.

        Args:
            step: the step.
            key: that it reads.
            made_by: by key, the step that makes it.
            why: why no loop in front can find it.
        """
        return self.needs(self.reader(step, made_by), self.maker(key, made_by), why)

    def reader(self, step: Step, made_by: MadeBy) -> Operation | None:
        """Returns the operation that reads what a step reads: of a broadcast, the one that it is made for."""
        operation = operation_of(step)
        if operation is None or operation.outputs[0] not in self.program.broadcasts:
            return operation
        readers = (each for each in made_by.values() if isinstance(each, Compute | Nested))
        return next((each.operation for each in readers if operation.outputs[0] in each.operation.reads), operation)

    def maker(self, key: Key, made_by: MadeBy) -> str:
        """Says which operation makes what is known only after the loop: a sum, or what is gathered."""
        seen: set[Key] = set()
        step = made_by[key]
        while not (isinstance(step, Move) and self.axis in step.via.axes):
            seen.add(key)
            key = next(
                k for k in reads(step, self.program.original_of) if k in made_by and self.is_late(k, made_by, seen)
            )
            step = made_by[key]
        if step.via.kind != "all-reduce":
            return f"{self.program.value(step.name).label}, gathered for {named(step.cause.operation)}"
        return f"the sum that {named(self.origin((step.value, step.start), made_by))} makes"

    def is_late(self, key: Key, made_by: MadeBy, seen: set[Key]) -> bool:
        """Whether what is known only after the loop goes into a key, on a way that was not gone."""
        if key in seen or key not in made_by:
            return False
        step = made_by[key]
        if isinstance(step, Move) and self.axis in step.via.axes and step.via.kind != "slice":
            return True
        return any(self.is_late(k, made_by, seen) for k in reads(step, self.program.original_of))

    def origin(self, key: Key, made_by: MadeBy) -> Operation | None:
        """Returns the operation that makes a partial sum, in whatever block."""
        step = made_by.get(key)
        while step is not None:
            partial = [k for k in reads(step, self.program.original_of) if self.axis in k[1].partial and k in made_by]
            if not partial:
                break
            key, step = partial[0], made_by[partial[0]]
        return self.summing(key[0])

    def summing(self, value: int) -> Operation | None:
        """Returns the operation that sums a dim, back from a value that is linear in its result."""
        program, first = self.program, self.program.makers.get(value)
        while True:
            while value in program.insides:
                value = program.insides[value]
            operation = program.makers.get(value)
            if operation is None or operation.blocks or not operation.reads:
                return operation or first
            if program.factors[operation].summed:
                return operation
            value = operation.reads[0]

    def moved_in_time(self, step: Move) -> Refusal:
        """Refuses a move after which iterations would hold each other's blocks."""
        operation, value = step.cause.operation, self.program.value(step.name)
        text = (
            f"{named(operation)} needs {value.label} as {step.via.result}, which is {step.start}: blocks of"
            f" `{self.axis}`, which exist one after another, would change places ({step.via.kind})."
        )
        source = operation.source if operation else value.source
        return Refusal(
            "serial", text, f"Put what is renamed from {self.dims} on `{self.axis}` as well, or neither.", source
        )

    def in_blocks(self, steps: Iterable[Step]) -> Iterator[Refusal]:
        """Refuses sums that are needed whole in a block of an iteration: a layer, a rematerialised region."""
        inner = (each for step in steps if isinstance(step, Nested) for each, *_ in each_once([step]))
        needs = [
            each for each in inner if isinstance(each, Move) and self.axis in each.via.axes and each.via.kind != "slice"
        ]
        every = (each for each, *_ in each_once(steps if needs else ()))
        made_by = {key: each for each in every for key in makes(each, self.program.original_of)}
        for each in needs:
            summed = self.origin((each.value, each.start), made_by)
            yield self.needs(each.cause.operation, f"the sum that {named(summed)} makes")

    def between_shards(self, sent: Mapping[Operation, Mapping[PerShardCollective, int]]) -> Iterator[Refusal]:
        """Refuses per-shard implementations that would send something from one iteration to another."""
        for operation, collectives in sent.items():
            if any(self.axis in collective.axes for collective in collectives):
                text = f"The parts of {named(operation)} depend on each other, and `{self.axis}` runs them one by one."
                yield Refusal("serial", text, f"{self.off}.", operation.source)


def operation_of(step: Step) -> Operation | None:
    """Returns the operation of a step; of a move the one that it is for."""
    if isinstance(step, Move):
        return step.cause.operation
    return None if isinstance(step, Iterated | Repeated) else step.operation


def named(operation: Operation | None) -> str:
    """Names an operation with its line."""
    if operation is None:
        return "an output"
    return f"`{operation.name}` at {operation.source}" if operation.source else f"`{operation.name}`"
