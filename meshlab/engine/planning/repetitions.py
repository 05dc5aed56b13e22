"""Plans repeated layers once (memoisation): one plan for all repetitions whose interfaces are in the same state.

The plan of a repetition follows from the state of its interface: the specs in which its live-ins are at hand, and the
target specs of these and of its live-outs. The stretch is planned in the numbers of the representative, from that
state; a `CachedPlan` of its steps, producers' specs and the state that it leaves serves every repetition that starts
from the same state. Of 32 layers the first two or three are planned, and the others repeat the last.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable

from ..code.operations import Operation
from ..programs.outline import Repetition
from ..specs.spec import Spec
from .planned import CachedPlan, InterfaceState, PlannedBlock
from .planner import Planner
from .steps import Repeated

# Plans one operation into a scope.
Plan = Callable[[Planner, PlannedBlock, Operation], None]


def plan_repetition(planner: Planner, repetition: Repetition, plan: Plan):
    """Plans a repetition: takes the cached plan of one in the same state, or plans it in the numbers of the first."""
    targets, inside, first = planner.targets, planner.target_specs.inside[repetition], repetition.representative
    states = _states(planner, repetition.live_ins)
    after = tuple(map(targets.get, repetition.live_outs))
    state = planner.state
    hoped = tuple(i for i, v in enumerate(repetition.live_ins) if v in state.hoped) if state.hoped else ()
    key = (first, len(state.chain), id(inside), hoped, states, after)
    cached = state.cached_plans.get(key)
    if cached is None:
        inner = _inner(planner, repetition, states, after)
        inner.state.hoped = frozenset(first.live_ins[i] for i in hoped)
        cached = state.cached_plans[key] = _planned(inner, first, states, plan)
    _apply(planner, repetition, cached)


def _states(planner: Planner, values: Iterable[int]) -> tuple[InterfaceState, ...]:
    """Returns the states of values; the target specs of partial sums alone, for only those are reduced."""
    spec_of, scope_of, targets = planner.state.specs.get, planner.state.scope_of.get, planner.targets.get
    states = []
    for value in values:
        spec, scope = spec_of(value), scope_of(value)
        target = targets(value) if spec is not None and spec.partial else None
        at_hand = (-1, ()) if scope is None else (scope.depth, scope.available.get(value, ()))
        states.append((spec, *at_hand, target))
    return tuple(states)


def _inner(
    planner: Planner, repetition: Repetition, states: tuple[InterfaceState, ...], live_outs: tuple[Spec | None, ...]
) -> Planner:
    """Returns a planner of the representative alone, for an interface in given states."""
    inner, first = copy.copy(planner), repetition.representative
    inner.state = planner.state.apart()
    targets = zip(first.interface, (*(target for *_, target in states), *live_outs), strict=True)
    inner.targets = planner.target_specs.inside[repetition] | {v: target for v, target in targets if target is not None}
    for value, state in zip(first.live_ins, states, strict=True):
        _set(inner, value, state)
    return inner


def _set(planner: Planner, value: int, state: InterfaceState):
    spec, depth, available, _ = state
    if spec is not None:
        planner.state.specs[value] = spec
    if depth >= 0:
        scope = planner.state.scope_of[value] = planner.state.chain[depth]
        scope.available[value] = available
        if value in planner.materialisable:
            planner.state.deferred[value] = planner.program.makers[value]


def _planned(inner: Planner, representative: Repetition, states: tuple[InterfaceState, ...], plan: Plan) -> CachedPlan:
    for operation in representative.operations:
        plan(inner, inner.state.chain[-1], operation)
    after = _states(inner, representative.interface)
    changed = [(i, state) for i, state in enumerate(after) if i >= len(states) or state != states[i]]
    return CachedPlan(tuple(tuple(scope.steps) for scope in inner.state.chain), inner.state.specs, tuple(changed))


def _apply(planner: Planner, repetition: Repetition, cached: CachedPlan):
    """Gives a repetition the steps, producers' specs and interface of a cached plan."""
    for position, state in cached.interface:
        _set(planner, repetition.interface[position], state)
    for scope, steps in zip(planner.state.chain, cached.steps, strict=True):
        if steps:
            scope.steps.append(Repeated(repetition, steps))
    planner.state.inside[repetition] = cached.specs
