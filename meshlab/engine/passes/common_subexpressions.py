"""Eliminates common subexpressions, and operations that return an operand or a constant.

A compiler merges equal expressions and equal loops; so must the plan, or it would count collectives that never run. It
knows some spellings of one value (`terms`). It also takes out branches whose predicate is a constant, and loops without
iterations. Operations behind the barrier of a `remat` are never merged with those outside: that they run again is their
purpose.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence, Set
from typing import Any

import numpy as np

from ..code.loops import LOOPS, carried, trip_count
from ..code.operations import Block, Code, Input, Literal, Operation, walk
from ..jax_compat import REMAT, changed, has_effects
from ..rules import names_where
from . import rewrites
from .identities import COMMUTATIVE
from .terms import Number, squeezed
from .value_terms import ValueTerms, params_key

# Primitives that only change the shape: to replace one by a reshape gains nothing.
_SHAPING = names_where(lambda traits: traits.keeps and traits.kind in ("bitcast", "broadcast"))
_MOVING = names_where(lambda traits: traits.kind in ("bitcast", "concatenate", "move", "reduce"))


@dataclasses.dataclass(frozen=True)
class Available:
    """Holds the values that are available at some place of a program.

    Attributes:
        values: the values of each term, by its number.
        nested: the loops and branches, by their key (`key_of`).
    """

    values: dict[Number, tuple[int, ...]] = dataclasses.field(default_factory=dict)
    nested: dict[Any, Operation] = dataclasses.field(default_factory=dict)

    def copy(self) -> Available:
        """Returns a copy, to which a block inside adds its own values."""
        return Available(dict(self.values), dict(self.nested))

    def add(self, number: Number, value: int):
        self.values[number] = (*self.values.get(number, ()), value)


ClassOf = Callable[[Operation], Hashable]


def of_one_class(_operation: Operation) -> Hashable:
    return ()


class Eliminator:
    """Removes operations from blocks whose results are available already.

    Args:
        code: the program's.
        names: the names of each value's axes, by number, or none: values that differ in their names alone are not
            merged, since they are for different dims (zeros of one shape, say).
        class_of: a class for each operation: those of different classes are not merged.

    Attributes:
        merged: pairs of operations that were taken for equal, since they are of one class: the code is the same under
            any classes that part none of them.
    """

    def __init__(self, code: Code, names: Sequence[Any] = (), class_of: ClassOf = of_one_class):
        self.shapes, self.dtypes, self.names, self.class_of = code.shapes, code.dtypes, names, class_of
        self.merged: dict[tuple[Operation, Operation], None] = {}
        # The operation that makes each value; none for an argument, which equals what any would make.
        self.met: dict[int, Operation] = {}
        self.renamed: dict[int, Input] = {}
        self.producers: dict[int, Operation] = {}
        self.terms = ValueTerms(code)

    def read(self, value: Input) -> Input:
        """Returns the value that is read in the place of another."""
        return self.renamed.get(value, value) if isinstance(value, int) else value

    def block(self, block: Block, known: Available) -> Block:
        """Returns a block without operations whose results are available, in it or around it."""
        known = known.copy()
        for value in block.inputs:
            known.add(self.terms.read(value), value)
        remaining: list[Operation] = []
        self._operations(block.operations, known, remaining)
        return Block(block.inputs, tuple(remaining), tuple(map(self.read, block.outputs)))

    def has_duplicates(self, block: Block, moved: Set[int], known: Available) -> bool:
        """Says whether a value that moved stands by now beside another of its term."""
        known = known.copy()
        for operation in block.operations:
            for value in operation.outputs:
                number = self.terms.of[value]
                others = self._alike(operation, value, number, known, unnamed=True)
                if any(value in moved or other in moved for other in others):
                    return True
                known.add(number, value)
            around = Available() if operation.name in REMAT else known
            if any(self.has_duplicates(inside, moved, around) for inside in operation.blocks):
                return True
        return False

    def _operations(self, operations: Sequence[Operation], known: Available, remaining: list[Operation]):
        for original in operations:
            inputs = tuple([self.read(value) for value in original.inputs])
            operation = original if inputs == original.inputs else dataclasses.replace(original, inputs=inputs)
            if operation.blocks:
                self._nested(operation, known, remaining)
            else:
                self._flat(self._merged_sum(operation), known, remaining)

    def _merged_sum(self, operation: Operation) -> Operation:
        """Merges a sum of a sum into one sum over the axes of both, as XLA does."""
        value = operation.inputs[0] if operation.name == "reduce_sum" else None
        inner = self.producers.get(value) if isinstance(value, int) else None
        if inner is None or inner.name != "reduce_sum" or not self._is_of_one_class(operation, inner):
            return operation
        source = inner.equation.invars[0]
        remaining = [axis for axis in range(source.aval.ndim) if axis not in inner.params["axes"]]
        axes = sorted({*inner.params["axes"], *(remaining[axis] for axis in operation.params["axes"])})
        equation = changed(operation.equation, invars=[source], params=operation.params | {"axes": tuple(axes)})
        return dataclasses.replace(operation, equation=equation, inputs=inner.inputs)

    def _keep(self, operation: Operation, numbers: Sequence[Number], known: Available, remaining: list[Operation]):
        remaining.append(operation)
        self.producers.update(dict.fromkeys(operation.outputs, operation))
        for number, value in zip(numbers, operation.outputs, strict=True):
            known.add(number, value)

    # Operations without blocks

    def _flat(self, operation: Operation, known: Available, remaining: list[Operation]):
        self.met.update(dict.fromkeys(operation.outputs, operation))
        numbers = self.terms.write(operation)
        same = [self._same(operation, v, n, known) for v, n in zip(operation.outputs, numbers, strict=True)]
        if same and None not in same:
            self.renamed.update((v, s) for v, s in zip(operation.outputs, same, strict=True) if s is not None)
        else:
            self._keep(self._simplified(operation, numbers, known), numbers, known, remaining)

    def _same(self, operation: Operation, value: int, number: Number, known: Available) -> Input | None:
        """Returns an input that equals an output: an operand, a number, or an available value; None without any."""
        shape = self.shapes[value]
        for read in operation.reads:
            if self.terms.of[read] == number and self.shapes[read] == shape:
                return read
        constant = self.terms.number_of(number)
        if constant is not None and shape == ():
            return Literal(constant)
        moved = operation.name in _MOVING and not self.terms.is_repeated(number)
        return next((v for v in self._alike(operation, value, number, known, moved) if self.shapes[v] == shape), None)

    def _alike(
        self, operation: Operation, value: int, number: Number, known: Available, unnamed: bool = False
    ) -> Iterator[int]:
        """Yields the available values of a term that have the axes and names of an output, but for axes of size 1.

        Where `unnamed`, an axis without a name equals one of any name: slices and concatenations give no names.
        """
        others = known.values.get(number)
        if others is None:
            return
        shape, own = squeezed(self.shapes[value]), self._names(value)
        for other in others:
            if squeezed(self.shapes[other]) == shape:
                names = zip(own, self._names(other), strict=True)
                same = all(name == there or (unnamed and name is None) for name, there in names)
                if same and self._is_of_one_class(operation, self.met.get(other)):
                    yield other

    def _is_of_one_class(self, operation: Operation, other: Operation | None) -> bool:
        """Says whether equal operations are of one class, and takes note of them if so."""
        if other is None or other is operation:
            return True
        one_class = self.class_of(operation) == self.class_of(other)
        if one_class:
            self.merged[operation, other] = None
        return one_class

    def _names(self, value: int) -> tuple[Any, ...]:
        if not self.names:
            return ()
        names, shape = self.names[value], self.shapes[value]
        return tuple([name for name, size in zip(names, shape, strict=True) if size != 1]) if 1 in shape else names

    def _simplified(self, operation: Operation, numbers: Sequence[Number], known: Available) -> Operation:
        """Returns the operation, or a constant or reshape that computes the same."""
        if len(numbers) != 1 or has_effects(operation.equation):
            return operation
        (number,), (value,) = numbers, operation.outputs
        constant = self.terms.number_of(number)
        if constant is not None:
            is_plain = operation.name == "broadcast_in_dim" and not operation.reads
            return operation if is_plain else rewrites.constant(operation, constant)
        other = None if operation.name in _SHAPING else next(self._alike(operation, value, number, known), None)
        return operation if other is None else rewrites.reshape(operation, other, self.shapes[other])

    # Loops, branches and rematerialised regions

    def _nested(self, operation: Operation, known: Available, remaining: list[Operation]):
        branch = self._taken_branch(operation)
        if branch is not None:
            self._operations(branch.operations, known, remaining)
            self.renamed.update(zip(operation.outputs, map(self.read, branch.outputs), strict=True))
            return
        if operation.name in LOOPS:
            if trip_count(operation) == 0:
                self._replace_empty_loop(operation, known, remaining)
                return
            self._rename_constant_carries(operation)
        around = Available() if operation.name in REMAT else known
        blocks = tuple(self.block(inside, around) for inside in operation.blocks)
        operation = dataclasses.replace(operation, blocks=blocks)
        key = key_of(operation, {}, self.names, self.class_of)
        same = known.nested.get(key) if key is not None else None
        if same is not None:
            pairs = zip(walk(Block((), (operation,), ())), walk(Block((), (same,), ())), strict=True)
            self.merged.update(dict.fromkeys(pairs))
            self.renamed.update(zip(operation.outputs, same.outputs, strict=True))
            return
        if key is not None:
            known.nested[key] = operation
        self._keep(operation, self.terms.write(operation), known, remaining)

    def _taken_branch(self, operation: Operation) -> Block | None:
        """Returns the branch of a `cond` whose predicate is a constant."""
        if operation.name != "cond":
            return None
        number = self.terms.number_of(self.terms.read_as(operation.inputs[0], np.int32))
        return None if number is None else operation.blocks[max(0, min(int(number), len(operation.blocks) - 1))]

    def _replace_empty_loop(self, operation: Operation, known: Available, remaining: list[Operation]):
        """Replaces a loop without iterations by its initial carries and empty stacks."""
        count = carried(operation)
        for value, initial in zip(operation.outputs[:count], operation.inputs, strict=False):
            self.renamed[value] = (
                Literal(np.asarray(initial.value, self.dtypes[value])) if isinstance(initial, Literal) else initial
            )
        for value in operation.outputs[count:]:
            stack = rewrites.empty(operation, value, self.shapes[value], self.dtypes[value])
            self._keep(stack, self.terms.write(stack), known, remaining)

    def _rename_constant_carries(self, operation: Operation):
        """Renames carries that a loop never changes to their initial values, in its blocks and behind it."""
        body = operation.blocks[0]
        for position in range(carried(operation)):
            if body.outputs[position] == body.inputs[position]:
                initial = operation.inputs[position]
                self.renamed.update((block.inputs[position], initial) for block in operation.blocks)
                self.renamed[operation.outputs[position]] = initial


def key_of(
    operation: Operation, inner: Mapping[int, int], names: Sequence[Any], class_of: ClassOf = of_one_class
) -> Hashable | None:
    """Returns a key that equal operations share, or None where an operation must not be merged.

    Args:
        operation: the operation, which reads values that are merged already.
        inner: the values of the block that is compared, numbered from its start.
        names: the names of each value's axes.
        class_of: a class for each operation.
    """
    if operation.name in REMAT or has_effects(operation.equation):
        return None
    inputs: tuple = tuple(_input_key(i, inner) for i in operation.inputs)
    if operation.name in COMMUTATIVE:
        inputs = tuple(sorted(inputs, key=str))
    params = params_key(operation.equation)
    blocks = tuple(_block_key(block, inner, names, class_of) for block in operation.blocks)
    own = tuple(names[o] for o in operation.outputs) if names else (), class_of(operation)
    return None if params is None or None in blocks else (operation.name, inputs, params, blocks, *own)


def per_shard_key(operation: Operation) -> Hashable:
    """Returns the key of a per-shard implementation beside shapes and specs: parameters, literals, equal operands."""
    return key_of(operation, {value: i for i, value in enumerate(operation.reads)}, ()) or operation


def _block_key(block: Block, inner: Mapping[int, int], names: Sequence[Any], class_of: ClassOf):
    """Returns a key that equal blocks share: the same operations on the same values, inner ones numbered in order."""
    numbers = dict(inner)
    for value in block.inputs:
        numbers[value] = len(numbers)
    keys = []
    for operation in block.operations:
        keys.append(key_of(operation, numbers, names, class_of))
        for value in operation.outputs:
            numbers[value] = len(numbers)
    outputs = tuple(_input_key(o, numbers) for o in block.outputs)
    return None if None in keys else (len(block.inputs), tuple(keys), outputs)


def _input_key(value: Input, inner: Mapping[int, int]):
    if isinstance(value, Literal):
        array = np.asarray(value.value)
        return (str(array.dtype), array.tobytes())
    return ("inner", inner[value]) if value in inner else value
