"""Runs a plan, and prints what its function prints: whole values, once, in its order, after the step.

    run_printing(plan, args, donate=False)           # the function's results, as `run` returns them

What is printed comes out of the step beside its results, by a plan of its own (`passes/prints.py`). What a layout
cannot return, such as a value inside a pipeline, is left out, and a warning says so once.
"""

from __future__ import annotations

import dataclasses
import warnings
from collections.abc import Collection, Sequence
from typing import Any

import numpy as np

from ..errors import LayoutError
from ..passes.prints import lines, of_some
from ..plans.plan_data import Plan
from ..processes import is_first, whole
from ..programs.program import Program
from ..typed_keys import words
from .run import run


def run_printing(plan: Plan, args: Sequence[Any], donate: bool) -> Any:
    """Runs a plan, and prints what its function prints; see `Plan.run`."""
    shown = plan.once(_shown)
    if shown is None:
        return run(plan, args, donate)
    result, values = run(shown, args, donate)
    # As NumPy's: a single number takes formats then.
    arrays = [np.asarray(words(whole(value)))[()] for value in values]
    if is_first():
        for line in lines(shown.program.prints, arrays):
            print(line)
    return result


def _shown(plan: Plan) -> Plan | None:
    """Returns the plan that returns what is printed; None where nothing is, or nothing can be."""
    program = plan.program.printing
    if plan.prints is None or program is None:
        return None
    planned, missing = _planned(plan, program)
    if missing:
        warnings.warn(f"Under this layout a run cannot print all: {' '.join(missing)}", stacklevel=5)
    return planned


def _planned(plan: Plan, program: Program) -> tuple[Plan | None, list[str]]:
    """Returns the plan that returns all that can be returned, and for every other print the reason."""
    assert plan.prints is not None
    try:
        return plan.prints(program), []
    except LayoutError:
        kept, missing = [], []
    for number, one in enumerate(program.prints):
        try:
            plan.prints(_of_some(program, (number,)))
            kept.append(number)
        except LayoutError as error:
            missing.append(f"the values printed at {one.source} cannot be returned ({error.in_one_line})")
    return (plan.prints(_of_some(program, kept)) if kept else None), missing


def _of_some(program: Program, kept: Collection[int]) -> Program:
    """Returns the program that returns what some of its prints need."""
    code, unmerged = (of_some(each, program.prints, kept) for each in (program.code, program.unmerged))
    count = sum(program.prints[i].count for i in kept)
    own = len(program.outputs) - sum(one.count for one in program.prints)
    return dataclasses.replace(
        program,
        code=code,
        unmerged=unmerged,
        outputs=program.outputs[: own + count],
        out_shapes=(program.out_shapes[0], (0,) * count),
        prints=tuple(program.prints[i] for i in kept),
    )
