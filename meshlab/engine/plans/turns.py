"""Finds the loops whose trip count is known only when they run: a plan counts one iteration of each.

while at solve.py:12 stops when it has converged        collectives, bytes, FLOPs and time are those of one iteration
"""

from __future__ import annotations

from collections.abc import Iterator

from ..code.loops import LOOPS, trip_count
from ..code.operations import Operation, walk
from ..errors import first_of
from ..programs.program import Program, analysis
from .work import line_of


@analysis
def of_unknown_length(program: Program) -> tuple[Operation, ...]:
    """Returns the loops whose trip count is not known before they run, outer before inner."""
    loops = (operation for operation in walk(program.code.block) if operation.name in LOOPS)
    return tuple(operation for operation in loops if trip_count(operation) is None)


def warnings(program: Program) -> Iterator[str]:
    """Warns that everything is counted for one iteration of such loops."""
    if lines := _lines(program):
        loops = "the loop" if len(lines) == 1 else "the loops"
        yield (
            f"⚠ The trip count of {loops} at {first_of(lines)} is known only when the program runs: bytes, FLOPs and"
            " time count one iteration. Collectives inside run in each."
        )


def _lines(program: Program) -> list[str]:
    return list(dict.fromkeys(map(line_of, of_unknown_length(program))))
