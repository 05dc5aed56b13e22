"""The steps of a plan: the exact program that each device runs.

    Compute      one operation on local shards
    Materialise  a constant or an iota, made in whatever spec is asked for
    Move         one step of a reshard: a slice or a collective
    Nested       a loop, branches, or a region rematerialised behind a barrier, with the steps of its blocks
    Iterated     the loop over a serial axis, whose iterations are added up, or joined (`plans/iterations.py`)
    Repeated     the steps of one repetition of a stretch; repetitions planned alike share them (`shared_steps.py`)

Values are known by number *and* spec: one value may be on a device in several specs at once, and a step names the one
that it reads. The same list is counted, drawn and run.
"""

from __future__ import annotations

import dataclasses

from ..code.operations import Operation
from ..collectives.reshard import Reshard, ReshardStep
from ..programs.outline import Repetition
from ..specs.spec import Spec


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
class Compute:
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

    def __str__(self):
        read = ", ".join(str(spec) for spec in self.operands if spec is not None)
        then = ", with communication" if self.per_shard else ""
        return f"{self.operation.name}  {read} → {', '.join(map(str, self.results))}{then}"


@dataclasses.dataclass(frozen=True)
class Materialise:
    """A broadcast scalar or an iota, made in a spec."""

    operation: Operation
    spec: Spec

    def __str__(self):
        return f"{self.operation.name}  made as {self.spec}"


@dataclasses.dataclass(frozen=True)
class Move:
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

    def __str__(self):
        return f"{self.via.kind} over {'+'.join(self.via.axes)}  {self.start} → {self.via.result}"


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
class Nested:
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
    """What a loop over a serial axis makes of one value of its iterations.

    Attributes:
        value: the value's number; of renames and tags the original's.
        inside: its spec in an iteration: split or partial over the serial axis, or neither.
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
        """Whether iterations are added up."""
        return self.axis is None and self.inside != self.outside


@dataclasses.dataclass(frozen=True, eq=False)
class Iterated:
    """The loop over a serial axis: each iteration computes the next block of all that is split over it.

    Attributes:
        axis: the serial axis.
        times: the number of iterations.
        steps: those of an iteration; they read the values around them by themselves.
        results: what is known after the loop.
    """

    axis: str
    times: int
    steps: tuple[Step, ...]
    results: tuple[Result, ...]

    def __str__(self):
        return "\n    ".join([f"{self.axis} × {self.times}", *"\n".join(map(str, self.steps)).splitlines()])


@dataclasses.dataclass(frozen=True, eq=False)
class Repeated:
    """The steps of one repetition of a stretch.

    Attributes:
        repetition: which one.
        steps: its steps, in the numbers of the representative.
    """

    repetition: Repetition
    steps: tuple[Step, ...]


Step = Compute | Materialise | Move | Nested | Iterated | Repeated
