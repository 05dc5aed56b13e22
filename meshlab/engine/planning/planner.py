"""The planner: the state of one planning, and how an operation without blocks is planned in it.

It takes the operations in order and keeps, for every value, its **producer's spec** (the one that it was made in, or in
which its partial sum was reduced) and all specs in which it is on the devices by now. The specs of an operation are
looked up or worked out (`operation_specs.py`), its operands are resharded (`collectives/chains.py`), and its results
have a producer's spec.

A reshard is emitted in the block where the value was made, not where it is needed: so what does not change inside a
loop is moved once, in front of it, as XLA would do anyway. A value that was moved once stays available.

A partial sum with a single use may stay partial through linear operations; before anything else, and before several
uses, it is reduced, once, to its target spec.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from types import MappingProxyType

from ..axes.axis import EACH
from ..code.operations import Input, Operation
from ..collectives.chains import reshard
from ..collectives.reshard import price, reduced_spec
from ..legality.legal_rules import LegalRules
from ..programs.outline import Outline
from ..programs.program import Program
from ..rules import PER_SHARD, READ_IN_PART
from ..specs.spec import Axes, AxesByDim, Grid, Spec, replicated
from .known_specs import Asked, known_on
from .moves_in_time import MovesInTime
from .operation_specs import OperationSpecs, looked_up_whole, specs_of_operation
from .planned import PlannedBlock
from .planning_state import PlanningState
from .propagation import lets_through, may_stay_partial
from .steps import Cause, Compute, Materialise, Move
from .sums_in_time import common_axes, stays_partial, waiting
from .target_specs import target_specs

_NO_RULES: AxesByDim = MappingProxyType({})
_NONE: frozenset[int] = frozenset()


class Planner:
    """Plans the operations of one program for one layout; used once.

    Attributes:
        state: all that changes on the way; the rest is known of the program, the rules and the mesh.
    """

    def __init__(self, program: Program, rules: LegalRules, sizes: Grid, outline: Outline):
        self.program, self.rules, self.sizes, self.outline = program, rules, sizes, outline
        self.names, self.shapes = program.names, program.code.shapes
        self.moves_in_time = MovesInTime(rules, sizes)
        self.uses, self.factors, self.factor_dims = program.uses, program.factors, program.factor_dims
        self.known, self.known_asked = known_on(program, sizes), dict[tuple, Asked]()
        self.zeros = program.uniform[1]
        self.original_of, self.materialisable = program.original_of, program.materialisable
        self.target_specs = target_specs(program, rules, sizes, outline)
        self.targets = self.target_specs.specs
        self.state = PlanningState()

    # Values

    def arrive(self, scope: PlannedBlock, value: int, spec: Spec):
        """Takes note of a value that was made in a spec; reduces a partial sum that has several uses."""
        self.state.specs[value] = spec
        if value not in self.original_of:
            self.state.scope_of[value] = scope
            scope.available[value] = (spec,)
        if spec.partial and not may_stay_partial(self.uses, value):
            self.reduce(value)

    def spec_of(self, value: Input) -> Spec | None:
        """Returns an input's producer's spec; None for literals and for deferred values."""
        return self.state.specs.get(value) if isinstance(value, int) else None

    def spec_or_default(self, value: Input) -> Spec:
        """Returns an input's producer's spec; where it has none, that of what it broadcasts, or of the rules."""
        if not isinstance(value, int):
            return replicated(0)
        return self.state.specs.get(value) or self.broadcast_spec(value) or self.rules.spec(self.names[value])

    def broadcast_spec(self, value: Input) -> Spec | None:
        """Returns the spec of a broadcast, made where what it broadcasts is; None for all other values."""
        if not isinstance(value, int) or value not in self.program.broadcasts or value not in self.state.deferred:
            return None
        return self.step_of(self.state.deferred[value]).results[0]

    def is_zero(self, value: Input) -> bool:
        """Says whether an input is known to be zero everywhere: then it is a partial sum of itself."""
        return value in self.zeros or value in self.state.hoped if isinstance(value, int) else value.is_zero

    def reduce(self, value: int, cause: Cause | None = None, needed: Spec | None = None) -> Spec:
        """Reduces a partial sum to its target spec, or to what its only reader needs, for good."""
        spec = self.state.specs[value]
        wanted = self.targets.get(value) or (needed and needed.reduced())
        if wanted is not None and self.rules.in_time:
            wanted = self.moves_in_time.of_block(self.names[value], spec, wanted)
        target = reduced_spec(spec, wanted, self.rules.in_time)
        if self.rules.in_time:
            in_block = self.state.scope_of[self.original_of.get(value, value)].depth > 0
            target = waiting(spec, target, self.rules.in_time, in_block)
        self.obtain(value, target, cause or Cause("sum"))
        self.state.specs[value] = target
        return target

    def obtain(self, value: Input, target: Spec, cause: Cause):
        """Makes a value available in a spec: it is there, or materialised, or moved from the cheapest spec at hand."""
        if not isinstance(value, int) or value in self.state.hoped:
            return
        original = self.original_of.get(value, value)
        scope = self.state.scope_of[original]
        available = scope.available.get(original, ())
        if target in available:
            return
        deferred = self.state.deferred.get(original)
        if (
            deferred is not None
            and (cut := self.moves_in_time.cut_indices(deferred, self.names[value], target)) is not None
        ):
            self.obtain(value, cut, cause)
        elif deferred is not None:
            self.materialise(scope, deferred, target, cause)
            return
        self.move(scope, value, target, cause)

    def move(self, scope: PlannedBlock, value: int, target: Spec, cause: Cause):
        """Moves a value to a spec from the cheapest of those at hand."""
        original = self.original_of.get(value, value)
        available = scope.available.get(original, ())
        if self.rules.in_time:
            available = self.stopped(value, available, target, cause)
        candidate = min(
            (reshard(spec, target, self.sizes) for spec in available if set(target.partial) <= set(spec.partial)),
            key=lambda candidate: price(candidate, self.sizes),
        )
        spec, available = candidate.start, scope.available.get(original, ())
        for step in candidate.steps:
            if step.result not in available:
                scope.steps.append(Move(original, spec, step, cause, value, candidate))
                available = (*available, step.result)
            spec = step.result
        scope.available[original] = available

    def stopped(self, value: int, available: Sequence[Spec], target: Spec, cause: Cause) -> tuple[Spec, ...]:
        """Returns the specs from which a value is moved to a target, so that no move goes over devices and time."""
        starts, stops = self.moves_in_time.way(self.names[value], available, target)
        for between in stops:
            self.obtain(value, between, cause)
        return (stops[-1],) if stops else starts

    # Operations

    def operation(self, scope: PlannedBlock, operation: Operation):
        """Plans one operation without blocks."""
        name = operation.name
        if operation.outputs[0] in self.materialisable and not self.waits(operation):
            self.defer(scope, operation)
        elif name == "tag" and operation.params["tag"] in self.rules.storage:
            stored = self.rules.spec(self.names[operation.outputs[0]], operation.params["tag"])
            cause = Cause("stored", operation, operation.params["tag"])
            self.obtain(operation.inputs[0], stored, cause)
            self.arrive(scope, operation.outputs[0], stored)
        elif name == "rename":
            self.rename(scope, operation)
        else:
            self.reduce_operands(operation)
            self.emit(scope, self.step_of(operation), Cause("operand", operation))

    def defer(self, scope: PlannedBlock, operation: Operation):
        """Defers a value that costs nothing to make: it has no producer's spec, each reader materialises it."""
        for value in operation.reads:
            if value not in self.state.deferred:
                if self.state.specs[value].partial:
                    self.reduce(value)
                self.obtain(value, self.state.specs[value], Cause("operand", operation))
        value = operation.outputs[0]
        self.state.deferred[value] = operation
        self.state.scope_of[value] = scope

    def materialise(self, scope: PlannedBlock, operation: Operation, target: Spec, cause: Cause):
        """Materialises a deferred value in a spec, and its operands in the specs that this asks for."""
        factors, value = self.factors[operation], operation.outputs[0]
        if all(v not in self.state.deferred for v in operation.reads) and value not in self.program.broadcasts:
            scope.steps.append(Materialise(operation, target))
        else:
            split_of = dict(zip(factors.results[0], target.splits, strict=True))
            op_specs = OperationSpecs(
                tuple(Spec(tuple(split_of.get(f, ()) for f in axes)) for axes in factors.operands), (target,), False
            )
            for operand, spec in zip(operation.inputs, op_specs.operands, strict=True):
                self.obtain(operand, spec, cause)
            scope.steps.append(self.computed(operation, op_specs))
        scope.available[value] = (*scope.available.get(value, ()), target)

    def emit(self, scope: PlannedBlock, step: Compute, cause: Cause):
        """Moves the operands to the specs in which they are read, and computes."""
        operation, specs = step.operation, self.state.specs
        for value, spec in zip(operation.inputs, step.operands, strict=True):
            if spec is not None and specs.get(value) != spec:  # pyright: ignore[reportArgumentType]: no literal has one
                self.obtain(value, spec, cause)
        if operation.outputs[0] not in self.original_of:
            scope.steps.append(step)
        for value, spec in zip(operation.outputs, step.results, strict=True):
            self.arrive(scope, value, spec)

    def compute_rules(self, operation: Operation) -> AxesByDim:
        """Returns the compute rules of an operation: those of its scope; a sum of cotangents follows its operands."""
        if self.rules.scopes and operation.name == "add_any":
            return _NO_RULES
        return self.rules.within(operation.scope)

    def asked(self, operation: Operation) -> Asked:
        """Returns the mesh axes that the compute rules ask for each factor."""
        return self.asked_of(operation, self.unsplittable_factors(operation))

    def asked_of(self, operation: Operation, fixed: frozenset[int]) -> Asked:
        """Returns the mesh axes that the compute rules ask for each factor but some; looked up for operations alike."""
        compute, dims = self.compute_rules(operation), self.factor_dims[operation]
        key = id(dims), id(compute), fixed
        asked = self.known_asked.get(key)
        if asked is None:
            asked = tuple([(f, compute[dim]) for f, dim in dims if dim in compute and f not in fixed])
            self.known_asked[key] = asked
        return asked

    def unsplittable_factors(self, operation: Operation) -> frozenset[int]:
        """The factors that are not sharded: those that are padded, and more than mapped or summed.

        And those of `single` and of `looked_up_whole`.
        """
        pads, per_shard = self.sizes.pads, PER_SHARD.get(operation.name)
        if not pads and per_shard is None:
            return _NONE
        factors = self.factors[operation]
        single = self.single(operation) if per_shard is not None and per_shard.gathers else _NONE
        if operation.name in READ_IN_PART and (table := self.spec_of(operation.inputs[0])) is not None:
            asked = dict(self.asked_of(operation, _NONE))
            whole = looked_up_whole(factors, table, asked)
            single |= {f for f in whole if self.rules.in_time.keys().isdisjoint(asked.get(f, ()))}
        if not pads:
            return single
        # Where an element of a longer or shorter part stands is not its part's number times the size of a part.
        placed = bool(self.sizes.uneven) or not (per_shard and per_shard.padded)
        values = (*operation.inputs, *operation.outputs)
        return single.union(
            factor
            for value, axes in zip(values, (*factors.operands, *factors.results), strict=True)
            if isinstance(value, int)
            for factor, size in zip(axes, self.shapes[value], strict=True)
            if self.sizes.may_pad(size) and (factor in factors.limits or (factor in factors.per_shard and placed))
        )

    def single(self, operation: Operation) -> frozenset[int]:
        """Returns the per-shard factors with parts of one element: gathering slices there is gathering the operand."""
        factors, compute, singles = self.factors[operation], self.compute_rules(operation), set()
        dims = dict(self.program.factor_dims[operation])
        for value, axes in zip(operation.inputs, factors.operands, strict=True):
            spec = self.spec_of(value)
            for axis, factor in enumerate(axes):
                if factor in factors.per_shard and isinstance(value, int):
                    splits = (compute.get(dims.get(factor, ""), ()), spec.splits[axis] if spec else ())
                    counts = [math.prod(self.sizes[a] for a in axes) for axes in splits]
                    singles.update({factor} if max(counts) == self.shapes[value][axis] else ())
        return frozenset(singles)

    def step_of(self, operation: Operation) -> Compute:
        """Returns the step of an operation for the specs that its operands now have; looked up if it was met before."""
        unsplittable = self.unsplittable_factors(operation)
        asked = self.asked_of(operation, unsplittable)
        specs, inputs = self.state.specs, operation.inputs
        operands = tuple([specs.get(v) if isinstance(v, int) else None for v in inputs])
        # A small operand, or a broadcast of one, does not propagate its sharding: moving it costs less than moving the
        # large one. But where the target spec of the result is sharded, each sharding that is there propagates.
        target = self.targets.get(operation.outputs[0])
        target_is_sharded = target is not None and any(target.splits)
        if target_is_sharded or not any(operands):
            operands = tuple([self.spec_of(v) or self.broadcast_spec(v) for v in inputs])
        hoped = self.state.hoped.intersection(operation.reads) if self.state.hoped else None
        key = operation, operands, target_is_sharded, asked, hoped
        step = self.known.steps.get(key)
        if step is None:
            zeros = tuple([self.is_zero(v) for v in inputs])
            smaller = frozenset[int]() if target_is_sharded else self.smaller_operands(operation, operands)
            factors = self.factors[operation]
            op_specs = self.known.specs(factors, asked, operands, zeros, unsplittable=unsplittable, smaller=smaller)
            step = self.known.steps[key] = self.computed(operation, op_specs)
        return step

    def smaller_operands(self, operation: Operation, operands: Sequence[Spec | None]) -> frozenset[int]:
        """Returns the operands that are smaller than the largest of those that have a spec."""
        shapes = [self.shapes[v] if isinstance(v, int) else () for v in operation.inputs]
        if len(set(shapes)) < 2:
            return frozenset()
        elements = [math.prod(shape) for shape in shapes]
        largest = max((n for n, spec in zip(elements, operands, strict=True) if spec is not None), default=0)
        return frozenset(position for position, n in enumerate(elements) if n < largest)

    def computed(self, operation: Operation, op_specs: OperationSpecs) -> Compute:
        read = op_specs.operands
        if len(operation.reads) != len(read):  # literals have no spec
            inputs = zip(operation.inputs, read, strict=True)
            read = tuple([spec if isinstance(value, int) else None for value, spec in inputs])
        return Compute(operation, read, op_specs.results, op_specs.per_shard, self.factors[operation].known)

    def reduce_operands(self, operation: Operation):
        """Reduces the partial operands that the operation cannot let through."""
        specs = self.state.specs
        if not any([v in specs and specs[v].partial for v in operation.reads]):
            return
        partial = [i for i, v in enumerate(operation.inputs) if isinstance(v, int) and v in specs and specs[v].partial]
        keep = self.common(operation, partial)
        for i in partial:
            value = operation.inputs[i]
            assert isinstance(value, int)
            # The same value may stand in two places, and be reduced already.
            if not set(self.state.specs[value].partial) <= set(keep):
                self.reduce_to(value, keep, Cause("sum", operation))

    def waits(self, operation: Operation) -> bool:
        """Says whether an operation reads a partial sum over an axis in time."""
        in_time = self.rules.in_time
        return bool(in_time) and any(
            s is not None and not in_time.keys().isdisjoint(s.partial) for s in map(self.spec_of, operation.inputs)
        )

    def common(self, operation: Operation, partial: list[int]) -> Axes:
        """Returns the mesh axes over which an operation's operands may stay partial."""
        if not self.waits(operation):
            return self.let_through(operation, partial)
        specs, factors = [self.spec_of(v) for v in operation.inputs], self.factors[operation]
        asked = {a for _, axes in self.asked(operation) for a in axes}
        waiting_here = len(self.state.chain) > 1 and all(each.reduce != EACH for each in self.rules.in_time.values())
        over = {a for spec in specs if spec is not None for a in spec.partial if a in self.rules.in_time}
        free = {
            axis
            for axis in (over | common_axes(specs) if waiting_here else over) - asked
            if stays_partial(axis, operation, factors, specs, self.is_zero)
        }
        return tuple(sorted(free.union(self.let_through(operation, partial)) if over <= free else free - over))

    def let_through(self, operation: Operation, partial: list[int]) -> Axes:
        """Returns the mesh axes over which its rule lets partial sums go through an operation."""
        if not lets_through(operation, self.factors[operation], partial, self.is_zero):
            return ()
        specs = [self.spec_of(v) for v in operation.inputs]
        over = set.intersection(*(set(s.partial) for i in partial if (s := specs[i]) is not None))
        asked = {a for _, axes in self.asked(operation) for a in axes}
        return () if over & asked else tuple(sorted(over))

    def reduce_to(self, value: int, keep: Axes, cause: Cause):
        if not keep:
            self.reduce(value, cause)
        spec = self.state.specs[value]
        target = Spec(spec.splits, tuple(a for a in spec.partial if a in keep))
        self.obtain(value, target, cause)
        self.state.specs[value] = target

    def rename(self, scope: PlannedBlock, operation: Operation):
        """Plans a rename: moves the operand to the spec of the new names; a partial sum stays if nothing moves."""
        before, after = operation.params["before"], operation.params["after"]
        moved = frozenset(i + len(before) for i in range(len(before)) if before[i] != after[i])
        value = operation.inputs[0]
        assert isinstance(value, int)
        op_specs = self.renamed(operation, value, moved)
        spec = self.state.specs.get(value)
        if spec is not None and spec.partial:
            needed = op_specs.operands[0]
            taken = not set(needed.axes).isdisjoint(spec.partial)
            if taken or any(step.kind.sends for step in reshard(spec, needed, self.sizes).steps):
                self.reduce(value, Cause("sum", operation), needed if may_stay_partial(self.uses, value) else None)
                op_specs = self.renamed(operation, value, moved)
                waits = tuple(a for a in self.state.specs[value].partial if a not in op_specs.operands[0].axes)
                if waits != self.state.specs[value].partial:  # it waits over an axis in time, which the new names take
                    self.reduce_to(value, waits, Cause("sum", operation))
                    op_specs = self.renamed(operation, value, moved)
        self.emit(scope, self.computed(operation, op_specs), Cause("operand", operation))

    def renamed(self, operation: Operation, value: int, moved: frozenset[int]) -> OperationSpecs:
        """Returns the specs of a rename, its operand's factors taken for the result's: new names, new splits."""
        factors = self.factors[operation]
        asked = self.asked(operation)
        same = type(factors)((factors.results[0],), factors.results)
        operands, zeros = (self.state.specs.get(value),), (value in self.zeros,)
        return specs_of_operation(same, dict(asked), operands, zeros, sizes=self.sizes, unsplittable=moved)
