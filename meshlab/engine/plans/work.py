"""The work of one device: how far a plan divides the contractions of a step, and where that is lost.

    plan.work                   50% of the FLOPs; an even split would be 12.5%
    plan.work.flops             6.4e9: of one device; `plan.work.unsharded_flops` is what the function does on one alone
    plan.whole_from             model.py:41 (reshape)

Work is counted in multiply-adds of contractions, of a program without any in elements of all results. Whatever the
function computes counts, each time that it is computed: rematerialisation, and what a mask throws away later, such as
the ticks in which a stage of a pipeline has no micro-batch, since nothing in a program tells these from others.
Parallelism is lost where an operation, a reshape say, needs a dim whole that was split: what follows from its result is
whole too.
"""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any

from ..code.loops import LOOPS, trip_count
from ..code.operations import Block, Operation
from ..collectives.kinds import ALL_GATHER
from ..legality.legal_rules import LegalRules
from ..planning.operation_specs import as_met
from ..planning.shared_steps import counted_only
from ..planning.staged import ON_ONE_STAGE, Staged
from ..planning.step import Inner, Step, only
from ..planning.steps import Compute, Move
from ..programs.program import Program, analysis, scoped_analysis
from ..rules import TRAITS
from ..rules.matmuls import Multiplies
from ..specs.mesh import Mesh
from ..specs.spec import Axes, Grid, Spec, local_shape

# Less than this part of a device's work is not looked into.
LITTLE = 0.01
_FLOPS = "FLOPs"


@dataclasses.dataclass(frozen=True)
class Work:
    """The part of a step's work that each device does.

    Attributes:
        amount: the multiply-adds of its contractions; of a program without contractions the elements of its results.
        share: the part of all work that this is; 1 where nothing divides it.
        devices: how many there are: if they divided all work, each would do 1/devices.
        unit: "FLOPs", or "elements" of a program without contractions.
        unsharded: the same as `amount`, of the function on one device alone.
        waits: the share of a pipeline's schedule in which a stage waits for the others; 0 without stages. A backward
            cell counts as two forward ones: only `plan.time` knows what they take.
    """

    amount: float
    share: float
    devices: int
    unit: str
    unsharded: float
    waits: float = 0.0

    @property
    def taken(self) -> float:
        """The share of all work that a device could have done while it works or waits for other stages."""
        return self.share / (1 - self.waits)

    @property
    def flops(self) -> float:
        """FLOPs of the contractions that one device does in a step: two for each multiply-add."""
        return 2 * self.amount if self.unit == _FLOPS else 0.0

    @property
    def unsharded_flops(self) -> float:
        """FLOPs of the contractions of a step on one device alone, whatever of their results is used."""
        return 2 * self.unsharded if self.unit == _FLOPS else 0.0

    @property
    def is_divided(self) -> bool:
        """Whether the devices divide all work, but for little."""
        return self.share * self.devices <= 1 + LITTLE

    def __str__(self):
        parts = [f"{_percent(self.share)} of the {self.unit}"]
        parts += [] if self.is_divided else [f"an even split would be {_percent(1 / self.devices)}"]
        parts += [f"stages wait for {_percent(self.waits)} of their schedule"] if self.waits else []
        return "; ".join(parts)


def repeated_along(step: Step, mesh: Mesh, stages: Collection[str]) -> Axes:
    """Returns the mesh axes along which devices repeat a step: no value there is sharded over them, or partial.

    Stages of a pipeline repeat nothing: they run different steps, or the same for different micro-batches.
    """
    specs = [spec for _, side in (step.read(), step.made()) for spec in side if spec is not None]
    there = {*stages, *(axis for spec in specs for axis in (*spec.axes, *spec.partial))}
    return tuple(axis for axis, size in mesh.devices.axes.items() if size > 1 and axis not in there)


def work(program: Program, mesh: Mesh, grid: Grid, steps: Iterable[Step]) -> Work:
    """Returns the part of a step's work that each device of a plan does; see `Plan.work`.

    The steps are the plan's, repetitions of a repeated stretch listed once.
    """
    of_program, total = measured(program), _total(program)

    def of(steps: Iterable[Step]) -> float:
        return float(
            sum(
                times * multiply_adds(program, step.operation, (*step.operands, *step.results), grid)
                for step, times in counted_only(Compute, steps)
                if step.operation in of_program
            )
        )

    steps = tuple(steps)
    staged = {id(step): step for step in only(Staged, steps)}
    amount = of(step for step in steps if id(step) not in staged)
    amount += sum(_of_busiest_stage(step, of) for step in staged.values())
    unit = _FLOPS if any(map(multiplies, of_program)) else "elements"
    waits = max((step.schedule.waits for step in staged.values()), default=0.0)
    return Work(amount, amount / total if total else 1.0, mesh.size, unit, total, waits)


