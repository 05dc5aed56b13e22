"""The value that a collective takes from one spec to another, as devices have it: in an iteration it is one block.

all-gather of params/w1 over model      Moved("params/w1", (28, 28, 1024), [·, ·, model], [·, ·, ·])
"""

from __future__ import annotations

from typing import NamedTuple

from ..code.operations import Operation
from ..collectives.routes import Rerouted
from ..planning.steps import Move
from ..programs.gradients import gradient_values
from ..programs.program import Program, analysis
from ..rules.per_shard import PER_SHARD
from ..specs.in_time import without_all
from ..specs.spec import Grid, Spec, local_shape


class Moved(NamedTuple):
    """A value that is moved.

    Attributes:
        place: where it is stored, or what it is a slice of; None where it has no place.
        shape: of all of it, or of one block of an axis in time.
        start: its spec before, among devices.
        result: its spec afterwards.
    """

    place: str | None
    shape: tuple[int, ...]
    start: Spec
    result: Spec

    @property
    def route(self) -> Rerouted:
        """Who sends to whom where it is permuted: the same devices in each iteration."""
        return Rerouted(self.start, self.result)


def moved_value(program: Program, grid: Grid, step: Move, called: int | None = None) -> Moved:
    """Returns the value of a move as devices have it.

    Args:
        program: the program.
        grid: the sizes of the plan's mesh axes.
        step: the move.
        called: the value by whose place it is called, where it has another form by now: a gradient, an argument.
    """
    value, places, in_time = step.name, _places(program), tuple(grid.in_time)
    shape = program.code.shapes[value]
    blocks = Spec(tuple(tuple(axis for axis in split if axis in in_time) for split in step.start.splits))
    block = local_shape(shape, blocks, grid) if blocks.axes else shape
    asked = (each for each in (value, program.outermost(value), called) if each is not None)
    place = next((places[each] for each in asked if each in places), None)
    return Moved(place, tuple(block), without_all(step.start, in_time), without_all(step.via.result, in_time))


def called(program: Program, operation: Operation) -> str:
    """Returns what that is called which is sent inside an operation: after its result; what is moved alone as it is."""
    made = program.value(operation.outputs[0])
    if made.place or not PER_SHARD[operation.name].moves:
        return made.label
    return program.value(program.original_of.get(operation.reads[0], operation.reads[0])).label


@analysis
def _places(program: Program) -> dict[int, str]:
    """Returns the place of each value that has one; of what is only renamed or tagged it is the same."""
    places = {value: place for place, value in program.places_values.items()}
    for value, original in program.original_of.items():
        if value in places:
            places.setdefault(original, places[value])
    renamed = {value: places[original] for value, original in program.original_of.items() if original in places}
    gradients = {parameter: places[value] for value, parameter in gradient_values(program).items() if value in places}
    return {value: gradients[p] for value, p in gradient_values(program).items() if p in gradients} | renamed | places
