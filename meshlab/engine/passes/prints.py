"""Takes `jax.debug.print` out of a program: what is printed becomes further outputs, whole under every layout.

    plain, printing = without_prints(code)           # the program of a plan, and the one that a run prints from
    printing.code                                    # the same, with the printed values behind its own outputs
    for line in lines(printing.prints, arrays): print(line)

What is printed in a loop comes out of it stacked. The text is that of the unsharded function, in its order: iteration
by iteration, as they run. What runs a second time under `jax.checkpoint` is printed once. A print has no effect on a
plan: its collectives, bytes and seconds are those of the program without prints.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Collection, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from ..code.loops import is_reversed, trip_count
from ..code.operations import Block, Code, Input, Operation, walk
from ..code.source import Source
from ..jax_prints import Printed, printed, unprinted
from .normalize import drop_dead


class Loop(NamedTuple):
    """A loop around a print.

    Attributes:
        number: tells it from others.
        times: how often it runs.
        is_reversed: whether its last iteration runs first.
    """

    number: int
    times: int
    is_reversed: bool


@dataclasses.dataclass(frozen=True)
class Print:
    """One `jax.debug.print` of a program.

    Attributes:
        text: what makes its line of its values.
        source: the user's line.
        loops: those around it, outermost first.
        count: how many outputs are its values.
    """

    text: Printed
    source: Source | None
    loops: tuple[Loop, ...]
    count: int


class Printing(NamedTuple):
    """A program with what it prints among its outputs.

    Attributes:
        code: its operations; the values of all prints are the last outputs, in their order.
        prints: in order.
    """

    code: Code
    prints: tuple[Print, ...]


def prints_in(block: Block) -> bool:
    """Says whether a block prints."""
    return any(printed(operation.equation) for operation in walk(block))


def without_prints(code: Code) -> tuple[Code, Printing | None]:
    """Returns code without its prints, and code that returns what they print; None where there are none.

    Prints in branches and in `while` loops stay where they are, and those of each device's own shards.
    """
    if not prints_in(code.block):
        return code, None
    plain = dataclasses.replace(code, block=_Taking(code, False).block(code.block)[0])
    taking = _Taking(code, True)
    block, found = taking.block(code.block)
    values = [value for _, values in found for value in values]
    block = Block(block.inputs, block.operations, (*block.outputs, *values))
    shown = dataclasses.replace(code, block=block, shapes=tuple(taking.shapes), dtypes=tuple(taking.dtypes))
    return plain, Printing(shown, tuple(each for each, _ in found))


class _Taking:
    """Takes prints out of blocks; where they are shown, blocks return what they print."""

    def __init__(self, code: Code, shown: bool):
        self.shapes, self.dtypes, self.shown = [*code.shapes], [*code.dtypes], shown
        self.numbers = itertools.count()

    def block(self, block: Block) -> tuple[Block, list[tuple[Print, tuple[Input, ...]]]]:
        """Returns a block without prints, and these, each with its values."""
        operations, found = [], []
        for operation in block.operations:
            text = printed(operation.equation)
            if text is None or text.of_shards:
                new, inside = self.around(operation)
                operations.append(new)
                found += inside
            elif self.shown and not operation.rematerialised:
                found.append((Print(text, operation.source, (), len(operation.inputs)), operation.inputs))
        return Block(block.inputs, tuple(operations), block.outputs), found

    def around(self, operation: Operation) -> tuple[Operation, list[tuple[Print, tuple[Input, ...]]]]:
        """Does the same for what is inside of an operation, which returns the values beside its results."""
        if operation.name in ("while", "cond") or not any(map(prints_in, operation.blocks)):
            return operation, []
        (body,) = operation.blocks
        body, inside = self.block(body)
        loop = None
        if operation.name == "scan":
            loop = Loop(next(self.numbers), trip_count(operation) or 0, is_reversed(operation))
        values = [value for _, values in inside for value in values]
        # A number that stands in the code comes out as it is in every iteration.
        body = Block(body.inputs, body.operations, (*body.outputs, *(v for v in values if isinstance(v, int))))
        outputs = [self.outside(value, loop) if isinstance(value, int) else value for value in values]
        new = dataclasses.replace(
            operation,
            equation=unprinted(operation.equation),
            blocks=(body,),
            outputs=(*operation.outputs, *(v for v in outputs if isinstance(v, int))),
        )
        each = iter(outputs)
        loops = () if loop is None else (loop,)
        return new, [
            (dataclasses.replace(one, loops=(*loops, *one.loops)), tuple(itertools.islice(each, one.count)))
            for one, _ in inside
        ]

    def outside(self, value: int, loop: Loop | None) -> int:
        """Returns a new value around a loop or a region: what it returns of one inside."""
        self.shapes.append((() if loop is None else (loop.times,)) + self.shapes[value])
        self.dtypes.append(self.dtypes[value])
        return len(self.shapes) - 1


def of_some(code: Code, prints: Sequence[Print], kept: Collection[int]) -> Code:
    """Returns code that returns what some of its prints need, by their position, and no longer what others do."""
    counts = [one.count for one in prints]
    own = len(code.block.outputs) - sum(counts)
    each = iter(code.block.outputs[own:])
    values = [tuple(itertools.islice(each, count)) for count in counts]
    outputs = (*code.block.outputs[:own], *(value for i in sorted(kept) for value in values[i]))
    read = frozenset(number for operation in walk(code.block) for number in operation.reads)
    block = _trimmed(Block(code.block.inputs, code.block.operations, outputs), read)
    return dataclasses.replace(code, block=drop_dead(block))


def _trimmed(block: Block, read: frozenset[int]) -> Block:
    """Returns a block whose operations return beside their own results only what is read."""
    wanted = read.union(value for value in block.outputs if isinstance(value, int))

    def trimmed(operation: Operation) -> Operation:
        own, made = len(operation.equation.outvars), operation.outputs
        if len(made) <= own:
            return operation
        kept = [i for i, value in enumerate(made) if i < own or value in wanted]
        bodies = (Block(b.inputs, b.operations, tuple(b.outputs[i] for i in kept)) for b in operation.blocks)
        blocks = tuple(_trimmed(body, read) for body in bodies)
        return dataclasses.replace(operation, blocks=blocks, outputs=tuple(made[i] for i in kept))

    return Block(block.inputs, tuple(map(trimmed, block.operations)), block.outputs)


def lines(prints: Sequence[Print], arrays: Sequence[Any]) -> Iterator[str]:
    """Yields what is printed, in order.

    Args:
        prints: in order.
        arrays: all their values: `[*loops, *shape]`.
    """
    each = iter(arrays)
    yield from _lines([(one, one.loops, list(itertools.islice(each, one.count))) for one in prints])


def _lines(rows: Sequence[tuple[Print, tuple[Loop, ...], list[Any]]]) -> Iterator[str]:
    """Yields the lines of prints with the loops that are still around them."""
    for loop, group in itertools.groupby(rows, key=lambda row: row[1][:1]):
        inside = list(group)
        if not loop:
            yield from (one.text.line(values) for one, _, values in inside)
            continue
        order = range(loop[0].times)
        for i in reversed(order) if loop[0].is_reversed else order:
            yield from _lines([(one, loops[1:], [_at(value, i) for value in values]) for one, loops, values in inside])


def _at(value: Any, iteration: int) -> Any:
    """Returns a value in an iteration; a number that stands in the code is one in all."""
    return value[iteration] if np.ndim(value) else value
