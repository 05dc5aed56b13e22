"""A fingerprint of each operation: equal fingerprints are planned alike.

Two operations of one kind, whose operands have the same specs and the same target specs, are planned alike: they have
the same axes in common, the same dims on them, the same shapes. Which values they read is no part of the kind; nor is
the name of an axis that no layout can address (`~7`), nor most parameters, for factors stand for them.
"""

from __future__ import annotations

from collections.abc import Hashable

from ..code.loops import LOOPS, carried, trip_count
from ..code.operations import Block, Input, Literal, Operation
from ..passes.common_subexpressions import per_shard_key
from ..passes.terms import text
from .program import Program


class Kinds:
    """The kinds of a program's operations and values; equal numbers for equal kinds."""

    def __init__(self, program: Program):
        self.program = program
        self.numbers: dict[Hashable, int] = {}
        self.of_values: dict[int, int] = {}
        self.of_operations: dict[Operation, int] = {}

    def operation(self, operation: Operation) -> int:
        known = self.of_operations.get(operation)
        if known is None:
            known = self.of_operations[operation] = self._number(self._key(operation))
        return known

    def value(self, value: Input) -> int:
        if isinstance(value, Literal):
            return self._number(("literal", value.is_zero))
        known = self.of_values.get(value)
        if known is None:
            known = self.of_values[value] = self._number(self._facts(value))
        return known

    def _number(self, key: Hashable) -> int:
        return self.numbers.setdefault(key, len(self.numbers))

    def _facts(self, value: int) -> Hashable:
        program, (uniform, zeros) = self.program, self.program.uniform
        return (
            program.code.shapes[value],
            text(program.code.dtypes[value]),
            program.addressed[value],
            program.uses[value] == 1,
            value in uniform,
            value in zeros,
            value in program.materialisable,
            value in program.original_of,
        )

    def _key(self, operation: Operation) -> Hashable:
        inside = tuple(map(self._block, operation.blocks)) if operation.blocks else self._rule(operation)
        values = tuple(self.value(v) for v in (*operation.inputs, *operation.outputs))
        return (
            operation.name,
            operation.source,
            operation.backward,
            operation.rematerialised,
            self.program.scope_class(operation),
            len(operation.inputs),
            values,
            inside,
            ((carried(operation), trip_count(operation)) if operation.name in LOOPS else ()),
        )

    def _block(self, block: Block) -> Hashable:
        values = tuple(self.value(v) for v in (*block.inputs, *block.outputs))
        return (len(block.inputs), values, tuple(map(self.operation, block.operations)))

    def _rule(self, operation: Operation) -> Hashable:
        program, factors = self.program, self.program.factors[operation]
        details: Hashable = ()
        if operation.name in ("rename", "tag"):
            details = tuple(operation.params.values())
        elif factors.per_shard:
            # The communication of a per-shard implementation depends on all parameters and literals.
            details = per_shard_key(operation)
        return (id(factors), id(program.factor_dims[operation]), details)  # equal ones are one object