def _of_busiest_stage(step: Staged, of: Callable[[Iterable[Step]], float]) -> float:
    """The work of the stage of a pipeline that has most: the first and the last have the ends of the model as well."""
    made = {name: of(piece.every) * step.runs_of(name) for name, piece in step.pieces.items()}
    layers = step.layers or (1,) * step.schedule.stages
    shorter = {name: scan for name, scan in step.scans.items() if name not in step.everywhere}
    layer = sum(of([scan]) * step.runs_of(name) for name, scan in shorter.items()) / max(layers)
    all_run = {*step.scans, *step.everywhere}
    ends = [0.0] * len(layers)
    for name, is_first in ON_ONE_STAGE.items():
        if name in made and name not in all_run:
            ends[0 if is_first else -1] += made[name]
    fewer = ((max(layers) - own) * layer for own in layers)
    return sum(made[name] for name in all_run) + max(end - less for end, less in zip(ends, fewer, strict=True))


def whole_from(
    program: Program, rules: LegalRules, mesh: Mesh, grid: Grid, steps: Iterable[Step], *, made: Work
) -> Operation | None:
    """Returns the operation from which on work is whole that was divided before; see `Plan.whole_from`.

    The steps are the plan's, those of repetitions each by itself; `made` is its work.
    """
    return None if made.is_divided else _Lost(program, rules, mesh, grid).first(steps, LITTLE * made.amount)


def sentence(made: Work) -> str:
    """Says what part of the work each device does."""
    return f"Each device does {made}."


def warning(made: Work, lost_at: Operation) -> str:
    """Warns that parallelism is lost: from which line on work is whole, and what part of it each device does."""
    even = f"{_percent(1 / made.devices)} in an even split"
    share = f"each device does {_percent(made.share)} of the {made.unit}, {even}"
    return f"⚠ Parallelism is lost at {line_of(lost_at)}: what follows is replicated; {share}."


def to_dict(made: Work, lost_at: Operation | None) -> dict[str, Any]:
    """Returns the share, the FLOPs, and the line from which on work is whole, as plain data."""
    line = line_of(lost_at) if lost_at else None
    flops = {"flops": made.flops, "unsharded_flops": made.unsharded_flops}
    waits = {"waits": made.waits} if made.waits else {}
    return {"share": made.share, "devices": made.devices, "unit": made.unit, **flops, **waits, "whole_from": line}


def line_of(operation: Operation) -> str:
    """Returns the line of an operation, with what stands there: `model.py:41 (reshape)`."""
    return f"{operation.source or 'an unknown line'} ({operation.called})"


def _percent(share: float) -> str:
    return f"{100 * share:.3g}%"


@analysis
def _total(program: Program) -> float:
    """The work of one run on one device alone."""
    return float(sum(times * multiply_adds(program, operation) for operation, times in measured(program).items()))


@analysis
def measured(program: Program) -> dict[Operation, int]:
    """Returns the contractions or, where there are none, all operations, with how often they run."""
    every = dict(how_often(program.code.block))
    return {op: times for op, times in every.items() if multiplies(op)} or every


@scoped_analysis
def by_contractions(program: Program) -> tuple[str, ...]:
    """Returns the dims in the order of how many contractions of a step each splits, whatever their sizes are.

    So it is known at once, and a dim stays where it is seen, whatever advice says of it later.
    """
    counts = Counter[str]()
    for operation, times in measured(program).items():
        names = {name for _, name in program.factor_dims[operation]}
        counts.update({dim: times for name in names for dim in program.splitters(name)})
    return tuple(sorted(program.dims, key=lambda dim: -counts[dim]))


def how_often(block: Block, times: int = 1) -> Iterator[tuple[Operation, int]]:
    """Yields every operation without blocks, with how often it runs."""
    for operation in block.operations:
        if not operation.blocks:
            yield operation, times
        for inside in operation.blocks:
            more = (trip_count(operation) or 1) if operation.name in LOOPS else 1
            yield from how_often(inside, times * more)


def multiplies(operation: Operation) -> Multiplies | None:
    """Returns the function that counts an operation's multiply-adds; None where it multiplies no matrices."""
    traits = TRAITS.get(operation.name)
    return traits.multiplies if traits is not None else None


