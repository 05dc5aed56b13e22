"""Planning copies of a repeated stretch: once for all copies whose borders lie alike.

What becomes of a copy follows from the state of its border: the specs in which the values that it reads are at hand,
and what is wanted of them and of those that it makes. The stretch is planned in the numbers of the first copy, from
that state; steps, homes and the state that it leaves are kept, and taken over by every copy that starts from the same
state. Of 32 layers the first two or three are planned, and the others repeat the last.
"""

from __future__ import annotations

import copy as copies
import dataclasses
from collections.abc import Iterable
from typing import TYPE_CHECKING

from ..programs.outline import Copy
from ..specs.spec import Spec
from .scope import Scope
from .steps import Part, Step

if TYPE_CHECKING:
    from .planner import Planner


# How one value of a border lies: its home, in how many blocks it lies, the specs in which it is at hand there, and what
# is wanted of it; 0 blocks less 1 for a value that has no array of its own. A plain tuple, for there are very many.
_State = tuple[Spec | None, int, tuple[Spec, ...], Spec | None]


@dataclasses.dataclass(frozen=True, eq=False)
class Transcript:
    """What becomes of a copy, in the numbers of the first one.

    Attributes:
        steps: what it adds to each block, from the outermost to the one that it stands in.
        homes: the homes of the values inside.
        border: by place in the border, what changes there.
    """

    steps: tuple[tuple[Step, ...], ...]
    homes: dict[int, Spec]
    border: tuple[tuple[int, _State], ...]


def plan_copy(planner: Planner, copy: Copy):
    """Plans a copy: takes over what became of one alike, or plans it in the numbers of the first."""
    wants, inside = planner.wants, planner.wanted.inside[copy]
    states = _states(planner, copy.read)
    shown = tuple(map(wants.get, copy.shown))
    hoped = tuple(i for i, v in enumerate(copy.read) if v in planner.hoped) if planner.hoped else ()
    key = (copy.model, len(planner.chain), id(inside), hoped, states, shown)
    transcript = planner.transcripts.get(key)
    if transcript is None:
        inner = _inner(planner, copy, states, shown)
        inner.hoped = frozenset(copy.model.read[i] for i in hoped)
        transcript = planner.transcripts[key] = _transcript(inner, copy.model, states)
    _take_over(planner, copy, transcript)


def _states(planner: Planner, values: Iterable[int]) -> tuple[_State, ...]:
    """How values lie, and what is wanted of partial sums: only those are resolved."""
    home, scope_of, wants = planner.home.get, planner.scope_of.get, planner.wants.get
    states = []
    for value in values:
        spec, scope = home(value), scope_of(value)
        want = wants(value) if spec is not None and spec.partial else None
        at_hand = (-1, ()) if scope is None else (scope.depth, scope.available.get(value, ()))
        states.append((spec, *at_hand, want))
    return tuple(states)


def _inner(planner: Planner, copy: Copy, states: tuple[_State, ...], shown: tuple[Spec | None, ...]) -> Planner:
    """A planner of the first copy alone, for a border in given states."""
    inner, model = copies.copy(planner), copy.model
    inner.chain = [Scope(depth) for depth in range(len(planner.chain))]
    inner.home, inner.scope_of, inner.fills = {}, {}, {}
    wants = zip(model.border, (*(want for *_, want in states), *shown), strict=True)
    inner.wants = planner.wanted.inside[copy] | {v: want for v, want in wants if want is not None}
    for value, state in zip(model.read, states, strict=True):
        _set(inner, value, state)
    return inner


def _set(planner: Planner, value: int, state: _State):
    """Has a value of a border lie as a state says."""
    home, depth, available, _ = state
    if home is not None:
        planner.home[value] = home
    if depth >= 0:
        scope = planner.scope_of[value] = planner.chain[depth]
        scope.available[value] = available
        if value in planner.free:
            planner.fills[value] = planner.program.makers[value]


def _transcript(inner: Planner, model: Copy, states: tuple[_State, ...]) -> Transcript:
    """Plans the first copy, and keeps what became of it."""
    for operation in model.operations:
        inner.plan(inner.chain[-1], operation)
    after = _states(inner, model.border)
    changed = [(place, state) for place, state in enumerate(after) if place >= len(states) or state != states[place]]
    return Transcript(tuple(tuple(scope.steps) for scope in inner.chain), inner.home, tuple(changed))


def _take_over(planner: Planner, copy: Copy, transcript: Transcript):
    """Has a copy's steps, homes and border be as those that were kept."""
    for place, state in transcript.border:
        _set(planner, copy.border[place], state)
    for scope, steps in zip(planner.chain, transcript.steps, strict=True):
        if steps:
            scope.steps.append(Part(copy, steps))
    planner.inside[copy] = transcript.homes
