"""The layout that an intent asks for, and the answer where it cannot be.

Pure functions, apart from the Explorer that keeps the state: `Place("hidden", ("model",))` turns `batch:data` into
`batch:data hidden:model`. Whether the program can be planned so is for the engine to say; `refused` turns what it
says into an answer.
"""

from __future__ import annotations

from typing import Any

from ..engine.errors import LayoutError, closest
from ..engine.layout import Layout
from .document import ExplorerError
from .intents import Intent, Load, Place, Refused, Remove, Reset


def layout_after(intent: Intent, layout: Layout, initial: Layout, program: Any) -> Layout:
    """Returns the layout that an intent asks for.

    Args:
        intent: what is asked.
        layout: the present layout.
        initial: the layout that `Reset` goes back to.
        program: the program, which knows the dims and the places.

    Raises:
        LayoutError: a rule is to be removed that no program could have.
        ExplorerError: the intent does not change the layout.
    """
    match intent:
        case Reset():
            return initial
        case Load(wanted):
            return wanted
        case Place(dim, axes, None):
            return layout.with_rule(dim, axes)
        case Remove(dim, None):
            if dim not in program.dims:
                raise LayoutError(f"There is no dim `{dim}`.{closest(dim, program.dims)}")
            return layout.with_rule(dim, ())
        case Place() | Remove():
            return _layout_at(intent, layout)
    raise ExplorerError(f"{type(intent).__name__} does not change the layout; `what_if` takes an intent that does.")


def _layout_at(intent: Place | Remove, layout: Layout) -> Layout:
    rules, place = layout.to_dict(), str(intent.at)
    there = {name: axes for name, axes in rules.get(place, {}).items() if name != intent.dim}
    if isinstance(intent, Place):
        there[intent.dim] = intent.axes
    # A place keeps its position among the places, since the last that matches counts.
    return Layout.of({name: rule for name, rule in (rules | {place: there}).items() if name != place or there})


def refused(error: LayoutError) -> Refused:
    """Makes an answer of a layout's refusal, with all its problems."""
    if not error.problems:
        return Refused(str(error))
    reasons = " ".join(dict.fromkeys(problem.text for problem in error.problems))
    fixes = " ".join(dict.fromkeys(problem.fix for problem in error.problems if problem.fix))
    return Refused(reasons, fixes, error.problems[0].code)
