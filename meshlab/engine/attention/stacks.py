"""Leaves out what comes into loops and regions, or is stacked by loops, where nothing reads it any more.

Of attention in a layer that is not computed again a loop stacks the weights, and their sums, for the backward pass.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import TypeVar

from ..code.loops import carried
from ..code.operations import Block, Operation, every_block, walk
from ..jax_compat import REMAT

Item = TypeVar("Item")


def without_stacks(block: Block) -> Block:
    """Returns a block whose loops and regions neither take nor stack what nothing reads."""
    read = {value for operation in walk(block) for value in operation.reads}
    read |= {value for each in every_block(block) for value in each.outputs if isinstance(value, int)}
    return _pruned(block, read)


def _pruned(block: Block, read: set[int]) -> Block:
    return Block(block.inputs, tuple(_without(operation, read) for operation in block.operations), block.outputs)


def _without(operation: Operation, read: set[int]) -> Operation:
    """Returns an operation without what it takes or stacks in vain, and the operations inside it likewise."""
    if not operation.blocks:
        return operation
    inside = tuple(_pruned(each, read) for each in operation.blocks)
    operation = dataclasses.replace(operation, blocks=inside)
    if operation.name != "scan" and operation.name not in REMAT:
        return operation
    body, scan = inside[0], operation.name == "scan"
    first = carried(operation) if scan else 0
    taken = [i for i, value in enumerate(body.inputs) if i < first or value in read]
    stacked = [i for i, value in enumerate(operation.outputs) if i < first or value in read or not scan]
    if len(taken) == len(body.inputs) and len(stacked) == len(operation.outputs):
        return operation
    body = Block(_some(body.inputs, taken), body.operations, _some(body.outputs, stacked))
    inputs, outputs = _some(operation.inputs, taken), _some(operation.outputs, stacked)
    return dataclasses.replace(operation, inputs=inputs, outputs=outputs, blocks=(body,))


def _some(items: Sequence[Item], places: Sequence[int]) -> tuple[Item, ...]:
    return tuple(items[place] for place in places)