def multiply_adds(
    program: Program, operation: Operation, specs: Sequence[Spec | None] = (), sizes: Mapping[str, int] | None = None
) -> float:
    """Returns the multiply-adds of an operation, or else the elements of its first result.

    Args:
        program: its program.
        operation: of the program.
        specs: of its inputs, then of its results: then those of one device count.
        sizes: of the mesh axes.
    """
    values = (*operation.inputs, *operation.outputs[:1])
    whole = map(program.code.shape_of, values)
    shapes = [
        shape if spec is None else local_shape(shape, spec, sizes or {})
        for shape, spec in itertools.zip_longest(whole, specs[: len(values)])
    ]
    count, reads = multiplies(operation), len(operation.inputs)
    factors = program.factors[operation]
    if factors.exchangeable and sizes:
        shapes[:reads] = as_met(factors, specs[:reads], shapes[:reads], sizes)
    if count is None:
        return math.prod(size for shape in shapes[reads:] for size in shape)
    return float(count(operation, shapes[:reads], shapes[reads]).products)


class _Lost:
    """One walk over the steps of a plan: which values are whole over an axis because an operation needed them whole."""

    def __init__(self, program: Program, rules: LegalRules, mesh: Mesh, grid: Grid):
        self.program, self.rules, self.grid, self.measured = program, rules, grid, measured(program)
        self.axes = [axis for axis, size in mesh.devices.axes.items() if size > 1]
        self.arguments = {argument.value for argument in program.arguments}
        # By axis: the values that are whole since an operation; the gathers of what an operation reads; the work since.
        self.since: dict[str, dict[int, Operation]] = {axis: {} for axis in self.axes}
        self.gathered: dict[str, set[Operation]] = {axis: set() for axis in self.axes}
        self.work: dict[Operation, float] = defaultdict(float)
        self.order: dict[Operation, int] = {}

    def first(self, steps: Iterable[Step], least: float) -> Operation | None:
        """Returns the first operation since which more work than the least is whole."""
        self.steps(steps, 1)
        return next((operation for operation in self.order if self.work[operation] > least), None)

    def steps(self, steps: Iterable[Step], times: int):
        for step in steps:
            if note := _NOTE.get(type(step)):
                note(self, step, times)
            for part in step.parts:
                self.part(step, part, times)

    def move(self, step: Move, _times: int):
        """Notes what is gathered for an operation, but for what is merely stored split, as parameters are."""
        operation, program = step.cause.operation, self.program
        if step.via.kind is ALL_GATHER and step.cause.kind == "operand" and operation is not None:
            is_stored = program.outermost(step.value) in self.arguments
            computed = self.rules.spec(program.names[step.value]) if is_stored else step.start
            for axis in itertools.chain.from_iterable(computed.splits):
                if axis in step.via.axes and axis in self.gathered:
                    self.gathered[axis].add(operation)

    def compute(self, step: Compute, times: int):
        operation = step.operation
        split = {axis for spec in (*step.operands, *step.results) if spec for axes in spec.splits for axis in axes}
        whole: set[Operation] = set()
        for axis in self.axes:
            if axis in split:
                continue
            since = self.since[axis]
            found = [since[value] for value in operation.reads if value in since]
            if operation in self.gathered[axis]:
                found.append(operation)
            if found:
                first = min(found, key=lambda one: self.order.setdefault(one, len(self.order)))
                whole.add(first)
                since.update(dict.fromkeys(operation.outputs, first))
        if whole and operation in self.measured:
            amount = multiply_adds(self.program, operation, (*step.operands, *step.results), self.grid)
            for first in whole:
                self.work[first] += times * amount

    def part(self, step: Step, part: Inner, times: int):
        operation, (given, _), (returned, _) = step.serves, part.given, part.returned
        self.pass_on(operation.inputs if operation and operation.name != "cond" else (), given)
        self.steps(part.steps, times * part.times)
        self.pass_on(returned, operation.outputs if operation else ())

    def pass_on(self, values: Sequence, others: Sequence):
        """What goes into a block, or out of it, is whole there too."""
        for since in self.since.values():
            since.update({other: since[value] for value, other in zip(values, others, strict=False) if value in since})


# By the kind of step, what is noted of it.
_NOTE: dict[type[Step], Callable[[_Lost, Any, int], None]] = {Move: _Lost.move, Compute: _Lost.compute}
