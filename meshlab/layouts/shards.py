"""Reads what a layout stores in shards beside data parallelism: nothing (DP), state (ZeRO), parameters (FSDP, HSDP).

    shards = read_shards(request, rules, arguments, ("data",))
    shards.preset, shards.over, shards.note         "fsdp", ("data",), "2 small parameters whole"

The presets store each array over its largest dim. By hand it may be any dim: what counts is that an array is split over
the axes of the batch, wherever it can be, and otherwise stored as it is computed. Arrays that are left whole, biases
for the most part, are told in a note as long as they are the lesser part.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable

from ..engine.legality.legal_rules import LegalRules
from ..engine.programs.program import Program
from ..engine.programs.spread_names import Names
from ..engine.programs.values import Argument
from ..engine.specs.layout import Layout
from ..engine.specs.spec import Axes
from . import storage
from .recognise import Recognised
from .request import Request


@dataclasses.dataclass(frozen=True)
class Shards:
    """What is stored in shards.

    Attributes:
        preset: that stores so.
        over: the mesh axes of the shards.
        note: what is left whole, though it could be split; "" where nothing is.
    """

    preset: str
    over: Axes = ()
    note: str = ""


@dataclasses.dataclass(frozen=True)
class _Split:
    """How arrays of one kind are stored: over which axes, and how many are left whole that could be split."""

    over: Axes = ()
    whole: int = 0
    share: float = 0.0  # of the elements that could be split


def read_shards(request: Request, rules: LegalRules, arguments: Recognised, batch: Axes) -> Shards | None:
    """Returns what a layout stores in shards; None where no preset stores so.

    Args:
        request: of the program and the mesh, beside the compute rules.
        rules: those of the layout.
        arguments: what the program's arguments are.
        batch: the mesh axes of devices that the batch is on.
    """
    program = request.program
    weights = _split(request, rules, arguments.weights, batch)
    state = _split(request, rules, arguments.state, batch)
    gradients = _split(request, rules, _gradients(program, arguments), batch)
    if weights is None or state is None or gradients is None or not _others_as_computed(program, rules, arguments):
        return None
    first = next((each for each in (weights, gradients, state) if each.over), None)
    if first is None:
        return Shards("data_parallel")
    if any(each.over not in ((), first.over) for each in (weights, gradients, state)) or first.share < 0.5:
        return None
    kept = "the optimizer's state whole" if arguments.state and not state.over else ""
    return Shards(_preset(weights, gradients, batch), first.over, ", ".join(filter(None, (_note(first), kept))))


def _preset(weights: _Split, gradients: _Split, batch: Axes) -> str:
    if weights.over:
        return "fsdp" if set(weights.over) == set(batch) else "hsdp"
    return "zero2" if gradients.over else "zero1"


def _note(split: _Split) -> str:
    return f"{split.whole:,} small array{'s' if split.whole > 1 else ''} whole" if split.whole else ""


def _gradients(program: Program, arguments: Recognised) -> list[Argument]:
    parameters = {a.place for a in arguments.parameters}
    return [
        Argument(place, program.places_values[place], place.split("/")[0])
        for place, parameter in program.gradients.items()
        if parameter in parameters and place in program.marks
    ]


def _split(request: Request, rules: LegalRules, arguments: Iterable[Argument], batch: Axes) -> _Split | None:
    """Returns how arrays are split over axes of the batch; None where some are stored in another way."""
    over, split, whole = set[Axes](), 0, list[Argument]()
    for argument in arguments:
        added = _added(request.program, rules, argument, batch)
        if added is None:
            return None
        if added:
            over.add(added)
            split += _size(request.program, argument)
        else:
            whole.append(argument)
    if len(over) > 1:
        return None
    axes = next(iter(over), ())
    left = [each for each in whole if axes and _could_be(request, rules, each, axes)]
    count = split + sum(_size(request.program, each) for each in left)
    return _Split(axes, len(left), split / count if count else 0.0)


def _added(program: Program, rules: LegalRules, argument: Argument, batch: Axes) -> Axes | None:
    """Returns the axes of the batch over which an array is stored beyond how it is computed; None for any others."""
    names = program.names[argument.value]
    added: Axes = ()
    for computed, stored in zip(_splits(rules, names), _splits(rules, names, argument.place), strict=True):
        if computed == stored:
            continue
        own = stored[len(computed) :] if stored[: len(computed)] == computed else stored
        if added or not own or not set(own) <= set(batch):
            return None
        added = own
    return added


def _could_be(request: Request, rules: LegalRules, argument: Argument, axes: Axes) -> bool:
    """Says whether an array that is stored as it is computed could be split over axes, and is not."""
    there = {axis for split in _splits(rules, request.program.names[argument.value]) for axis in split}
    return not there & set(axes) and bool(storage.choices(request, argument.value, axes))


def _splits(rules: LegalRules, names: Names, place: str | None = None) -> tuple[Axes, ...]:
    """Returns the axes of devices that split each axis of an array; what is stored is never split in time."""
    splits = rules.spec(names, place).splits
    return tuple(tuple(axis for axis in split if axis not in rules.in_time) for split in splits)


def _size(program: Program, argument: Argument) -> int:
    return math.prod(program.code.shapes[argument.value])


def _others_as_computed(program: Program, rules: LegalRules, arguments: Recognised) -> bool:
    """Says whether data, and outputs that are the next value of no argument, are stored as they are computed."""
    names = {a.place: program.names[a.value] for a in arguments.data}
    carried = [carry.place for carry in program.carries]
    for place in program.outputs:
        value = program.places_values.get(place)
        if value is not None and not any(place == each or place.startswith(f"{each}/") for each in carried):
            names[place] = program.names[value]
    return all(_splits(rules, own) == _splits(rules, own, place) for place, own in names.items())


def handmade(layout: Layout, program: Program, batch: Axes) -> Layout:
    """Returns the rules at places of arguments and gradients, as far as they are about axes of the batch."""
    known, rules = {*program.gradients, *(argument.place for argument in program.arguments)}, []
    for glob, own in layout.place_rules:
        left = tuple((d, kept) for d, axes in own if (kept := tuple(a for a in axes if a in batch)) or not axes)
        places = program.matching(glob) or program.matching(glob.removesuffix("?"))
        if left and not known.isdisjoint(places):
            rules.append((glob, left))
    return Layout(place_rules=tuple(rules))
