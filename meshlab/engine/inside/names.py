"""Finds the values that a user names: by place, by what a line assigns, or by the line.

    named(program, ["residual"])                     # a tag; or any other place, or a glob over places
    named(program, ["hidden"])                       # `hidden = ml.relu(…)`: what the line makes last
    named(program, ["model.py:17"])                  # whatever that line makes last

A line that runs several times (a layer in Python's own loop) names a value each time. The values of a forward pass are
meant where there are any: those of the backward pass have places (`grads/…`).
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from ..code.operations import Block, Operation, walk
from ..code.source import Source
from ..errors import RunError, closest, shown, some
from ..programs.program import Program, analysis
from ..programs.values import Value
from ..rules import MARKS


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
        made = [original(program, number) for number in operation.outputs]
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


def original(program: Program, number: int) -> int:
    """Returns the value whose array a value is: of a tag, or under another name of its dims."""
    return program.original_of.get(number, number)


@analysis
def places(program: Program) -> dict[str, tuple[int, ...]]:
    """Returns the values at each place: of a tag one for each time that the forward pass comes by."""
    found: dict[str, tuple[int, ...]] = {place: (number,) for place, number in program.places_values.items()}
    for place, operations in program.marks.items():
        forward = [op for op in operations if not (op.backward or op.rematerialised)]
        found[place] = tuple(op.outputs[0] for op in forward or operations)
    return {place: tuple(dict.fromkeys(original(program, n) for n in found[place])) for place in found}


def named(program: Program, names: Iterable[str | Value], asked: str) -> dict[str, tuple[int, ...]]:
    """Returns the values of each name; refuses all unknown names at once.

    Args:
        program: whose values.
        names: places, globs over places, names that lines assign, lines, or `program.values`.
        asked: the method that was given the names.
    """
    if isinstance(names, str | Value) or not isinstance(names, Sequence):
        raise RunError(f'{asked} was given values={shown(names)}; it takes a list of names: values=["hidden"].')
    if not names:
        raise RunError(f"{asked} was given no names: {_known(program)}")
    found: dict[str, tuple[int, ...]] = {}
    problems: list[str] = []
    for name in names:
        if isinstance(name, Value):
            found[name.label] = (*found.get(name.label, ()), original(program, program.find(name).number))
        elif values := _named(program, name):
            found |= values
        else:
            problems.append(f"`{name}`{closest(name, _every(program))}" if isinstance(name, str) else shown(name))
    if problems:
        raise RunError(f"{asked} was given unknown names: {'; '.join(problems)}. {_known(program)}")
    return found


def _named(program: Program, name: object) -> dict[str, tuple[int, ...]]:
    if not isinstance(name, str):
        return {}
    at, by_line = places(program), lines(program)
    for known in (at, by_line.assigned, by_line.lines):
        if name in known:
            return {name: known[name]}
    return {place: at[place] for place in program.matching(name) if place in at}


def _every(program: Program) -> list[str]:
    return [*places(program), *lines(program).assigned, *lines(program).lines]


def _known(program: Program) -> str:
    """Says which names there are."""
    by_line = lines(program)
    return (
        f"It knows the places {some(tuple(places(program)), 12)}; the lines that assign"
        f" {some(tuple(by_line.assigned), 12)}; and every line that computes something, such as"
        f" {some(tuple(by_line.lines), 3)}."
    )
