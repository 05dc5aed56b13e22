"""Puts the positions of attention in zig-zag order: what it reads enters that order, what it makes leaves it.

    out = attention(q, k, v)        q', k', v' = zigzag(q), zigzag(k), zigzag(v)
                                    out' = attention'(q', k', v');  out = zigzag back(out')

What has left the order and is read by attention again, as its gradient reads `out`, is read before it left.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence

from ..code.operations import Block, Code, Input, Operation
from ..jax_compat import changed
from ..tensors.attention import Attention
from ..tensors.zigzag import zigzag_p
from .rewrites import applied

# Returns the letters of an attention's positions that are to be in zig-zag order.
Letters = Callable[[Operation], str]


def with_borders(code: Code, wanted: Letters) -> tuple[Code, tuple[int, ...]]:
    """Returns the same code with borders around attention, and for each new value the one that it is another order of.

    Args:
        code: as it was traced.
        wanted: which positions of an attention are to be in zig-zag order.
    """
    putting = _Putting(code, wanted)
    block = putting.block(code.block)
    origins = tuple(putting.origins)
    shapes, dtypes = ((*of, *(of[each] for each in origins)) for of in (code.shapes, code.dtypes))
    return dataclasses.replace(code, block=block, shapes=shapes, dtypes=dtypes), origins


class _Putting:
    """One walk.

    Attributes:
        origins: for each new value one that it is another order of.
        left: for (value, axis) that has left the zig-zag order the value before.
    """

    def __init__(self, code: Code, wanted: Letters):
        self.code, self.wanted = code, wanted
        self.origins: list[int] = []
        self.left: dict[tuple[int, int], int] = {}

    def block(self, block: Block) -> Block:
        operations: list[Operation] = []
        for operation in block.operations:
            letters = self.wanted(operation)
            if letters:
                operations += self.bordered(operation, letters)
            else:
                blocks = tuple(map(self.block, operation.blocks))
                operations.append(dataclasses.replace(operation, blocks=blocks) if blocks else operation)
        return Block(block.inputs, tuple(operations), block.outputs)

    def bordered(self, operation: Operation, letters: str) -> list[Operation]:
        """Returns an attention, or its gradient, between what brings operands into the order and results out of it."""
        how: Attention = operation.params["how"]
        operands, results = how.axes_of(operation.name)
        before, after = list[Operation](), list[Operation]()
        inputs = [
            self.entered(operation, value, _along(axes, letters), before)
            for value, axes in zip(operation.inputs, operands, strict=True)
        ]
        outputs = [
            self.leaving(operation, value, _along(axes, letters), after)
            for value, axes in zip(operation.outputs, results, strict=True)
        ]
        params = operation.params | {"how": dataclasses.replace(how, zigzag=letters)}
        equation = changed(operation.equation, params=params)
        within = dataclasses.replace(operation, equation=equation, inputs=tuple(inputs), outputs=tuple(outputs))
        return [*before, within, *after]

    def entered(self, line: Operation, value: Input, axes: Sequence[int], steps: list[Operation]) -> Input:
        for axis in axes:
            if isinstance(value, int):
                known = self.left.get((value, axis))
                if known is None:
                    known = self.new(value)
                    steps.append(self.border(line, value, known, axis, back=False))
                value = known
        return value

    def leaving(self, line: Operation, value: int, axes: Sequence[int], steps: list[Operation]) -> int:
        """Returns the value that is made in the order in place of one that leaves it."""
        for axis in axes:
            inside = self.new(value)
            steps.insert(0, self.border(line, inside, value, axis, back=True))
            self.left[value, axis] = inside
            value = inside
        return value

    def new(self, value: int) -> int:
        known = len(self.code.shapes)
        self.origins.append(value if value < known else self.origins[value - known])
        return known + len(self.origins) - 1

    def border(self, line: Operation, value: int, made: int, axis: int, back: bool) -> Operation:
        origin = self.origins[max(value, made) - len(self.code.shapes)]
        shape, dtype = self.code.shapes[origin], self.code.dtypes[origin]
        return applied(line, lambda x: zigzag_p.bind(x, axis=axis, back=back), (value, shape, dtype), made)


def _along(axes: str, letters: str) -> list[int]:
    return [axes.index(letter) for letter in letters if letter in axes]
