"""Finds which values of two programs are the same ones, where both are of one trace.

Layouts may see a program in forms of its own: with equal operations apart, with attention as one operation, with
positions in zig-zag order. What an operation of the trace makes in both has one number in both.
"""

from __future__ import annotations

from ..errors import RunError
from ..programs.program import Program
from .names import original


def matching(program: Program, other: Program) -> frozenset[int]:
    """Returns the numbers of the values that are the same in two programs; refuses programs of two traces.

    Args:
        program: a program, perhaps as a layout sees it.
        other: the same as another layout sees it.
    """
    one, two = program.traced or program, other.traced or other
    if one.unmerged is not two.unmerged:
        raise RunError(
            "first_difference() was given a plan of another program: plan both from one program, the result of one"
            " ml.trace()."
        )
    if program.code is other.code:
        return frozenset(original(program, value.number) for value in program.values)
    places = set(program.places_values.values()) & set(other.places_values.values())
    if program.zigzags or other.zigzags:
        return frozenset(number for number in places if _same_original(program, other, number))
    arguments = {number for number in program.code.block.inputs if number in other.code.block.inputs}
    made = {n for n, op in program.makers.items() if n in other.makers and other.makers[n].equation is op.equation}
    return frozenset(n for n in arguments | made if _same_original(program, other, n))


def _same_original(program: Program, other: Program, number: int) -> bool:
    """Says whether a value is an array of its own in both."""
    return original(program, number) == original(other, number) == number
