"""The compute rules that hold in each scope of a program, with the dims that meet there: what legality judges.

    {"seq": "model", "@core": {"seq": None, "heads": "model"}}      two sets of rules: in `@core`, and everywhere else

Scopes that the same globs match have the same rules, and are judged together.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from ..code.operations import Scope
from ..programs.axis_conflicts import (
    Conflicts,
    Scans,
    axis_conflicts,
    conflicts_by_scope,
    scanned_dims,
    scans_by_scope,
)
from ..programs.program import Program, analysis
from ..programs.scoped import scopes
from ..specs.scopes import matches, rules_in
from ..specs.spec import AxesByDim

# (glob, rules) pairs, in order.
ScopedRules = Sequence[tuple[str, AxesByDim]]


@dataclasses.dataclass(frozen=True)
class Meeting:
    """What meets in scopes with the same rules.

    Attributes:
        scopes: which; `()` stands for whatever is in none, and for what is stored.
        conflicts: the pairs of dims that are in one operation there.
        scans: the dims of scans there.
    """

    scopes: tuple[Scope, ...]
    conflicts: Conflicts
    scans: Scans


@analysis
def _meetings(_program: Program) -> dict[tuple[str, ...], list[Meeting]]:
    """Returns the memo of what meets in scopes that the same globs match, by the globs of a layout."""
    return {}


def judged(program: Program, compute: AxesByDim, scoped: ScopedRules) -> list[tuple[AxesByDim, Meeting]]:
    """Returns the rules that hold in scopes, with what meets there; without rules by scope, the rules everywhere."""
    if not scoped:
        return [(compute, Meeting((), axis_conflicts(program), scanned_dims(program)))]
    globs, known = tuple(glob for glob, _ in scoped), _meetings(program)
    if globs not in known:
        alike: dict[tuple[bool, ...], list[Scope]] = {}
        for scope in ((), *scopes(program)):
            alike.setdefault(tuple(matches(glob, scope) for glob in globs), []).append(scope)
        known[globs] = [_meeting(program, those) for those in alike.values()]
    return [(rules_in(meeting.scopes[0], compute, scoped), meeting) for meeting in known[globs]]


def _meeting(program: Program, those: list[Scope]) -> Meeting:
    """Returns what meets in some scopes, the first of each."""
    conflicts, scans = Conflicts(), Scans()
    for scope in those:
        conflicts = conflicts_by_scope(program).get(scope, {}) | conflicts
        scans = scans_by_scope(program).get(scope, {}) | scans
    return Meeting(tuple(those), conflicts, scans)
