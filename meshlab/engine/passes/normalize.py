"""The normal form of a program, so that what is counted is what a compiler leaves.

XLA removes what is dead, computes equal expressions once, and takes out of a loop what does not change inside. If the
plan counted before that, it would count collectives that never run. So the code is brought into that form first:

    name marks are taken out; equal operations of one block are made one; a loop's operations that depend on nothing
    made inside it move in front of it; what no output needs is dropped.

Operations behind the barrier of a `remat` are never merged with those outside: that they run again is their purpose.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

from ..code.loops import LOOPS, carried
from ..code.operations import Block, Code, Literal, Operation
from ..jax_compat import REMAT, has_effects
from ..rules import ELEMENTWISE
from .common_subexpressions import Known, Sharing


def normalize(code: Code, names: Sequence[Any] = ()) -> Code:
    """Returns the same code in normal form; values keep their numbers.

    Args:
        code: the flattened program.
        names: the names of each value's axes, by number: what is equal but for its names stays apart, since it is made
            for different dims (zeros of one shape, say).
    """
    sharing = Sharing(code, names)
    hoisted, moved = _hoist(sharing.block(code.block, Known()), set(code.block.inputs))
    if (moved and sharing.is_there_twice(hoisted, moved, Known())) or _keeps_a_carry(hoisted):
        # What came out of a loop may be what is beside it already.
        hoisted = Sharing(code, names).block(hoisted, Known())
    return dataclasses.replace(code, block=_drop_dead(hoisted))


def _keeps_a_carry(block: Block) -> bool:
    """Whether some loop is seen by now to carry a value that it never changes."""
    for operation in block.operations:
        if operation.name in LOOPS:
            body = operation.blocks[0]
            if any(body.inputs[i] == body.outputs[i] for i in range(carried(operation))):
                return True
        if any(map(_keeps_a_carry, operation.blocks)):
            return True
    return False


def _hoist(block: Block, outside: set[int]) -> tuple[Block, set[int]]:
    """Moves what does not change inside a loop in front of it; `outside` are the values known around the block.

    Returns:
        The block, and the values that moved, inside it too.
    """
    known = set(outside)
    moved: set[int] = set()
    kept = []
    for operation in block.operations:
        known.update(operation.outputs)
        looped = operation.name in LOOPS
        around = set() if operation.name in REMAT else known
        blocks = []
        for inside in operation.blocks:
            settled, inner = _hoist(inside, around | set(inside.inputs))
            moved |= inner
            if looped:
                invariant, settled = _split_invariant(settled, known)
                kept += invariant
                freed = [o for op in invariant for o in op.outputs]
                known.update(freed)
                moved.update(freed)
            blocks.append(settled)
        kept.append(dataclasses.replace(operation, blocks=tuple(blocks)))
    return Block(block.inputs, tuple(kept), block.outputs), moved


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


def _drop_dead(block: Block) -> Block:
    needed = {o for o in block.outputs if isinstance(o, int)}
    kept = []
    for operation in reversed(block.operations):
        if not needed.intersection(operation.outputs) and not has_effects(operation.equation):
            continue
        needed.update(operation.reads)
        blocks = tuple(map(_drop_dead, operation.blocks))
        needed.update(*map(outside_reads, blocks))
        kept.append(dataclasses.replace(operation, blocks=blocks))
    return Block(block.inputs, tuple(reversed(kept)), block.outputs)


def outside_reads(block: Block) -> set[int]:
    """The values that a block reads from the blocks around it."""
    made = set(block.inputs)
    read: set[int] = set()
    for operation in block.operations:
        read.update(operation.reads)
        read.update(*map(outside_reads, operation.blocks))
        made.update(operation.outputs)
    read.update(o for o in block.outputs if isinstance(o, int))
    return read - made


def uniform_values(code: Code) -> tuple[frozenset[int], frozenset[int]]:
    """Finds the values that hold one number everywhere, and those of them that are zero.

    Returns:
        The numbers of the values that are a scalar broadcast, or made of such element by element, and of those that are
        the constant zero.
    """
    uniform: set[int] = set()
    zeros: set[int] = set()

    def look(block: Block, visit: Callable[[Operation], None]):
        for operation in block.operations:
            visit(operation)
            for inside in operation.blocks:
                look(inside, visit)

    def visit(operation: Operation):
        if operation.name in ELEMENTWISE or operation.name == "broadcast_in_dim":
            known = [isinstance(i, Literal) or i in uniform for i in operation.inputs]
            uniform.update(operation.outputs if all(known) and code.shapes[operation.outputs[0]] else ())
        if operation.name == "broadcast_in_dim" and code.shape_of(operation.inputs[0]) == ():
            uniform.update(operation.outputs)
            source = operation.inputs[0]
            if isinstance(source, Literal) and source.is_zero:
                zeros.update(operation.outputs)

    look(code.block, visit)
    return frozenset(uniform), frozenset(zeros)
