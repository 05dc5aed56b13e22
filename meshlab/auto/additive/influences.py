"""The dims that the traffic of a value depends on.

Without storage rules a plan sends a value because one operation makes it in one spec and another reads it in another.
Both specs follow from the layout of a few dims: those of the value itself and, where it is a partial sum, those of the
operations that it came through. So what is sent for one value is a table over the layouts of a small set of dims:

    logits [batch classes] = sum over hidden       set {batch, classes, hidden}
    the squared norms of all gradients, added up   set of all dims of parameters: they are reduced together or apart

The sets follow from the program alone: the planner's own questions (`engine.planning.propagation`) are asked of all
layouts at once, and wherever it might look at a dim, the dim is in the set. A set that is too large costs time; one
that is too small would make the tables wrong, which `layout` notices, since it plans what it returns.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

from ...engine.code.loops import LOOPS
from ...engine.code.operations import Input, Operation, walk
from ...engine.planning.propagation import (
    bodies,
    carry_may_be_partial,
    entering,
    going_round,
    leaving,
    lets_through,
    may_stay_partial,
    passes_targets_on,
)
from ...engine.programs.data import Program
from ...engine.rules import Factors
from .space import Dims

_NONE: Dims = frozenset()


def influences(program: Program) -> dict[int, Dims]:
    """Returns, for each value that may be sent, the dims that decide how much is sent for it.

    Values that are the same array (a rename's operand and result) are one, under the number that the plan's moves bear.
    """
    flow = _Flow(program)
    while flow.advance():
        pass
    return flow.sites()


class _Flow:
    """The dims that decide about each value, as far as the flow has come; they only grow.

    Attributes:
        partial: for each value the dims that decide over which mesh axes it is a partial sum.
        beyond: for each value the dims, apart from its own, that decide how it is split.
        targets: for each value the dims of the stored values that it becomes, as far as they are its own.
    """

    def __init__(self, program: Program):
        self.program, self.uses = program, program.uses
        self.operations = tuple(walk(program.code.block))
        dims_of = (program.dims_of(value) for value in range(len(program.names)))
        self.names = [frozenset(d for d in dims if d is not None) for dims in dims_of]
        self.made_up = [any(n is not None and n not in program.dims for n in names) for names in program.names]
        self.touched = {op: _union(self.names[v] for v in (*op.reads, *op.outputs)) for op in self.operations}
        self.partial: dict[int, Dims] = defaultdict(lambda: _NONE)
        self.beyond: dict[int, Dims] = defaultdict(lambda: _NONE)
        self.targets: dict[int, Dims] = defaultdict(lambda: _NONE)
        self.zeros = self._may_be_zero()
        for value in program.code.block.outputs:
            self._add_target(value, self.names[value] if isinstance(value, int) else _NONE)

    def advance(self) -> bool:
        """Goes once over the program; returns whether a set grew."""
        before = self._sizes()
        for operation in self.operations:
            if operation.name in LOOPS:
                self._loop(operation)
            elif operation.name == "cond":
                self._branches(operation)
            elif operation.blocks:
                self._barrier(operation)
            else:
                self._operation(operation, self.program.factors[operation])
        for operation in reversed(self.operations):
            self._pass_targets(operation)
        return self._sizes() != before

    def sites(self) -> dict[int, Dims]:
        """The dims of each value, all names of one array together, and of each operation that sends by itself."""
        sites: dict[int, Dims] = defaultdict(lambda: _NONE)
        original_of = self.program.original_of

        def add(value: Input, dims: Dims):
            if isinstance(value, int):
                sites[original_of.get(value, value)] |= dims

        for value in (*self.program.code.block.inputs, *(v for op in self.operations for v in op.outputs)):
            add(value, self._producer(value))
        for operation in self.operations:
            links = [link for block in operation.blocks for link in entering(operation, block)]
            links += [link for block in bodies(operation) for link in leaving(operation, block)]
            for outer, inner, _ in links:
                for value in (outer, inner):
                    add(value, _union(self._producer(v) for v in (outer, inner) if isinstance(v, int)))
            if operation.blocks:
                continue
            together = self.touched[operation] | _union(self._producer(v) for v in operation.reads)
            for value in operation.reads:
                if self.partial[value] or self.made_up[value] or any(self.beyond[v] for v in operation.reads):
                    add(value, together)
            if self.program.factors[operation].per_shard:
                add(operation.outputs[0], together)
        return dict(sites)

    def _sizes(self) -> tuple[int, ...]:
        return tuple(sum(map(len, sets.values())) for sets in (self.partial, self.beyond, self.targets))

    def _producer(self, value: int) -> Dims:
        """The dims that decide in which spec a value is made."""
        partial = self.partial[value]
        return self.names[value] | self.beyond[value] | partial | (self.targets[value] if partial else _NONE)

    def _may_be_zero(self) -> set[Input]:
        """Values that are zero, and carries that start from zero: those may be partial for free."""
        zeros: set[Input] = set(self.program.uniform[1])
        for operation in self.operations:
            if operation.name in LOOPS:
                starts = zip(operation.inputs, operation.blocks[0].inputs, strict=True)
                zeros.update(b for a, b in starts if (a in zeros if isinstance(a, int) else a.is_zero))
        return zeros

    def _zero(self, value: Input) -> bool:
        return value in self.zeros if isinstance(value, int) else value.is_zero

    def _zero_or_partial(self, value: Input) -> bool:
        return self._zero(value) or (isinstance(value, int) and bool(self.partial[value]))

    # One operation

    def _operation(self, operation: Operation, factors: Factors):
        reads = operation.reads
        if operation.outputs[0] in self.program.materialisable and operation.outputs[0] not in self.program.broadcasts:
            return
        arriving = _union(self._producer(v) for v in reads)
        partial = self.touched[operation] | arriving if factors.summed else _NONE
        if any(self._passes(operation, factors, position) for position in range(len(operation.inputs))):
            partial |= self.touched[operation] | _union(self.partial[v] | self.beyond[v] for v in reads)
        for value in operation.outputs:
            self.partial[value] |= partial
            propagates = factors.propagating != frozenset() and any(self.beyond[v] for v in reads)
            if self.made_up[value] or propagates:
                self.beyond[value] |= (self.touched[operation] | arriving) - self.names[value]

    def _passes(self, operation: Operation, factors: Factors, position: int) -> bool:
        """Whether an operand may be a partial sum, and goes through as one."""
        value = operation.inputs[position]
        if not isinstance(value, int) or not self.partial[value] or not may_stay_partial(self.uses, value):
            return False
        return lets_through(operation, factors, (position,), self._zero_or_partial)

    # Blocks

    def _branches(self, operation: Operation):
        for branch in operation.blocks:
            for outer, inner, _ in leaving(operation, branch):
                if isinstance(inner, int):
                    self.beyond[outer] |= self._producer(inner)
                    self.partial[outer] |= self.partial[inner]

    def _loop(self, operation: Operation):
        (body,) = bodies(operation)
        arriving, results = list(entering(operation, body)), list(leaving(operation, body))
        for (outer, inner, sliced), (result, after, _) in zip(arriving, results, strict=False):
            if sliced:
                break
            slot = [v for v in (outer, inner, after, result) if isinstance(v, int)]
            beyond = _union(self.beyond[v] for v in slot)
            for value in slot:
                self.beyond[value] |= beyond
            if isinstance(after, int) and carry_may_be_partial(self.uses, outer, inner, self._zero):
                self.partial[inner] |= self.partial[after]
                self.partial[result] |= self.partial[after]
        for outer, inner, sliced in arriving:
            if sliced:
                self._enter(outer, inner)
        for result, after, stacked in results:
            if stacked:
                self._leave(after, result)
                if isinstance(after, int) and self.partial[after]:
                    self.partial[result] |= self.names[after]

    def _barrier(self, operation: Operation):
        (body,) = operation.blocks
        for outer, inner, _ in entering(operation, body):
            self._enter(outer, inner)
            if isinstance(outer, int) and all(may_stay_partial(self.uses, v) for v in (outer, inner)):
                self.partial[inner] |= self.partial[outer]
        for outer, inner, _ in leaving(operation, body):
            self._leave(inner, outer)

    def _enter(self, outer: Input, inner: int):
        if isinstance(outer, int):
            self.beyond[inner] |= self._resolved(outer)

    def _leave(self, inner: Input, outer: int):
        if isinstance(inner, int):
            self.beyond[outer] |= self._resolved(inner)
            self.partial[outer] |= self.partial[inner]

    def _resolved(self, value: int) -> Dims:
        """The dims, apart from its own, that decide how a value is sharded once its partial sum is reduced."""
        targets = self.targets[value] - self.names[value]
        return self.beyond[value] | (targets | self.partial[value] if targets and self.partial[value] else _NONE)

    # Targets

    def _pass_targets(self, operation: Operation):
        for block in bodies(operation):
            for outer, inner, _ in leaving(operation, block):
                self._add_target(inner, self.targets[outer])
            for start, after in going_round(operation, block):
                self._add_target(after, self.targets[start])
            for outer, inner, _ in entering(operation, block):
                self._add_target(outer, self.targets[inner])
        if not operation.blocks and passes_targets_on(operation, self.program.factors[operation]):
            for value in operation.reads:
                self._add_target(value, self.targets[operation.outputs[0]])

    def _add_target(self, value: Input, dims: Dims):
        if isinstance(value, int):
            self.targets[value] |= dims if self.made_up[value] else dims & self.names[value]


def _union(sets: Iterable[Dims]) -> Dims:
    return frozenset().union(*sets)
