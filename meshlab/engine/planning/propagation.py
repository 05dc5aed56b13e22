"""Says what passes operations before any layout is known: partial sums forward, target specs backward.

Target specs are found in one pass before a program is planned, partial sums in planning it; both ask here.

    linear operations       let a partial sum through, where their other linear operands are zero or partial as well
    a second reader         ends a partial sum: it is reduced, once
    elementwise operations  pass the target spec of their result to their operands, and so do transposes
    loops, branches         pass it from what is outside to what is inside, and round
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence

from ..code.loops import LOOPS, carried
from ..code.operations import Block, Input, Operation
from ..rules import Factors

IsZero = Callable[[Input], bool]


def may_stay_partial(uses: Sequence[int], value: int) -> bool:
    """Whether a partial sum may wait for its reader: it has one alone. `uses` counts the readers of each value."""
    return uses[value] == 1


def lets_through(operation: Operation, factors: Factors, partial: Collection[int], is_zero: IsZero) -> bool:
    """Whether partial sums of some operands go through an operation, since its other linear operands are zero."""
    others = factors.with_others(partial)
    return others is not None and all(is_zero(operation.inputs[i]) for i in others)


def carry_may_be_partial(uses: Sequence[int], outer: Input, inner: int, is_zero: IsZero) -> bool:
    """Whether partial sums may gather in a carry of a loop: it starts from zero, and the body reads it once."""
    return is_zero(outer) and may_stay_partial(uses, inner)


def passes_targets_on(operation: Operation, factors: Factors) -> bool:
    """Whether the target spec of an operation's result passes to its operands."""
    own = factors.propagating is not None or factors.summed or factors.per_shard or factors.unsharded or factors.minors
    return not own and len(operation.outputs) == 1 and operation.name != "broadcast_in_dim"


def bodies(operation: Operation) -> tuple[Block, ...]:
    """The blocks whose outputs are the operation's results: all but the test of a `while`."""
    return operation.blocks[:1] if operation.name in LOOPS else operation.blocks


def entering(operation: Operation, block: Block) -> Iterator[tuple[Input, int, bool]]:
    """An operation's operands, each with the block's input that it becomes, and whether that is one slice of it."""
    count = _carried(operation)
    for position, (outer, inner) in enumerate(zip(operation.inputs, block.inputs, strict=False)):
        yield outer, inner, position >= count


def leaving(operation: Operation, block: Block) -> Iterator[tuple[int, Input, bool]]:
    """An operation's results, each with the output of one of its `bodies` that it is, or that is one slice of it."""
    count = _carried(operation)
    for position, (outer, inner) in enumerate(zip(operation.outputs, block.outputs, strict=True)):
        yield outer, inner, position >= count


def going_round(operation: Operation, block: Block) -> Iterator[tuple[int, Input]]:
    """A loop's carries: each input of its body, with the output that becomes it in the next iteration."""
    if operation.name in LOOPS:
        count = carried(operation)
        yield from zip(block.inputs[:count], block.outputs[:count], strict=True)


def _carried(operation: Operation) -> int:
    return carried(operation) if operation.name in LOOPS else len(operation.inputs) + len(operation.outputs)
