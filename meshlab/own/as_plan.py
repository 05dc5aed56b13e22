"""Makes a plan of XLA's program, for the machine's clock and memory: each operation on the shards that XLA has decided.

    plan = as_plan(jitted, compiled.before, mesh)
    plan.time.compute       seconds of the kernels of XLA's program, by the model that prices those of any plan
    plan.memory.peak_bytes  its peak, by the model that predicts that of any plan
    plan.collectives        what has to be sent for these shards; XLA may send something else

What XLA's propagation has decided for each value stands in the place of a layout's rules, and the planner makes the
steps. An operation runs as its result is split; what it sums stays split where its operands are, and is reduced at
once, as XLA's partitioner does it.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
import math
from collections.abc import Iterable, Iterator, Mapping

import jax
from jax.extend.core import jaxpr_as_fun
from jax.sharding import PartitionSpec

from ..api.priced import Plan
from ..api.trace import trace
from ..engine.code.operations import Code, Input, Operation, walk
from ..engine.jax_programs import number_of
from ..engine.legality.legal_rules import LegalRules
from ..engine.planning.blocks import run
from ..engine.planning.dead_moves import prune
from ..engine.planning.known_specs import Asked, Known
from ..engine.planning.planned import Planned, PlannedBlock
from ..engine.planning.planner import Planner
from ..engine.planning.steps import Cause
from ..engine.programs.program import Program
from ..engine.rules.table import AxisFactors
from ..engine.rules.traits import names_where
from ..engine.specs.layout import Layout
from ..engine.specs.mesh import Mesh
from ..engine.specs.spec import Axes, Grid, Spec, replicated
from .decided import Splits, decided
from .jitted import Jitted
from .naming.errors import OwnError
from .subject import of_spec

# Primitives of which each device runs its own part where they look up along an axis that is split.
_LOOKUPS = names_where(lambda traits: traits.kind == "gather")


def as_plan(jitted: Jitted, before: str | None, mesh: Mesh) -> Plan:
    """Returns the plan that computes what XLA's program does, shard by shard.

    Args:
        jitted: the program, its equations numbered.
        before: its text before XLA's partitioner; None where XLA does not show it.
        mesh: the mesh, which may be on a machine.

    Raises:
        TraceError: the program says by hand what devices do.
        OwnError: XLA splits an array into shards of different sizes, or does not show how it splits any.
    """
    if before is None:
        raise OwnError("This version of XLA does not show what its partitioner is given: its program has no price.")
    shapes = (jax.ShapeDtypeStruct(aval.shape, aval.dtype) for aval in jitted.closed.in_avals)
    program = trace(jaxpr_as_fun(jitted.closed), *shapes)
    block, rules, scope = program.code.block, LegalRules({}, {}), PlannedBlock()
    planner = _AsDecided(program, rules, Grid(jitted.axes), _splits(program.code, before, jitted.axes))
    given = {value: planner.decided(value) for value in block.inputs}
    for value, spec in given.items():
        planner.arrive(scope, value, spec)
    run(planner, scope, block)
    stored = tuple(
        planner.stored(value, asked and asked.spec) for value, asked in zip(block.outputs, jitted.results, strict=True)
    )
    for value, spec, place in zip(block.outputs, stored, program.outputs, strict=True):
        planner.obtain(value, spec, Cause("stored", place=place))
    steps = prune(scope.steps, zip(block.outputs, stored, strict=True), program.original_of)
    planned = Planned(steps, planner.state.specs, {})
    return DecidedPlan(program, mesh, Layout.of(None), rules, planned, decided_arguments=given, decided_outputs=stored)


@dataclasses.dataclass(frozen=True, eq=False, kw_only=True)
class DecidedPlan(Plan):
    """A plan of XLA's program: how arguments and outputs are stored is XLA's, of which its rules know nothing.

    Attributes:
        decided_arguments: the spec of each argument and constant, by number.
        decided_outputs: the spec of each output.
    """

    decided_arguments: Mapping[int, Spec]
    decided_outputs: tuple[Spec, ...]

    @functools.cached_property
    def argument_specs(self) -> dict[int, Spec]:
        """The spec in which each argument, and each constant, is stored, by number."""
        return dict(self.decided_arguments)

    @functools.cached_property
    def output_specs(self) -> tuple[Spec, ...]:
        """The spec in which each output is stored."""
        return self.decided_outputs


def _splits(code: Code, before: str, axes: Mapping[str, int]) -> dict[int, Splits]:
    """How XLA splits the values of a program, as far as that is over whole mesh axes."""
    operations = ((number_of(operation.equation), operation) for operation in walk(code.block))
    makers = {number: operation for number, operation in operations if number is not None}
    found = {value: each for value, each in decided(code, makers, before, axes).items() if each is not None}
    splits = {value: tuple(_real(split, axes) for split in each) for value, each in found.items()}
    for value, each in splits.items():
        for size, split in zip(code.shapes[value], each, strict=True):
            if size % math.prod(axes[axis] for axis in split):
                by = "+".join(f"{axis}={axes[axis]}" for axis in split)
                raise OwnError(f"XLA splits {size:,} elements by {by}: shards of different sizes have no price here.")
    return splits


def _real(split: Axes | None, axes: Mapping[str, int]) -> Axes:
    """The mesh axes of a split that have several devices."""
    return tuple(axis for axis in split or () if axes[axis] > 1)


class _AsDecided(Planner):
    """Plans a program as XLA has decided.

    Args:
        program: the program.
        rules: none.
        sizes: the mesh axes' sizes.
        splits: how XLA splits the values, where that is known; others follow what they are made of.
    """

    def __init__(self, program: Program, rules: LegalRules, sizes: Grid, splits: Mapping[int, Splits]):
        super().__init__(program, rules, sizes, {})
        self.splits, self.known, self._asked = splits, Known(sizes), dict[Operation, Asked]()
        self.targets = {value: Spec(each) for value, each in splits.items()}

    def decided(self, value: int) -> Spec:
        """How a value that comes in is split."""
        return Spec(self.splits[value]) if value in self.splits else replicated(len(self.shapes[value]))

    def stored(self, value: Input, asked: PartitionSpec | None) -> Spec:
        """How a result goes out: as `out_shardings` asks, else as it is split."""
        if not isinstance(value, int):
            return replicated(0)
        if asked is not None:
            return Spec(tuple(_real(split, self.sizes) for split in of_spec(asked, len(self.shapes[value]))))
        return self.decided(value) if value in self.splits else self.spec_or_default(value).reduced()

    def arrive(self, scope: PlannedBlock, value: int, spec: Spec):
        super().arrive(scope, value, spec)
        if self.state.specs[value].partial:
            self.reduce(value)

    def asked_of(self, operation: Operation, fixed: frozenset[int]) -> Asked:
        if operation not in self._asked:
            self._asked[operation] = tuple((f, axes) for f, axes in self._factors(operation).items() if axes)
        return self._asked[operation]

    def unsplittable_factors(self, operation: Operation) -> frozenset[int]:
        """No operand's sharding propagates along what XLA has decided."""
        return super().unsplittable_factors(operation).union(self._factors(operation))

    def _factors(self, operation: Operation) -> dict[int, Axes]:
        """The mesh axes of each factor of an operation, as far as XLA has decided them."""
        factors = self.factors[operation]
        made = dict(self._each(operation.outputs, factors.results))
        read = [
            (factor, split) for factor, split in self._each(operation.inputs, factors.operands) if factor not in made
        ]
        summed = {factor: split for factor, split in read if all(split == other for f, other in read if f == factor)}
        taken = set(itertools.chain(*summed.values()))
        made = {factor: tuple(axis for axis in split if axis not in taken) for factor, split in made.items()}
        used = taken.union(*made.values())
        for factor, split in read:  # where one operand alone has it split, and nothing else is split so
            if split and factor not in summed and used.isdisjoint(split):
                summed[factor] = split
                used.update(split)
        whole = factors.per_shard if operation.name not in _LOOKUPS else frozenset[int]()
        return {factor: split for factor, split in (made | summed).items() if factor not in whole}

    def _each(self, values: Iterable[Input], rows: Iterable[AxisFactors]) -> Iterator[tuple[int, Axes]]:
        """Yields each factor of values whose split is known, with its mesh axes."""
        for value, row in zip(values, rows, strict=True):
            if isinstance(value, int) and value in self.splits:
                yield from ((f, split) for f, split in zip(row, self.splits[value], strict=True) if f >= 0)
