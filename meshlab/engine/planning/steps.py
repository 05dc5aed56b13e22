"""The steps of a plan: the exact program that each device runs.

    Compute      one operation on local shards
    Materialise  a constant or an iota, made in whatever spec is asked for
    Move         one step of a reshard: a slice or a collective
    Nested       a loop, branches, or a region rematerialised behind a barrier, with the steps of its blocks
    Iterated     the loop over an axis in time, whose iterations are added up, or joined (`plans/iterations.py`)
    Repeated     the steps of one repetition of a stretch; repetitions planned alike share them (`shared_steps.py`)

Values are known by number *and* spec: one value may be on a device in several specs at once, and a step names the one
that it reads. The same list is counted, drawn and run. What all of them
answer is said in `step.py`.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Sequence

from ..code.loops import LOOPS
from ..code.operations import Operation
from ..collectives.reshard import Reshard, ReshardStep
from ..programs.outline import Repetition
from ..specs.spec import Spec
from .step import Change, Inner, Step, only
from .step_keys import Border, Key, Made, Originals, keys

_SCALAR = Spec(())


@dataclasses.dataclass(frozen=True)
class Cause:
    """The reason why a value is moved.

    Attributes:
        kind: "operand" (an operation needs it so), "sum" (a partial sum is reduced), "stored" (a place asks for it),
            "carry" (a loop carries it) or "branch" (all branches return it alike).
        operation: the operation that needs it, or made it.
        place: the place, for "stored".
    """

    kind: str
    operation: Operation | None = None
    place: str | None = None


@dataclasses.dataclass(frozen=True)
class Compute(Step):
    """One operation on local shards.

    Attributes:
        operation: what runs.
        operands: the spec in which it reads each input; None for a literal.
        results: the specs of its results.
        per_shard: whether it runs by its per-shard implementation, which may communicate.
        known: whether a rule planned it; if not, it runs unsharded on every device.
    """

    operation: Operation
    operands: tuple[Spec | None, ...]
    results: tuple[Spec, ...]
    per_shard: bool = False
    known: bool = True

    @property
    def runs(self) -> Operation:
        return self.operation

    @property
    def computes(self) -> Operation:
        return self.operation

    @property
    def primitive(self) -> str:
        return self.operation.name

    def read(self) -> Border:
        return self.operation.inputs, self.operands

    def made(self) -> Made:
        return self.operation.outputs, self.results

    def keys(self, original_of: Originals) -> tuple[tuple[Key, ...], tuple[Key, ...]]:
        # Kept with the step, which all plans of its program share.
        known = self.__dict__.get("_keys")
        if known is None:
            known = keys(*self.read(), original_of), keys(*self.made(), original_of)
            object.__setattr__(self, "_keys", known)
        return known

    def under(self, change: Change) -> Compute:
        operands, results = _changed(self.operands, change), tuple(map(change, self.results))
        if (operands, results) == (self.operands, self.results):
            return self
        return dataclasses.replace(self, operands=operands, results=results)

    def renumbered(self, repetition: Repetition) -> Compute:
        operation = repetition.counterparts[self.operation]
        return Compute(operation, self.operands, self.results, self.per_shard, self.known)

    def __str__(self):
        read = ", ".join(str(spec) for spec in self.operands if spec is not None)
        then = ", with communication" if self.per_shard else ""
        return f"{self.operation.name}  {read} → {', '.join(map(str, self.results))}{then}"


@dataclasses.dataclass(frozen=True)
class Materialise(Step):
    """A broadcast scalar or an iota, made in a spec."""

    operation: Operation
    spec: Spec
    droppable = True

    @property
    def runs(self) -> Operation:
        return self.operation

    def read(self) -> Border:
        return self.operation.inputs, (_SCALAR,) * len(self.operation.inputs)

    def made(self) -> Made:
        return self.operation.outputs, (self.spec,)

    def under(self, change: Change) -> Materialise:
        spec = change(self.spec)
        return self if spec == self.spec else dataclasses.replace(self, spec=spec)

    def renumbered(self, repetition: Repetition) -> Materialise:
        return Materialise(repetition.counterparts[self.operation], self.spec)

    def __str__(self):
        return f"{self.operation.name}  made as {self.spec}"


@dataclasses.dataclass(frozen=True)
class Move(Step):
    """One step of a reshard of a value.

    Attributes:
        value: whose array is moved.
        start: the spec before.
        via: the slice or collective.
        cause: why.
        name: the value under the name that it is asked for by: a rename is the same array with other dims.
        reshard: the whole reshard that this is one step of.
    """

    value: int
    start: Spec
    via: ReshardStep
    cause: Cause
    name: int
    reshard: Reshard
    droppable = True

    @property
    def collective(self) -> ReshardStep | None:
        return self.via if self.via.kind.sends else None

    @property
    def named(self) -> int:
        return self.name

    @property
    def title(self) -> str:
        return self.via.kind.name

    @property
    def serves(self) -> Operation | None:
        return self.cause.operation

    def read(self) -> Border:
        return (self.value,), (self.start,)

    def made(self) -> Made:
        return (self.value,), (self.via.result,)

    def keys(self, original_of: Originals) -> tuple[tuple[Key, ...], tuple[Key, ...]]:
        number = original_of.get(self.value, self.value)
        return ((number, self.start),), ((number, self.via.result),)

    def under(self, change: Change) -> Move:
        chain = tuple([each._replace(result=change(each.result)) for each in self.reshard.steps])
        reshard = self.reshard._replace(start=change(self.reshard.start), steps=chain)
        via = self.via._replace(result=change(self.via.result))
        moved = dataclasses.replace(self, start=change(self.start), via=via, reshard=reshard)
        return self if moved == self else moved

    def renumbered(self, repetition: Repetition) -> Move:
        values, operation = repetition.from_representative, self.cause.operation
        cause = self.cause
        if operation is not None:
            cause = dataclasses.replace(cause, operation=repetition.counterparts[operation])
        return Move(values[self.value], self.start, self.via, cause, values[self.name], self.reshard)

    def __str__(self):
        return f"{self.via.kind} over {'+'.join(self.via.axes)}  {self.start} → {self.via.result}"


def move_of(step: Step) -> Move | None:
    """Returns a step that moves a value from one spec to another; None of any other."""
    return next(only(Move, [step]), None)


@dataclasses.dataclass(frozen=True)
class Inside:
    """One block of a nested step.

    Attributes:
        inputs: the specs of the block's inputs.
        outputs: the specs in which it returns its outputs; None for a literal.
        steps: what runs in it.
    """

    inputs: tuple[Spec, ...]
    outputs: tuple[Spec | None, ...]
    steps: tuple[Step, ...]


@dataclasses.dataclass(frozen=True)
class Nested(Step):
    """An operation with blocks inside: a `scan` or `while`, a `cond`, or a rematerialised region.

    Attributes:
        operation: what it is.
        operands: the specs in which its inputs are read; None for a literal.
        results: the specs of its results.
        blocks: its blocks, in the order of the operation's.
        times: how often the first block runs; 1 for a `while` whose trip count is not known.
    """

    operation: Operation
    operands: tuple[Spec | None, ...]
    results: tuple[Spec, ...]
    blocks: tuple[Inside, ...]
    times: int = 1

    @property
    def runs(self) -> Operation:
        return self.operation

    @property
    def loops(self) -> bool:
        return self.operation.name in LOOPS

    @property
    def parts(self) -> tuple[Inner, ...]:
        # A loop is tested once more than its trip count.
        return tuple(
            Inner(
                inside.steps,
                self.times + (position if self.loops else 0),
                (block.inputs, inside.inputs),
                (block.outputs, inside.outputs),
            )
            for position, (block, inside) in enumerate(zip(self.operation.blocks, self.blocks, strict=True))
        )

    def with_parts(self, steps: Iterable[Sequence[Step]]) -> Nested:
        pairs = zip(self.blocks, steps, strict=True)
        return dataclasses.replace(
            self, blocks=tuple([dataclasses.replace(block, steps=tuple(within)) for block, within in pairs])
        )

    def read(self) -> Border:
        return self.operation.inputs, self.operands

    def made(self) -> Made:
        return self.operation.outputs, self.results

    def under(self, change: Change) -> Nested:
        blocks = tuple(
            [
                Inside(
                    tuple(map(change, block.inputs)),
                    _changed(block.outputs, change),
                    tuple([step.under(change) for step in block.steps]),
                )
                for block in self.blocks
            ]
        )
        operands, results = _changed(self.operands, change), tuple(map(change, self.results))
        return dataclasses.replace(self, operands=operands, results=results, blocks=blocks)

    def renumbered(self, repetition: Repetition) -> Nested:
        within = ([step.renumbered(repetition) for step in block.steps] for block in self.blocks)
        return dataclasses.replace(self.with_parts(within), operation=repetition.counterparts[self.operation])

    def __str__(self):
        name = self.operation.name
        heads = {
            "scan": [f"scan × {self.times}"],
            "while": ["while, each iteration", "while, each test"],
            "cond": [f"cond, branch {i}" for i in range(len(self.blocks))],
        }.get(name, ["rematerialised, behind a barrier"])
        texts = [
            "\n    ".join([head, *"\n".join(map(str, block.steps)).splitlines()])
            for head, block in zip(heads, self.blocks, strict=True)
        ]
        return "\n".join(texts)


@dataclasses.dataclass(frozen=True)
class Result:
    """What a loop over an axis in time makes of one value of its iterations.

    Attributes:
        value: the value's number; of renames and tags the original's.
        inside: its spec in an iteration: split or partial over the axis in time, or neither.
        outside: its spec after the loop: without that axis.
        axis: the axis of the value along which iterations are joined; None where they are added up, or where all make
            the same, which the last one leaves.
    """

    value: int
    inside: Spec
    outside: Spec
    axis: int | None = None

    @property
    def is_sum(self) -> bool:
        return self.axis is None and not set(self.inside.partial) <= set(self.outside.partial)


@dataclasses.dataclass(frozen=True, eq=False)
class Iterated(Step):
    """The loop over an axis in time: each iteration computes the next block of all that is split over it.

    Attributes:
        axis: the axis in time.
        times: the number of iterations.
        steps: those of an iteration; they read the values around them by themselves.
        results: what is known after the loop.
    """

    axis: str
    times: int
    steps: tuple[Step, ...]
    results: tuple[Result, ...]

    @property
    def loops(self) -> bool:
        return True

    @property
    def in_time(self) -> str:
        return self.axis

    @property
    def blocks_in_time(self) -> int:
        return self.times

    @property
    def parts(self) -> tuple[Inner, ...]:
        values, specs = [result.value for result in self.results], [result.inside for result in self.results]
        return (Inner(self.steps, self.times, returned=(values, specs)),)

    def with_parts(self, steps: Iterable[Sequence[Step]]) -> Iterated:
        (within,) = steps
        return dataclasses.replace(self, steps=tuple(within))

    def made(self) -> Made:
        return [result.value for result in self.results], [result.outside for result in self.results]

    def kept(self, is_read: Callable[[int, Spec], bool]) -> Iterated:
        results = tuple(result for result in self.results if is_read(result.value, result.outside))
        return dataclasses.replace(self, results=results)

    def __str__(self):
        return "\n    ".join([f"{self.axis} × {self.times}", *"\n".join(map(str, self.steps)).splitlines()])


@dataclasses.dataclass(frozen=True, eq=False)
class Repeated(Step):
    """The steps of one repetition of a stretch.

    Attributes:
        repetition: which one.
        steps: its steps, in the numbers of the representative.
    """

    repetition: Repetition
    steps: tuple[Step, ...]
    shared = True

    @property
    def backward(self) -> bool:
        return any(step.backward for step in self.steps)

    def written(self) -> tuple[Step, ...]:
        repetition = self.repetition
        return self.steps if repetition.first is None else tuple([s.renumbered(repetition) for s in self.steps])

    def keys(self, original_of: Originals) -> tuple[tuple[Key, ...], tuple[Key, ...]]:
        raise AssertionError("repetitions are read written out: plan.steps")


def _changed(specs: tuple[Spec | None, ...], change: Change) -> tuple[Spec | None, ...]:
    return tuple([spec if spec is None else change(spec) for spec in specs])
