"""Says what an array of whole numbers holds, as a function of another, which is computed for all that this may hold.

    order // k, as JAX writes it with signs        of order = 0, 1, 2, 3 …    0, 0, 1, 1 …   the token
    where(order < 0, order + n, order)             of order = 0, 1, 2, 3 …    0, 1, 2, 3 …   the order itself
    one_hot(choice)                                of choice = 0, 1, 2 …      1 where it is that expert

So no spelling needs a pattern of its own. What is computed element by element is known for all arrays when it is known
for each number that an element may be.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ..code.computed import computed
from ..code.operations import Code, Input, Literal, Operation
from ..rules import ELEMENTWISE, TRAITS

Makers = Mapping[int, Operation]


class Elements:
    """What values hold, as a function of one of them.

    Args:
        code: the program's.
        makers: what makes each of its values.
        of: the values that are known, each a column of all that its elements may be.
        columns: how many numbers there are along a row: what counts along a last axis of so many; 0 for none.
    """

    def __init__(self, code: Code, makers: Makers, of: Mapping[int, Any], columns: int = 0):
        self.code, self.columns, self.makers = code, columns, makers
        self.known: dict[int, Any] = dict(of)

    def __getitem__(self, value: Input) -> Any:
        """The elements of a value: a number, a column, a row, or both; None where they are no such function."""
        if isinstance(value, Literal):
            return np.asarray(value.value)
        if value not in self.known:
            maker = self.makers.get(value)
            self.known[value] = None if maker is None else self._made(maker, value)
        return self.known[value]

    def is_zero(self, value: Input) -> bool:
        """Whether a value is zero everywhere, whatever the other holds."""
        made = self[value]
        return made is not None and made.ndim == 0 and not np.any(made)

    def _made(self, maker: Operation, value: int) -> Any:
        shape = self.code.shapes[value]
        if maker.name == "iota":
            along = maker.params["dimension"] == len(shape) - 1 and shape[-1] == self.columns
            return np.arange(self.columns, dtype=self.code.dtypes[value])[None, :] if along else None
        operands = [self[each] for each in maker.inputs]
        if any(each is None for each in operands):
            return None
        if maker.name not in TRAITS:
            return None
        if maker.name in ELEMENTWISE:
            return computed(maker, operands)
        if TRAITS[maker.name].kind == "bitcast":
            return operands[0] if self._same_rows(maker.inputs[0], shape, operands[0]) else None
        if maker.name == "broadcast_in_dim":
            return operands[0] if self._in_place(maker, operands[0]) else None
        return None

    def _same_rows(self, operand: Input, shape: Sequence[int], elements: Any) -> bool:
        """Whether a reshape leaves rows as they are."""
        return elements.ndim < 2 or elements.shape[1] == 1 or self.code.shape_of(operand)[-1:] == tuple(shape[-1:])

    def _in_place(self, maker: Operation, elements: Any) -> bool:
        """Whether a broadcast leaves a column's elements in front, and a row's at the end."""
        if elements.ndim == 0:
            return True
        has, places = self.code.shape_of(maker.inputs[0]), maker.params["broadcast_dimensions"]
        rank = len(self.code.shapes[maker.outputs[0]])
        real = [(axis, int(place)) for axis, (size, place) in enumerate(zip(has, places, strict=True)) if size != 1]
        if elements.shape[0] == 1:
            return [place for _, place in real] == [rank - 1]
        return all(axis == place for axis, place in real)


def counts_each(code: Code, makers: Makers, value: int, choices: Sequence[int], experts: int) -> bool:
    """Whether an array, [experts], says how often each number below `experts` is in the choices.

    Args:
        code: the program's.
        makers: what makes each of its values.
        value: the array.
        choices: the same numbers in several shapes.
        experts: how many there are.
    """
    if code.shapes[value] != (experts,):
        return False
    column = np.arange(experts)[:, None]
    elements = Elements(code, makers, dict.fromkeys(choices, column), columns=experts)
    count = math.prod(code.shapes[choices[0]])
    maker = makers.get(value)
    while maker is not None and maker.name == "convert_element_type" and isinstance(maker.inputs[0], int):
        maker = makers.get(maker.inputs[0])
    if maker is None:
        return False
    if maker.name == "reduce_sum":
        table = maker.inputs[0]
        shape = code.shape_of(table)
        every = tuple(maker.params["axes"]) == tuple(range(len(shape) - 1))
        made = elements[table] if every and math.prod(shape) == count * experts else None
        return made is not None and made.shape == (experts, experts) and bool((made == np.eye(experts)).all())
    if maker.name == "scatter-add":
        array, indices, updates = maker.inputs
        at, one = elements[indices], elements[updates]
        if at is None or one is None or not elements.is_zero(array) or math.prod(code.shape_of(indices)) != count:
            return False
        numbers = maker.params["dimension_numbers"]
        scalars = not numbers.update_window_dims and numbers.scatter_dims_to_operand_dims == (0,)
        return scalars and at.shape == column.shape and bool((at == column).all()) and one.ndim == 0 and one == 1
    return False
