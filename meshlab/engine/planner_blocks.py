"""Planning blocks: scans, and pieces that are recomputed behind a barrier.

A scan's carry must have one spec, going in and coming out. It starts from the spec of what comes in, is joined with
what the body makes of it (an axis stays split only as far as both are), and the body is planned anew until nothing
changes. A carry that starts from zero may be partial: so gradients accumulate over steps and are reduced once. Whether
partial sums gather in it is found by planning the body once as if it were still zero.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from .code import Input, Operation
from .relayout import resolution
from .scope import Scope
from .spec import Spec, split_count
from .steps import Barrier, Cause, Loop

if TYPE_CHECKING:
    from .planner import Planner


def _before(planner: Planner, value: Input, keep_partial: bool = False) -> Spec:
    """The spec in which a block reads a value; a partial sum is resolved first unless it may be kept."""
    spec = planner.natural(value)
    if spec.partial and isinstance(value, int) and not keep_partial:
        spec = planner.resolve(value)
    return spec


def _read(planner: Planner, values: tuple[Input, ...], specs: list[Spec], cause: Cause) -> tuple[Spec | None, ...]:
    """Makes values available in the specs in which a block reads or returns them."""
    for value, spec in zip(values, specs, strict=True):
        planner.obtain(value, spec, cause)
    return tuple(s if isinstance(v, int) else None for v, s in zip(values, specs, strict=True))


def plan_barrier(planner: Planner, scope: Scope, operation: Operation):
    """Plans a recomputed piece; nothing is shared with what is outside, since that it runs again is its purpose."""
    body = operation.body
    assert body is not None
    keep = [planner.uses[i] == 1 for i in body.inputs]
    specs = [_before(planner, v, k) for v, k in zip(operation.inputs, keep, strict=True)]
    operands = _read(planner, operation.inputs, specs, Cause("operand", operation))
    inside = Scope()
    for value, spec in zip(body.inputs, specs, strict=True):
        planner.arrive(inside, value, spec)
    planner.run(inside, body)
    outputs = [planner.natural(v) for v in body.outputs]
    returned = _read(planner, body.outputs, outputs, Cause("carry", operation))
    scope.steps.append(Barrier(operation, operands, tuple(specs), returned, tuple(inside.steps)))
    for value, spec in zip(operation.outputs, outputs, strict=True):
        planner.arrive(scope, value, spec)


def plan_scan(planner: Planner, scope: Scope, operation: Operation):
    """Plans a scan: looks for the carry's fixpoint, then plans the body for good."""
    body, carried = operation.body, operation.params["num_carry"]
    assert body is not None
    starts = [_before(planner, v) for v in operation.inputs[:carried]]
    stacked = [_before(planner, v) for v in operation.inputs[carried:]]
    stacked = [Spec(((), *s.splits[1:])) for s in stacked]
    zero = [planner.is_zero(v) and planner.uses[i] == 1 for v, i in zip(operation.inputs, body.inputs, strict=False)]
    saved, hoped = _save(planner), planner.hoped
    hoping = any(zero[:carried])
    while True:
        inner = [*starts, *(Spec(s.splits[1:]) for s in stacked)]
        tried = zip(body.inputs, starts, zero, strict=False)
        planner.hoped = hoped.union(v for v, s, z in tried if hoping and z and not s.partial)
        inside, made = _plan_body(planner, operation, inner)
        planner.hoped = hoped
        joined = [
            _join(start, after, may) for start, after, may in zip(starts, made[:carried], zero[:carried], strict=True)
        ]
        if joined == starts and not hoping:
            break
        hoping = hoping and joined != starts
        # A carry that did not stay as partial as it came in is not tried as a partial sum again.
        zero = [z and (not s.partial or s.partial == j.partial) for z, s, j in zip(zero, starts, joined, strict=False)]
        starts = [j if z else j.resolved() for z, j in zip(zero, joined, strict=False)]
        _restore(planner, saved)
    operands = _read(planner, operation.inputs, [*starts, *stacked], Cause("operand", operation))
    returned = _read(planner, body.outputs, [*starts, *made[carried:]], Cause("carry", operation))
    scope.steps.append(Loop(operation, operands, tuple(inner), returned, tuple(inside.steps)))
    outer = [*starts, *(Spec(((), *s.splits), s.partial) for s in made[carried:])]
    for value, spec in zip(operation.outputs, outer, strict=True):
        planner.arrive(scope, value, spec)


def _plan_body(planner: Planner, operation: Operation, inner: list[Spec]) -> tuple[Scope, list[Spec]]:
    """Plans a scan's body for carries and slices in given specs; returns its scope and its outputs' specs."""
    body, carried = operation.body, operation.params["num_carry"]
    assert body is not None
    inside = Scope()
    for value, spec in zip(body.inputs, inner, strict=True):
        planner.arrive(inside, value, spec)
    planner.run(inside, body)
    made = []
    for position, value in enumerate(body.outputs):
        spec = planner.natural(value)
        if position >= carried and spec.partial and isinstance(value, int):
            # What is stacked stays partial until after the loop, unless it is wanted split: then it is reduced and
            # scattered step by step, so that the whole stack is never held.
            target = resolution(spec, planner.wants.get(value))
            if split_count(target, planner.sizes) > split_count(spec, planner.sizes):
                spec = planner.resolve(value, Cause("sum", operation))
        made.append(spec)
    return inside, made


def _join(start: Spec, after: Spec, may_be_partial: bool) -> Spec:
    """The spec that both sides of a carry can have: each axis as far as both split it."""
    splits = []
    for a, b in zip(start.splits, after.splits, strict=True):
        shared = next((k for k, (x, y) in enumerate(zip(a, b, strict=False)) if x != y), min(len(a), len(b)))
        splits.append(a[:shared])
    return Spec(tuple(splits), after.partial if may_be_partial else ())


def _save(planner: Planner):
    """What must be put back before a body is planned again: homes, and what has been moved in the blocks around."""
    scopes = [(s, len(s.steps), dict(s.available)) for s in planner.chain]
    return dict(planner.home), scopes


def _restore(planner: Planner, saved):
    home, scopes = saved
    planner.home = dict(home)
    for scope, count, available in scopes:
        del scope.steps[count:]
        scope.available = dict(available)
