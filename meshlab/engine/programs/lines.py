"""Finds what the lines of a program make, by the name that a line assigns and by the line.

    hidden = ml.relu(ml.dot(x, w, Embed))      lines(program).assigned["hidden"]: what the line makes last

A line that runs several times (a layer in Python's own loop) makes a value each time. The forward pass alone is meant.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import NamedTuple

from ..code.operations import Block, Operation, walk
from ..code.source import Source
from ..rules import MARKS
from .program import Program, analysis


class Lines(NamedTuple):
    """What lines make, by name: values in the program's order.

    Attributes:
        assigned: by the name that a line assigns.
        lines: by the line.
    """

    assigned: dict[str, tuple[int, ...]]
    lines: dict[str, tuple[int, ...]]


@analysis
def lines(program: Program) -> Lines:
    """Returns what the lines of the forward pass make, each time that they run."""
    assigned: dict[str, list[int]] = {}
    by_line: dict[str, list[int]] = {}
    for source, operation in _last_of_lines(program.code.block):
        made = [program.original_of.get(number, number) for number in operation.outputs]
        by_line.setdefault(str(source), []).extend(made)
        if source.target is not None:
            assigned.setdefault(source.target, []).extend(made)
    return Lines(*({name: tuple(dict.fromkeys(made)) for name, made in each.items()} for each in (assigned, by_line)))


def _last_of_lines(block: Block) -> Iterator[tuple[Source, Operation]]:
    """Yields for each run of operations that one line of the forward pass makes the one that makes its result.

    That is the last one that the forward pass reads further on: what the backward pass alone reads comes after it.
    """
    forward = [op for op in block.operations if not (op.backward or op.rematerialised)]
    readers: dict[int, list[Operation]] = {}
    for operation in forward:
        inside = (op for each in operation.blocks for op in walk(each) if not op.backward)
        for number in (*operation.reads, *(number for op in inside for number in op.reads)):
            readers.setdefault(number, []).append(operation)
    own = [op for op in forward if op.source is not None and op.name not in MARKS]
    for source, group in itertools.groupby(own, key=lambda op: op.source):
        run = list(group)
        read = [op for op in run if any(by not in run for out in op.outputs for by in readers.get(out, ()))]
        assert source is not None
        yield source, [*run[-1:], *read][-1]
    for operation in forward:
        for inside in operation.blocks:
            yield from _last_of_lines(inside)
