"""Brings a program into normal form, so that the plan counts only collectives that a compiler keeps.

XLA eliminates dead code and common subexpressions, and hoists loop invariants. A plan of the code before that would
count collectives that never run. So here:

    name marks are removed; equal operations of one block are merged (`common_subexpressions`); loop invariants move in
    front of their loop; dead operations are dropped

Operations behind the barrier of a `remat` are never merged with those outside: that they run again is their purpose.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

from ..code.loops import LOOPS, carried
from ..code.operations import Block, Code, Operation
from ..jax_compat import REMAT, has_effects
from .common_subexpressions import Available, ClassOf, Eliminator, of_one_class


def normalize(code: Code, names: Sequence[Any] = (), class_of: ClassOf = of_one_class) -> Code:
    """Returns the same code in normal form; values keep their numbers.

    Args:
        code: the flattened program.
        names: the names of each value's axes, by number: values that differ in their names alone are not merged, since
            they are for different dims (zeros of one shape, say).
        class_of: a class for each operation: those of different classes are not merged.
    """
    eliminator = Eliminator(code, names, class_of)
    hoisted, moved = _hoist(eliminator.block(code.block, Available()), set(code.block.inputs))
    merged = eliminator.merged
    if (moved and eliminator.has_duplicates(hoisted, moved, Available())) or _has_constant_carry(hoisted):
        # An operation that was hoisted may equal one in front of the loop.
        again = Eliminator(code, names, class_of)
        hoisted, merged = again.block(hoisted, Available()), merged | again.merged
    return dataclasses.replace(code, block=drop_dead(hoisted), merged=tuple(merged))


def _has_constant_carry(block: Block) -> bool:
    """Says whether some loop carries a value that its body never changes."""
    for operation in block.operations:
        if operation.name in LOOPS:
            body = operation.blocks[0]
            if any(body.inputs[i] == body.outputs[i] for i in range(carried(operation))):
                return True
        if any(map(_has_constant_carry, operation.blocks)):
            return True
    return False


def _hoist(block: Block, outside: set[int]) -> tuple[Block, set[int]]:
    """Moves loop invariants in front of their loop; `outside` are the values available around the block.

    Returns:
        The block, and the values that moved, inside it too.
    """
    known = set(outside)
    moved: set[int] = set()
    operations = []
    for operation in block.operations:
        known.update(operation.outputs)
        around = set() if operation.name in REMAT else known
        blocks = []
        for inside in operation.blocks:
            hoisted, inner = _hoist(inside, around | set(inside.inputs))
            moved |= inner
            if operation.name in LOOPS:
                invariant, hoisted = _split_invariant(hoisted, known)
                operations += invariant
                outputs = [o for op in invariant for o in op.outputs]
                known.update(outputs)
                moved.update(outputs)
            blocks.append(hoisted)
        operations.append(dataclasses.replace(operation, blocks=tuple(blocks)) if blocks else operation)
    return Block(block.inputs, tuple(operations), block.outputs), moved


def _split_invariant(body: Block, outside: set[int]) -> tuple[list[Operation], Block]:
    known = set(outside) - set(body.inputs)
    invariant, varying = [], []
    for operation in body.operations:
        movable = not operation.blocks and not has_effects(operation.equation)
        if movable and all(i in known for i in operation.reads):
            invariant.append(operation)
            known.update(operation.outputs)
        else:
            varying.append(operation)
    return invariant, Block(body.inputs, tuple(varying), body.outputs)


def drop_dead(block: Block) -> Block:
    """Returns a block without operations whose results nothing reads."""
    needed = {o for o in block.outputs if isinstance(o, int)}
    operations = []
    for operation in reversed(block.operations):
        if not needed.intersection(operation.outputs) and not has_effects(operation.equation):
            continue
        needed.update(operation.reads)
        blocks = tuple(map(drop_dead, operation.blocks))
        needed.update(*map(outside_reads, blocks))
        operations.append(dataclasses.replace(operation, blocks=blocks) if blocks else operation)
    return Block(block.inputs, tuple(reversed(operations)), block.outputs)


def outside_reads(block: Block) -> set[int]:
    """Returns the values that a block reads from the blocks around it."""
    local = set(block.inputs)
    read: set[int] = set()
    for operation in block.operations:
        read.update(operation.reads)
        read.update(*map(outside_reads, operation.blocks))
        local.update(operation.outputs)
    read.update(o for o in block.outputs if isinstance(o, int))
    return read - local
