"""Plans a repeated stretch once for all copies whose borders are in the same state.

The plan of a copy follows from the state of its border: the specs in which the values that it reads are at hand, and
the target specs of these and of those that it makes. The stretch is planned in the numbers of the first copy, from that
state; a `Transcript` of its steps, producers' specs and the state that it leaves serves every copy that starts from the
same state. Of 32 layers the first two or three are planned, and the others repeat the last.
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


# The state of one value of a border: its producer's spec, in how many blocks it stands, the specs in which it is at
# hand there, and its target spec; -1 blocks for a value without an array of its own. A tuple, for there are very many.
_State = tuple[Spec | None, int, tuple[Spec, ...], Spec | None]


@dataclasses.dataclass(frozen=True, eq=False)
class Transcript:
    """The plan of a copy, in the numbers of the first one.

    Attributes:
        steps: those that it adds to each block, from the outermost to the one that it stands in.
        specs: the producers' specs of the values inside.
        border: by place in the border, the states that change.
    """

    steps: tuple[tuple[Step, ...], ...]
    specs: dict[int, Spec]
    border: tuple[tuple[int, _State], ...]


def plan_copy(planner: Planner, copy: Copy):
    """Plans a copy: takes over the transcript of one in the same state, or plans it in the numbers of the first."""
    targets, inside = planner.targets, planner.target_specs.inside[copy]
    states = _states(planner, copy.read)
    shown = tuple(map(targets.get, copy.shown))
    hoped = tuple(i for i, v in enumerate(copy.read) if v in planner.hoped) if planner.hoped else ()
    key = (copy.model, len(planner.chain), id(inside), hoped, states, shown)
    transcript = planner.transcripts.get(key)
    if transcript is None:
        inner = _inner(planner, copy, states, shown)
        inner.hoped = frozenset(copy.model.read[i] for i in hoped)
        transcript = planner.transcripts[key] = _transcript(inner, copy.model, states)
    _take_over(planner, copy, transcript)


def _states(planner: Planner, values: Iterable[int]) -> tuple[_State, ...]:
    """Returns the states of values; the target specs of partial sums alone, for only those are reduced."""
    spec_of, scope_of, targets = planner.specs.get, planner.scope_of.get, planner.targets.get
    states = []
    for value in values:
        spec, scope = spec_of(value), scope_of(value)
        target = targets(value) if spec is not None and spec.partial else None
        at_hand = (-1, ()) if scope is None else (scope.depth, scope.available.get(value, ()))
        states.append((spec, *at_hand, target))
    return tuple(states)


def _inner(planner: Planner, copy: Copy, states: tuple[_State, ...], shown: tuple[Spec | None, ...]) -> Planner:
    """Returns a planner of the first copy alone, for a border in given states."""
    inner, model = copies.copy(planner), copy.model
    inner.chain = [Scope(depth) for depth in range(len(planner.chain))]
    inner.specs, inner.scope_of, inner.fills = {}, {}, {}
    targets = zip(model.border, (*(target for *_, target in states), *shown), strict=True)
    inner.targets = planner.target_specs.inside[copy] | {v: target for v, target in targets if target is not None}
    for value, state in zip(model.read, states, strict=True):
        _set(inner, value, state)
    return inner


def _set(planner: Planner, value: int, state: _State):
    """Puts a value of a border into a state."""
    spec, depth, available, _ = state
    if spec is not None:
        planner.specs[value] = spec
    if depth >= 0:
        scope = planner.scope_of[value] = planner.chain[depth]
        scope.available[value] = available
        if value in planner.free:
            planner.fills[value] = planner.program.makers[value]


def _transcript(inner: Planner, model: Copy, states: tuple[_State, ...]) -> Transcript:
    """Plans the first copy, and returns the transcript."""
    for operation in model.operations:
        inner.plan(inner.chain[-1], operation)
    after = _states(inner, model.border)
    changed = [(place, state) for place, state in enumerate(after) if place >= len(states) or state != states[place]]
    return Transcript(tuple(tuple(scope.steps) for scope in inner.chain), inner.specs, tuple(changed))


def _take_over(planner: Planner, copy: Copy, transcript: Transcript):
    """Gives a copy the steps, producers' specs and border of a transcript."""
    for place, state in transcript.border:
        _set(planner, copy.border[place], state)
    for scope, steps in zip(planner.chain, transcript.steps, strict=True):
        if steps:
            scope.steps.append(Part(copy, steps))
    planner.inside[copy] = transcript.specs
