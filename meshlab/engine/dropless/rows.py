"""Finds rows that are sorted by expert: what `ml.dispatch` makes, written with a sort and ragged matmuls.

    order = argsort(choice.ravel())                        a sort of choices, with their numbers
    rows  = x[order // k]                                  tokens become rows           sent
    made  = ragged_dot(act(ragged_dot(rows, up, sizes)), down, sizes)
    y     = made[argsort(order)].reshape(t, k, d)          rows become choices          collected
    y     = zeros.at[order // k].add(made)                 rows become tokens           collected, and summed

The gradient of each such move is another. Which move it is follows from what its indices hold (`elements.py`). Between
moves rows are computed one by one: element by element, or along other axes. Where anything else reads them all stays as
it is. All of it is in one block, forward and backward alike: a layer that is computed again has both.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np

from ..code.operations import Block, Code, Operation, every_block, walk
from ..rules import ELEMENTWISE, TRAITS
from .elements import Elements, Makers, counts_each

# The kinds of operations, beside elementwise ones, that rows pass through if their own axis stays in front.
_PASSING = ("broadcast", "bitcast", "move", "concatenate", "reduce")
# What leaves choices what they are.
_ALIKE = ("reshape", "convert_element_type")


class Move(NamedTuple):
    """An operation that makes rows of tokens or choices, or these of rows.

    Attributes:
        collects: whether it makes tokens or choices of rows.
        of_tokens: whether they are tokens, which stand for all their choices, and not these.
        moved: what is moved.
    """

    collects: bool
    of_tokens: bool
    moved: int


@dataclasses.dataclass(frozen=True)
class Sorted:
    """Rows of one block that are sorted by expert.

    Attributes:
        sort: the operation that sorts choices.
        choice: the experts of each token, [*tokens, k]; [*tokens] if `k` is 0.
        k: how many each token has; 0 where it has no axis for them.
        experts: how many there are.
        weights: the matrices of the first matmul, of which the first axis is the experts'.
        operations: those that make or read rows, in order.
        moves: those of them that move rows.
        alike: what broadcasts values that rows meet, and that are the same for all of them.
    """

    sort: Operation
    choice: int
    k: int
    experts: int
    weights: int
    operations: tuple[Operation, ...]
    moves: dict[Operation, Move]
    alike: dict[int, Operation]


def found(code: Code) -> list[Sorted]:
    """Returns all rows of a program that are sorted by expert."""
    makers = {out: operation for operation in walk(code.block) for out in operation.outputs}
    return [rows for block in every_block(code.block) for rows in _in(code, makers, block)]


def _in(code: Code, makers: Makers, block: Block) -> Iterator[Sorted]:
    if not any(operation.name == "ragged_dot_general" for operation in block.operations):
        return
    for sort in block.operations:
        if sort.name == "sort" and _counts_along(code, makers, sort):
            rows = _Search(code, makers, block, sort).found()
            if rows is not None:
                yield rows


def _counts_along(code: Code, makers: Makers, sort: Operation) -> bool:
    """Whether a sort returns the order of one list."""
    if len(sort.inputs) != 2 or sort.params["num_keys"] != 1 or not all(isinstance(i, int) for i in sort.inputs):
        return False
    maker = makers.get(sort.inputs[1])  # pyright: ignore[reportArgumentType]: both are values
    return len(code.shape_of(sort.inputs[0])) == 1 and maker is not None and maker.name == "iota"


class _Search:
    """One walk over a block, for the rows of one sort."""

    def __init__(self, code: Code, makers: Makers, block: Block, sort: Operation):
        self.code, self.makers, self.block, self.sort = code, makers, block, sort
        self.order = sort.outputs[1]
        (self.count,) = code.shapes[self.order]
        self.flat = sort.inputs[0]
        assert isinstance(self.flat, int)
        self.choices = self._shapes_of_choice(self.flat)
        self.numbers = np.arange(self.count, dtype=code.dtypes[self.order])
        self.of_order = Elements(code, makers, {self.order: self.numbers[:, None]})
        self.inverses = Elements(code, makers, {value: self.numbers[:, None] for value in self._inverses()})
        self.moves: dict[Operation, Move] = {}
        self.operations: list[Operation] = []
        self.alike: dict[int, Operation] = {}
        self.rows: set[int] = set()
        self.counted: dict[int, bool] = {}
        self.weights: list[int] = []
        self.experts = 0

    def found(self) -> Sorted | None:
        """Returns the rows; None where they are read by what needs their order, or were never multiplied."""
        for operation in self.block.operations:
            move = self._move(operation)
            if move is not None and (move.moved in self.rows or not move.collects):
                self.moves[operation] = move
                self.operations.append(operation)
                if not move.collects:
                    self.rows.update(operation.outputs)
            elif not self.rows.isdisjoint(operation.reads):
                if not self._passes(operation):
                    return None
                self.operations.append(operation)
        if not self.weights or any(value in self.rows for value in self.block.outputs):
            return None
        if not any(move.collects for move in self.moves.values()) or not all(map(self._holds_experts, self.choices)):
            return None
        choice, k = self._choice()
        if any(move.of_tokens for move in self.moves.values()) and self._k() not in (None, k or 1):
            return None
        found = tuple(self.operations), self.moves, self.alike
        return Sorted(self.sort, choice, k, self.experts, self.weights[0], *found)

    # Choices

    def _shapes_of_choice(self, flat: int) -> list[int]:
        """Returns the list of choices, and what it is a reshape of, whatever whole numbers these are."""
        values, maker = [flat], self.makers.get(flat)
        while maker is not None and maker.name in _ALIKE and isinstance(maker.inputs[0], int):
            values.append(maker.inputs[0])
            maker = self.makers.get(values[-1])
        return values

    def _holds_experts(self, value: int) -> bool:
        dtype = self.code.dtypes[value]
        return np.issubdtype(dtype, np.integer) and np.iinfo(dtype).max >= self.experts - 1

    def _k(self) -> int | None:
        """Returns how many rows a token has, as moves of tokens say; None where none does."""
        sizes = {math.prod(self.code.shape_of(self._tokens(op))[:1]) for op, m in self.moves.items() if m.of_tokens}
        return self.count // sizes.pop() if len(sizes) == 1 else None

    def _tokens(self, operation: Operation) -> int:
        move = self.moves[operation]
        return operation.outputs[0] if move.collects else move.moved

    def _choice(self) -> tuple[int, int]:
        """Returns the choices with the axes of tokens, and how many there are for each; 0 where they have no axis."""
        k = self._k()
        for value in reversed(self.choices):
            shape = self.code.shapes[value]
            if len(shape) > 1 and (k is None or shape[-1] == k):
                return value, shape[-1]
        return self.choices[-1] if k == 1 else self.choices[0], 0

    def _inverses(self) -> Iterator[int]:
        """Yields the values that say where each choice stands among the rows."""
        for operation in self.block.operations:
            if operation.name == "sort" and _counts_along(self.code, self.makers, operation):
                if self._is_order(operation.inputs[0]):
                    yield operation.outputs[1]
            elif operation.name == "scatter" and self._puts_numbers(operation):
                yield operation.outputs[0]

    def _is_order(self, value: object) -> bool:
        made = self.of_order[value] if isinstance(value, int) else None
        return made is not None and made.shape == (self.count, 1) and bool((made[:, 0] == self.numbers).all())

    def _puts_numbers(self, scatter: Operation) -> bool:
        """Whether a scatter writes at each place of the order which row that is."""
        _, indices, updates = scatter.inputs
        maker = self.makers.get(updates) if isinstance(updates, int) else None
        shape = self.code.shapes[scatter.outputs[0]]
        return maker is not None and maker.name == "iota" and shape == (self.count,) and self._is_order(indices)

    # Moves

    def _move(self, operation: Operation) -> Move | None:
        """Returns the move that an operation is; None for all others."""
        if operation.name not in ("gather", "scatter-add") or not _whole_rows(self.code, operation):
            return None
        array, indices = operation.inputs[:2]
        gathers = operation.name == "gather"
        moved = array if gathers else operation.inputs[2]
        if not isinstance(moved, int) or not isinstance(indices, int) or self.code.shapes[indices] != (self.count, 1):
            return None
        if not gathers and not self.of_order.is_zero(array):
            return None
        size = self.code.shape_of(array)[0] if gathers else self.code.shapes[operation.outputs[0]][0]
        at = self.of_order[indices]
        if at is not None and at.shape == (self.count, 1) and size and self.count % size == 0:
            if (at[:, 0] == self.numbers // (self.count // size)).all():
                return Move(not gathers, size != self.count, moved)
            return None
        at = self.inverses[indices]
        if at is not None and at.shape == (self.count, 1) and size == self.count and (at[:, 0] == self.numbers).all():
            return Move(gathers, of_tokens=False, moved=moved)
        return None

    # Between moves

    def _passes(self, operation: Operation) -> bool:
        """Whether an operation computes each row by itself; takes note of the rows that it makes."""
        if operation.name == "ragged_dot_general":
            return self._multiplies(operation)
        shapes = [self.code.shape_of(value) for value in operation.inputs]
        reads = [value in self.rows for value in operation.inputs]
        out = [self.code.shapes[value] for value in operation.outputs]
        if not all(shape[:1] == (self.count,) for shape in out):
            return False
        if operation.name in ELEMENTWISE:
            fits = all(row or self._alike_in_rows(v) for v, row in zip(operation.inputs, reads, strict=True))
        else:
            fits = reads[0] and _keeps_front(operation, self.count)
            fits &= all(row or not shape for row, shape in zip(reads, shapes, strict=True))
        self.rows.update(operation.outputs if fits else ())
        return fits

    def _alike_in_rows(self, value: object) -> bool:
        """Whether a value that is no row is the same for all of them."""
        if not isinstance(value, int) or (shape := self.code.shapes[value])[:1] in ((), (1,)):
            return True
        maker = self.makers.get(value)
        if maker is None or maker.name != "broadcast_in_dim" or shape[0] != self.count:
            return False
        self.alike[value] = maker
        return 0 not in tuple(map(int, maker.params["broadcast_dimensions"]))

    def _multiplies(self, operation: Operation) -> bool:
        """Whether a ragged matmul multiplies rows by the matrices of their experts, or is the gradient of those."""
        left, right, sizes = operation.inputs
        numbers = operation.params["ragged_dot_dimension_numbers"]
        over, riding = numbers.dot_dimension_numbers
        if left not in self.rows or not all(isinstance(each, int) for each in (right, sizes)) or any(riding):
            return False
        if operation.params["group_offset"] is not None or numbers.lhs_ragged_dimensions != (0,):
            return False
        if len(self.code.shape_of(left)) != 2:
            return False
        experts = self.code.shape_of(sizes)[0]
        if self.experts not in (0, experts) or not self._counts(sizes, experts):  # pyright: ignore[reportArgumentType]
            return False
        self.experts = experts
        if right in self.rows:
            return over == ((0,), (0,)) and not numbers.rhs_group_dimensions
        if tuple(over[0]) != (1,) or tuple(numbers.rhs_group_dimensions) != (0,) or len(self.code.shape_of(right)) != 3:
            return False
        self.weights.append(right)  # pyright: ignore[reportArgumentType]: it is a value
        self.rows.update(operation.outputs)
        return True

    def _counts(self, sizes: int, experts: int) -> bool:
        if sizes not in self.counted:
            self.counted[sizes] = counts_each(self.code, self.makers, sizes, self.choices, experts)
        return self.counted[sizes]


def _whole_rows(code: Code, operation: Operation) -> bool:
    """Whether a gather or scatter moves all of what has one number along the first axis, one number each."""
    numbers, shape = operation.params["dimension_numbers"], code.shape_of(operation.inputs[0])
    batched = numbers.operand_batching_dims
    if operation.name == "gather":
        sizes = tuple(operation.params["slice_sizes"]) == (1, *shape[1:])
        first, window, at = numbers.collapsed_slice_dims, numbers.offset_dims, numbers.start_index_map
    else:
        sizes = True
        first, window, at = (
            numbers.inserted_window_dims,
            numbers.update_window_dims,
            numbers.scatter_dims_to_operand_dims,
        )
    return (
        bool(shape)
        and not batched
        and sizes
        and tuple(first) == tuple(at) == (0,)
        and tuple(window) == tuple(range(1, len(shape)))
    )


def _keeps_front(operation: Operation, count: int) -> bool:
    """Whether an operation that is not elementwise leaves the first axis, of so many, as it is."""
    traits = TRAITS.get(operation.name)
    if traits is None or (traits.kind not in _PASSING and operation.name != "split"):
        return False
    said = {name: value for name, value in operation.params.items() if value is not None and name not in _SILENT}
    return set(said) <= set(_LEAVES) and all(_LEAVES[name](value, count) for name, value in said.items())


# Parameters that say nothing of the first axis, if the others leave it.
_SILENT = frozenset(("sizes", "sharding", "out_sharding", "index_dtype", "reverse"))
# What of parameters that speak of axes leaves the first one, of so many, as it is.
_LEAVES: Mapping[str, Callable[[Any, int], bool]] = {
    "shape": lambda value, count: value[0] == count,
    "new_sizes": lambda value, count: value[:1] == (count,),
    "broadcast_dimensions": lambda value, count: int(value[0]) == 0,
    "start_indices": lambda value, count: value[0] == 0,
    "limit_indices": lambda value, count: value[0] == count,
    "strides": lambda value, count: value[0] == 1,
    "padding_config": lambda value, count: tuple(value[0]) == (0, 0, 0),
    "permutation": lambda value, count: value[0] == 0,
    **dict.fromkeys(("dimension", "axis"), lambda value, count: value != 0),
    **dict.fromkeys(("dimensions", "axes"), lambda value, count: 0 not in value),
}
