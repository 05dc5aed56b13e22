"""Which dims the traffic of a value depends on.

Under plain rules a plan sends a value because one operation makes it in one spec and another reads it in another. Both
specs follow from the layout of a few dims: those of the value itself and, where it is a partial sum, those of the
operations that it came through. So what is sent for one value is a table over the layouts of a small set of dims:

    logits [batch classes] = sum over hidden       set {batch, classes, hidden}
    the squared norms of all gradients, added up   set of all dims of parameters: they are reduced together or apart

The sets are found from the program alone, by following what the planner would do without knowing any layout: wherever
it might look at a dim, the dim is in the set. A set that is too large costs time; one that is too small would make the
tables wrong, which `layout` notices, since it plans what it returns.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator

from ..engine.code.loops import LOOPS, carried
from ..engine.code.operations import Input, Operation, walk
from ..engine.programs.data import Program
from ..engine.rules import Factors

Dims = frozenset[str]

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
    """What is known so far; it only grows.

    Attributes:
        partial: for each value the dims that decide over which mesh axes it is a partial sum.
        beyond: for each value the dims, apart from its own, that decide how it is split.
        wanted: for each value the dims of the stored values that it becomes, as far as they are its own.
    """

    def __init__(self, program: Program):
        self.program = program
        self.operations = tuple(walk(program.code.block))
        bearing = [program.dims_of(value) for value in range(len(program.names))]
        self.names = [frozenset(d for d in dims if d is not None) for dims in bearing]
        self.made_up = [any(n is not None and n not in program.dims for n in names) for names in program.names]
        self.touched = {op: _union(self.names[v] for v in (*op.reads, *op.outputs)) for op in self.operations}
        self.partial: dict[int, Dims] = defaultdict(lambda: _NONE)
        self.beyond: dict[int, Dims] = defaultdict(lambda: _NONE)
        self.wanted: dict[int, Dims] = defaultdict(lambda: _NONE)
        self.zeros = self._may_be_zero()
        for value in program.code.block.outputs:
            self._want(value, self.names[value] if isinstance(value, int) else _NONE)

    def advance(self) -> bool:
        """Goes once over the program; returns whether anything was learnt."""
        before = self._known()
        for operation in self.operations:
            if not operation.blocks:
                self._operation(operation, self.program.factors[operation])
            elif operation.name in LOOPS:
                self._loop(operation)
            elif operation.name == "cond":
                self._branches(operation)
            else:
                self._barrier(operation)
        for operation in reversed(self.operations):
            self._wants(operation)
        return self._known() != before

    def sites(self) -> dict[int, Dims]:
        """The dims of each value, all names of one array together, and of each operation that sends by itself."""
        found: dict[int, Dims] = defaultdict(lambda: _NONE)
        roots = self.program.roots

        def add(value: Input, dims: Dims):
            if isinstance(value, int):
                found[roots.get(value, value)] |= dims

        for value in (*self.program.code.block.inputs, *(v for op in self.operations for v in op.outputs)):
            add(value, self._home(value))
        for operation in self.operations:
            for a, b in _bound(operation):
                for value in (a, b):
                    add(value, _union(self._home(v) for v in (a, b) if isinstance(v, int)))
            if operation.blocks:
                continue
            together = self.touched[operation] | _union(self._home(v) for v in operation.reads)
            for value in operation.reads:
                if self.partial[value] or self.made_up[value] or any(self.beyond[v] for v in operation.reads):
                    add(value, together)
            if self.program.factors[operation].exchanged:
                add(operation.outputs[0], together)
        return dict(found)

    def _known(self) -> tuple[int, ...]:
        return tuple(sum(map(len, known.values())) for known in (self.partial, self.beyond, self.wanted))

    def _home(self, value: int) -> Dims:
        """The dims that decide in which spec a value is made."""
        partial = self.partial[value]
        return self.names[value] | self.beyond[value] | partial | (self.wanted[value] if partial else _NONE)

    def _may_be_zero(self) -> set[Input]:
        """Values that are zero, and carries that start from zero: those may be partial for free."""
        found: set[Input] = set(self.program.uniform[1])
        for operation in self.operations:
            if operation.name in LOOPS and operation.body is not None:
                starts = zip(operation.inputs, operation.body.inputs, strict=True)
                found.update(b for a, b in starts if (a in found if isinstance(a, int) else a.is_zero))
        return found

    def _zero(self, value: Input) -> bool:
        return value in self.zeros if isinstance(value, int) else value.is_zero

    # One operation

    def _operation(self, operation: Operation, factors: Factors):
        name, reads = operation.name, operation.reads
        fill = name == "iota" or (name == "broadcast_in_dim" and operation.outputs[0] in self.program.uniform[0])
        if fill:
            return
        arriving = _union(self._home(v) for v in reads)
        partial = self.touched[operation] | arriving if factors.summed else _NONE
        for value in self._let_through(operation, factors):
            if self.partial[value]:
                partial |= self.touched[operation] | _union(self.partial[v] | self.beyond[v] for v in reads)
        for value in operation.outputs:
            self.partial[value] |= partial
            survives = factors.survivors != frozenset() and any(self.beyond[v] for v in reads)
            if self.made_up[value] or survives:
                self.beyond[value] |= (self.touched[operation] | arriving) - self.names[value]

    def _let_through(self, operation: Operation, factors: Factors) -> Iterable[int]:
        """The operands that may stay partial sums through an operation."""
        inputs = operation.inputs
        for position, value in enumerate(inputs):
            if not isinstance(value, int) or self.program.uses[value] != 1:
                continue
            others = factors.with_others((position,))
            if others is not None and all(self._zero(v) or self._is_partial(v) for v in (inputs[i] for i in others)):
                yield value

    def _is_partial(self, value: Input) -> bool:
        return isinstance(value, int) and bool(self.partial[value])

    # Blocks

    def _branches(self, operation: Operation):
        for branch in operation.blocks:
            for made, after in zip(branch.outputs, operation.outputs, strict=True):
                if isinstance(made, int):
                    self.beyond[after] |= self._home(made)
                    self.partial[after] |= self.partial[made]

    def _loop(self, operation: Operation):
        body, count = operation.blocks[0], carried(operation)
        for outer, inner, made, after in zip(
            operation.inputs[:count], body.inputs, body.outputs, operation.outputs, strict=False
        ):
            slot = [v for v in (outer, inner, made, after) if isinstance(v, int)]
            beyond = _union(self.beyond[v] for v in slot)
            for value in slot:
                self.beyond[value] |= beyond
            if self._zero(outer) and self.program.uses[inner] == 1 and isinstance(made, int):
                self.partial[inner] |= self.partial[made]
                self.partial[after] |= self.partial[made]
        for outer, inner in zip(operation.inputs[count:], body.inputs[count:], strict=True):
            if isinstance(outer, int):
                self.beyond[inner] |= self._changed(outer)
        for made, after in zip(body.outputs[count:], operation.outputs[count:], strict=True):
            if isinstance(made, int):
                self.beyond[after] |= self._changed(made)
                self.partial[after] |= self.partial[made] | (self.names[made] if self.partial[made] else _NONE)

    def _barrier(self, operation: Operation):
        body = operation.body
        assert body is not None
        for outer, inner in zip(operation.inputs, body.inputs, strict=True):
            if isinstance(outer, int):
                self.beyond[inner] |= self._changed(outer)
                if self.program.uses[inner] == 1 and self.program.uses[outer] == 1:
                    self.partial[inner] |= self.partial[outer]
        for made, after in zip(body.outputs, operation.outputs, strict=True):
            if isinstance(made, int):
                self.beyond[after] |= self._changed(made)
                self.partial[after] |= self.partial[made]

    def _changed(self, value: int) -> Dims:
        """The dims, apart from its own, that decide how a value lies once its sum is resolved."""
        wanted = self.wanted[value] - self.names[value]
        return self.beyond[value] | (wanted | self.partial[value] if wanted and self.partial[value] else _NONE)

    # Wants

    def _wants(self, operation: Operation):
        if not operation.blocks:
            factors = self.program.factors[operation]
            plain = factors.survivors is None and not (factors.summed or factors.exchanged or factors.unsharded)
            if plain and len(operation.outputs) == 1:
                for value in operation.reads:
                    self._want(value, self.wanted[operation.outputs[0]])
            return
        for block in operation.blocks[: None if operation.name == "cond" else 1]:
            for outer, inner in zip(operation.outputs, block.outputs, strict=True):
                self._want(inner, self.wanted[outer])
            count = carried(operation) if operation.name in LOOPS else 0
            for inner, made in zip(block.inputs[:count], block.outputs[:count], strict=True):
                self._want(made, self.wanted[inner])
            for outer, inner in zip(operation.inputs, block.inputs, strict=False):
                self._want(outer, self.wanted[inner])

    def _want(self, value: Input, dims: Dims):
        if isinstance(value, int):
            self.wanted[value] |= dims if self.made_up[value] else dims & self.names[value]


def _bound(operation: Operation) -> Iterator[tuple[Input, Input]]:
    """The values around an operation's blocks, each with the value inside that it is or becomes."""
    for block in operation.blocks:
        if operation.name != "cond":
            yield from zip(operation.inputs, block.inputs, strict=True)
        if len(block.outputs) == len(operation.outputs):
            yield from zip(block.outputs, operation.outputs, strict=True)


def _union(sets: Iterable[Dims]) -> Dims:
    return frozenset().union(*sets)
