"""Gives every reader its own copy of a constant or iota.

A shared constant would unify the names of its readers' axes:

    labels = jnp.arange(n)
    loss(scores[images, texts], labels) + loss(scores.T, labels)

The positions of images are no positions of texts, though one `iota` says both. The same holds for zeros of one shape.
This runs before axes are named; `common_subexpressions` merges the copies that turn out to be named alike.
"""

from __future__ import annotations

import dataclasses

from ..code.operations import Block, Code, Operation
from ..rules import names_where

# Primitives that make a constant, or only change its shape or dtype.
_CONSTANT = names_where(
    lambda traits: (
        traits.kind == "constant" or (traits.keeps and traits.kind in ("broadcast", "bitcast", "elementwise"))
    )
)


def split_constants(code: Code) -> Code:
    splitter = _Splitter(code)
    block = splitter.block(code.block)
    return dataclasses.replace(code, block=block, shapes=tuple(splitter.shapes), dtypes=tuple(splitter.dtypes))


class _Splitter:
    """Holds the state of one walk: the constants' producers, which were read before, and all values so far."""

    def __init__(self, code: Code):
        self.shapes, self.dtypes = list(code.shapes), list(code.dtypes)
        self.producers: dict[int, Operation] = {}
        self.read: set[int] = set()

    def block(self, block: Block) -> Block:
        operations: list[Operation] = []
        for operation in block.operations:
            blocks = tuple(map(self.block, operation.blocks))
            inputs = tuple(
                self.copy_of(value, operations) if isinstance(value, int) and value in self.producers else value
                for value in operation.inputs
            )
            same = not blocks and inputs == operation.inputs
            operations.append(operation if same else dataclasses.replace(operation, inputs=inputs, blocks=blocks))
            if operation.name in _CONSTANT and all(value in self.producers for value in operation.reads):
                self.producers[operation.outputs[0]] = operation
        return Block(block.inputs, tuple(operations), block.outputs)

    def copy_of(self, value: int, operations: list[Operation]) -> int:
        """Returns the value itself to its first reader, and to others a copy, appended to the operations."""
        if value not in self.read:
            self.read.add(value)
            return value
        operation = self.producers[value]
        inputs = tuple(self.copy_of(i, operations) if isinstance(i, int) else i for i in operation.inputs)
        self.shapes.append(self.shapes[value])
        self.dtypes.append(self.dtypes[value])
        operations.append(dataclasses.replace(operation, inputs=inputs, outputs=(len(self.shapes) - 1,)))
        return len(self.shapes) - 1
