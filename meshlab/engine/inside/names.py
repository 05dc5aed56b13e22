"""Finds the values that a user names: by place, by what a line assigns, or by the line.

    named(program, ["residual"])                     # a tag; or any other place, or a glob over places
    named(program, ["hidden"])                       # `hidden = ml.relu(…)`: what the line makes last
    named(program, ["model.py:17"])                  # whatever that line makes last

A line that runs several times (a layer in Python's own loop) names a value each time (`programs/lines.py`). The values
of a forward pass are meant where there are any: those of the backward pass have places (`grads/…`).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ..errors import RunError, aside, shown, some
from ..programs.lines import lines
from ..programs.program import Program, analysis
from ..programs.values import Value


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
            problems.append(f"`{name}`{aside(name, _every(program))}" if isinstance(name, str) else shown(name))
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
