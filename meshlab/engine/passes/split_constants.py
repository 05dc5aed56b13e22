"""Apart: what costs nothing is made anew for each that reads it, so that it ties no names together.

    labels = jnp.arange(n)
    loss(scores[images, texts], labels) + loss(scores.T, labels)

The positions of images are no positions of texts, though one `iota` says both. The same holds for zeros of one shape.
It is done before axes are named; those that turn out to be named alike are one again in normal form.
"""

from __future__ import annotations

import dataclasses

from ..code.operations import Block, Code, Operation
from ..rules import names_where

# What makes something of nothing, or gives another shape or dtype to it.
_SHAPED = names_where(
    lambda traits: (
        traits.kind == "constant" or (traits.keeps and traits.kind in ("broadcast", "bitcast", "elementwise"))
    )
)


def apart(code: Code) -> Code:
    """Returns the same code, each reader of an iota or of a scalar that is broadcast with one of its own."""
    maker = _Maker(code)
    block = maker.block(code.block)
    return dataclasses.replace(code, block=block, shapes=tuple(maker.shapes), dtypes=tuple(maker.dtypes))


class _Maker:
    """The state of one walk: what costs nothing, whether it was read before, and the values so far."""

    def __init__(self, code: Code):
        self.shapes, self.dtypes = list(code.shapes), list(code.dtypes)
        self.free: dict[int, Operation] = {}
        self.read: set[int] = set()

    def block(self, block: Block) -> Block:
        made: list[Operation] = []
        for operation in block.operations:
            blocks = tuple(map(self.block, operation.blocks))
            inputs = tuple(
                self.own(value, made) if isinstance(value, int) and value in self.free else value
                for value in operation.inputs
            )
            made.append(dataclasses.replace(operation, inputs=inputs, blocks=blocks))
            if operation.name in _SHAPED and all(value in self.free for value in operation.reads):
                self.free[operation.outputs[0]] = operation
        return Block(block.inputs, tuple(made), block.outputs)

    def own(self, value: int, made: list[Operation]) -> int:
        """The value itself for the first that reads it; for others one like it, made here."""
        if value not in self.read:
            self.read.add(value)
            return value
        operation = self.free[value]
        inputs = tuple(self.own(i, made) if isinstance(i, int) else i for i in operation.inputs)
        self.shapes.append(self.shapes[value])
        self.dtypes.append(self.dtypes[value])
        made.append(dataclasses.replace(operation, inputs=inputs, outputs=(len(self.shapes) - 1,)))
        return len(self.shapes) - 1
