"""Sharing: what is computed twice is computed once, and what is there already, or known beforehand, is not computed.

A compiler merges equal expressions, in whatever way they are spelt (`terms`), and takes a loop that turns twice alike
for one; so must the plan, or it would count collectives that never run. It does not run what it knows not to be needed
either: a branch whose predicate is a constant, a loop without iterations. Operations behind the barrier of a `remat`
are never merged with those outside: that they run again is their purpose.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Hashable, Iterator, Mapping, Sequence, Set
from typing import Any

import numpy as np

from ..code.loops import LOOPS, carried, trip_count
from ..code.operations import Block, Code, Input, Literal, Operation
from ..jax_compat import REMAT, changed, has_effects
from ..rules import names_where
from . import rewrites
from .algebra import COMMUTATIVE
from .data_movement import REARRANGING
from .terms import Number, squeezed
from .value_terms import ValueTerms, told_params

# What only gives another shape: it is no less than a reshape of what it reads.
_SHAPING = names_where(lambda traits: traits.keeps and traits.kind in ("bitcast", "broadcast"))


@dataclasses.dataclass(frozen=True)
class Known:
    """What is there where a block is entered.

    Attributes:
        values: by the number of their term.
        nested: by what makes them equal, the results of loops and branches.
    """

    values: dict[Number, tuple[int, ...]] = dataclasses.field(default_factory=dict)
    nested: dict[Any, tuple[int, ...]] = dataclasses.field(default_factory=dict)

    def inside(self) -> Known:
        """What a block inside knows to begin with."""
        return Known(dict(self.values), dict(self.nested))

    def add(self, number: Number, value: int):
        """Takes note of a value."""
        self.values[number] = (*self.values.get(number, ()), value)


class Sharing:
    """Takes what need not be computed out of blocks.

    Args:
        code: whose blocks they are.
        names: the names of each value's axes, by number, or none: what is equal but for its names stays apart, since it
            is made for different dims (zeros of one shape, say).
    """

    def __init__(self, code: Code, names: Sequence[Any] = ()):
        self.shapes, self.dtypes, self.names = code.shapes, code.dtypes, names
        self.renamed: dict[int, Input] = {}
        self.makers: dict[int, Operation] = {}
        self.terms = ValueTerms(code)

    def read(self, value: Input) -> Input:
        """The value that is read in the place of one."""
        return self.renamed.get(value, value) if isinstance(value, int) else value

    def block(self, block: Block, known: Known) -> Block:
        """Returns a block without what is known by now, outside included."""
        known = known.inside()
        for value in block.inputs:
            known.add(self.terms.read(value), value)
        kept: list[Operation] = []
        self._operations(block.operations, known, kept)
        return Block(block.inputs, tuple(kept), tuple(map(self.read, block.outputs)))

    def is_there_twice(self, block: Block, moved: Set[int], known: Known) -> bool:
        """Whether a value that moved stands beside one of its term by now, in a block that was shared before."""
        known = known.inside()
        for operation in block.operations:
            for value in operation.outputs:
                number = self.terms.of[value]
                others = self._alike(value, number, known, unnamed=True)
                if any(value in moved or other in moved for other in others):
                    return True
                known.add(number, value)
            around = Known() if operation.name in REMAT else known
            if any(self.is_there_twice(inside, moved, around) for inside in operation.blocks):
                return True
        return False

    def _operations(self, operations: Sequence[Operation], known: Known, kept: list[Operation]):
        for found in operations:
            inputs = tuple([self.read(value) for value in found.inputs])
            operation = found if inputs == found.inputs else dataclasses.replace(found, inputs=inputs)
            if operation.blocks:
                self._nested(operation, known, kept)
            else:
                self._flat(_one_sum(operation, self.makers), known, kept)

    def _keep(self, operation: Operation, numbers: Sequence[Number], known: Known, kept: list[Operation]):
        kept.append(operation)
        self.makers.update(dict.fromkeys(operation.outputs, operation))
        for number, value in zip(numbers, operation.outputs, strict=True):
            known.add(number, value)

    # Operations without blocks

    def _flat(self, operation: Operation, known: Known, kept: list[Operation]):
        numbers = self.terms.write(operation)
        same = [self._there(operation, v, n, known) for v, n in zip(operation.outputs, numbers, strict=True)]
        if same and None not in same:
            self.renamed.update((v, s) for v, s in zip(operation.outputs, same, strict=True) if s is not None)
        else:
            self._keep(self._of_less(operation, numbers, known), numbers, known, kept)

    def _there(self, operation: Operation, value: int, number: Number, known: Known) -> Input | None:
        """What an output is already: an operand as it is, a number, or a value that was made before."""
        shape = self.shapes[value]
        for read in operation.reads:
            if self.terms.of[read] == number and self.shapes[read] == shape:
                return read
        found = self.terms.number_of(number)
        if found is not None and shape == ():
            return Literal(found)
        moved = operation.name in REARRANGING and self.terms.is_varying(number)
        return next((v for v in self._alike(value, number, known, moved) if self.shapes[v] == shape), None)

    def _alike(self, value: int, number: Number, known: Known, unnamed: bool = False) -> Iterator[int]:
        """The values of one term that have the axes and names of another, but for axes of size 1.

        Where `unnamed`, an axis without a name is one with any name: slices and concatenations give no names.
        """
        others = known.values.get(number)
        if others is None:
            return
        shape, called = squeezed(self.shapes[value]), self._called(value)
        for other in others:
            if squeezed(self.shapes[other]) == shape:
                names = zip(called, self._called(other), strict=True)
                if all(name == there or (unnamed and name is None) for name, there in names):
                    yield other

    def _called(self, value: int) -> tuple[Any, ...]:
        if not self.names:
            return ()
        names, shape = self.names[value], self.shapes[value]
        return tuple([name for name, size in zip(names, shape, strict=True) if size != 1]) if 1 in shape else names

    def _of_less(self, operation: Operation, numbers: Sequence[Number], known: Known) -> Operation:
        """The operation, or one that makes the same of less."""
        if len(numbers) != 1 or has_effects(operation.equation):
            return operation
        (number,), (value,) = numbers, operation.outputs
        found = self.terms.number_of(number)
        if found is None and self.terms.is_empty(number) and isinstance(self.dtypes[value], np.dtype):
            found = np.zeros((), self.dtypes[value])
        if found is not None:
            is_plain = operation.name == "broadcast_in_dim" and not operation.reads
            return operation if is_plain else rewrites.constant(operation, found)
        if operation.name in _SHAPING:
            return operation
        other = next(self._alike(value, number, known), None)
        return self._cut(operation, number, known) if other is None else self._reshaped(operation, other)

    def _reshaped(self, operation: Operation, value: int) -> Operation:
        return rewrites.reshape(operation, value, self.shapes[value])

    def _cut(self, operation: Operation, number: Number, known: Known) -> Operation:
        """A part of a part, or of one piece of several, as a part of the value itself."""
        part = self.terms.part(number) if operation.name in ("slice", "dynamic_slice") else None
        if part is None or self.terms.of[operation.reads[0]] == part[0]:
            return operation
        source, ranges = part
        rank = len(self.shapes[operation.outputs[0]])
        for value in known.values.get(source, ()):
            if len(self.shapes[value]) == len(ranges) == rank:
                return rewrites.cut(operation, value, self.shapes[value], ranges)
        return operation

    # Loops, branches, and what is recomputed

    def _nested(self, operation: Operation, known: Known, kept: list[Operation]):
        taken = self._taken(operation)
        if taken is not None:
            self._operations(taken.operations, known, kept)
            self.renamed.update(zip(operation.outputs, map(self.read, taken.outputs), strict=True))
            return
        if operation.name in LOOPS:
            if trip_count(operation) == 0:
                self._never(operation, known, kept)
                return
            self._rename_unchanged(operation)
            operation = self._with_slices(operation, known)
        around = Known() if operation.name in REMAT else known
        blocks = tuple(self.block(inside, around) for inside in operation.blocks)
        operation = self._stacked_once(dataclasses.replace(operation, blocks=blocks))
        key = key_of(operation, {}, self.names)
        if key is not None and key in known.nested:
            self.renamed.update(zip(operation.outputs, known.nested[key], strict=True))
            return
        if key is not None:
            known.nested[key] = operation.outputs
        self._keep(operation, self.terms.write(operation), known, kept)

    def _taken(self, operation: Operation) -> Block | None:
        """The branch of a `cond` that is always taken."""
        if operation.name != "cond":
            return None
        number = self.terms.number_of(self.terms.read_as(operation.inputs[0], np.int32))
        return None if number is None else operation.blocks[max(0, min(int(number), len(operation.blocks) - 1))]

    def _never(self, operation: Operation, known: Known, kept: list[Operation]):
        """A loop without iterations returns what comes in, and stacks nothing."""
        count = carried(operation)
        for value, given in zip(operation.outputs[:count], operation.inputs, strict=False):
            self.renamed[value] = (
                Literal(np.asarray(given.value, self.dtypes[value])) if isinstance(given, Literal) else given
            )
        for value in operation.outputs[count:]:
            made = rewrites.empty(operation, self._made(value))
            self._keep(made, self.terms.write(made), known, kept)

    def _rename_unchanged(self, operation: Operation):
        """What a loop carries and never changes is what came in: its blocks, and what follows, read that instead."""
        body = operation.blocks[0]
        for position in range(carried(operation)):
            if body.outputs[position] == body.inputs[position]:
                given = operation.inputs[position]
                self.renamed.update((block.inputs[position], given) for block in operation.blocks)
                self.renamed[operation.outputs[position]] = given

    def _with_slices(self, operation: Operation, known: Known) -> Operation:
        """What a scan slices is one value where it slices one; of what repeats along its axis it need not be sliced."""
        count, body = carried(operation), operation.blocks[0]
        made, kept = [], list(zip(operation.inputs[:count], body.inputs, strict=False))
        slices: dict[Input, int] = {}
        for value, inner in zip(operation.inputs[count:], body.inputs[count:], strict=True):
            repeated = self._repeated(operation, value, inner, known)
            first = slices.setdefault(value, inner)
            if isinstance(repeated, Operation):
                made.append(repeated)
            elif repeated is not None:
                self.renamed[inner] = repeated
            elif first != inner and self._called(first) == self._called(inner):
                self.renamed[inner] = first
            else:
                kept.append((value, inner))
        if len(kept) == len(body.inputs):
            return operation
        given, inside = zip(*kept, strict=True) if kept else ((), ())
        body = Block(tuple(inside), (*made, *body.operations), body.outputs)
        return dataclasses.replace(operation, inputs=tuple(given), blocks=(body,))

    def _repeated(self, operation: Operation, value: Input, inner: int, known: Known) -> Operation | Input | None:
        """What each slice of a value is, or what makes it, if all are alike."""
        if not isinstance(value, int):
            return None
        number = self.terms.of[value]
        found = self.terms.number_of(number)
        if found is not None:
            literal = Literal(found)
            return rewrites.repeat(operation, literal, (), (), self._made(inner)) if self.shapes[inner] else literal
        repeating = self.terms.repeating(number)
        if repeating is None or squeezed(self.shapes[value]) != self.shapes[value] or 0 in repeating[1]:
            return None
        source, axes = repeating
        for other in known.values.get(source, ()):
            if len(self.shapes[other]) == len(axes):
                behind = [axis - 1 for axis in axes]
                if self.shapes[other] == self.shapes[inner]:
                    return other
                return rewrites.repeat(operation, other, self.shapes[other], behind, self._made(inner))
        return None

    def _made(self, value: int) -> rewrites.Made:
        return rewrites.Made(value, self.shapes[value], self.dtypes[value])

    def _stacked_once(self, operation: Operation) -> Operation:
        """Of what a scan stacks several times the first stack is all of them."""
        if operation.name != "scan":
            return operation
        body, count = operation.blocks[0], carried(operation)
        first: dict[Input, int] = {}
        kept = []
        for position, (value, stack) in enumerate(zip(body.outputs, operation.outputs, strict=True)):
            same = first.get(value) if position >= count and isinstance(value, int) else None
            if same is not None and self._called(same) == self._called(stack):
                self.renamed[stack] = same
                continue
            if position >= count and isinstance(value, int):
                first[value] = stack
            kept.append((value, stack))
        made, stacks = zip(*kept, strict=True) if kept else ((), ())
        body = Block(body.inputs, body.operations, tuple(made))
        return dataclasses.replace(operation, outputs=tuple(stacks), blocks=(body, *operation.blocks[1:]))


def _one_sum(operation: Operation, makers: Mapping[int, Operation]) -> Operation:
    """A sum of a sum is one sum over the axes of both, as XLA makes it."""
    value = operation.inputs[0] if operation.name == "reduce_sum" else None
    maker = makers.get(value) if isinstance(value, int) else None
    if maker is None or maker.name != "reduce_sum":
        return operation
    source = maker.equation.invars[0]
    kept = [axis for axis in range(source.aval.ndim) if axis not in maker.params["axes"]]
    axes = sorted({*maker.params["axes"], *(kept[axis] for axis in operation.params["axes"])})
    equation = changed(operation.equation, invars=[source], params=operation.params | {"axes": tuple(axes)})
    return dataclasses.replace(operation, equation=equation, inputs=maker.inputs)


def key_of(operation: Operation, inner: Mapping[int, int], names: Sequence[Any]):
    """What makes two operations equal, or None where they must not be merged.

    Args:
        operation: the operation, what it reads replaced by now.
        inner: for values of the block that is compared, their numbers counted from its start.
        names: the names of each value's axes.
    """
    if operation.name in REMAT or has_effects(operation.equation):
        return None
    inputs: tuple = tuple(_input_key(i, inner) for i in operation.inputs)
    if operation.name in COMMUTATIVE:
        inputs = tuple(sorted(inputs, key=str))
    params = told_params(operation.equation)
    blocks = tuple(_block_key(block, inner, names) for block in operation.blocks)
    called = tuple(names[o] for o in operation.outputs) if names else ()
    return None if params is None or None in blocks else (operation.name, inputs, params, blocks, called)


def form_key(operation: Operation) -> Hashable:
    """What the local form of an operation depends on but for shapes and specs: parameters, literals, equal operands."""
    return key_of(operation, {value: i for i, value in enumerate(operation.reads)}, ()) or operation


def _block_key(block: Block, inner: Mapping[int, int], names: Sequence[Any]):
    """What makes two blocks equal: the same operations on the same values, those made inside counted from the start."""
    numbers = dict(inner)
    for value in block.inputs:
        numbers[value] = len(numbers)
    keys = []
    for operation in block.operations:
        keys.append(key_of(operation, numbers, names))
        for value in operation.outputs:
            numbers[value] = len(numbers)
    outputs = tuple(_input_key(o, numbers) for o in block.outputs)
    return None if None in keys else (len(block.inputs), tuple(keys), outputs)


def _input_key(value: Input, inner: Mapping[int, int]):
    if isinstance(value, Literal):
        array = np.asarray(value.value)
        return (str(array.dtype), array.tobytes())
    return ("inner", inner[value]) if value in inner else value
