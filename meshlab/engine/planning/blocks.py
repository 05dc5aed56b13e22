"""Plans blocks, and the operations that have some: loops, branches, and regions rematerialised behind a barrier.

A loop's carry must have one spec, going in and coming out. It starts from the spec of what comes in (zeros from the one
that is the target of the result), is joined with the spec in which the body returns it (an axis stays split only as far
as both are), and the body is planned anew until nothing changes. A carry that starts from zero may be partial: so
gradients accumulate over steps and are reduced once. Whether partial sums gather in it is decided by planning the body
once as if it were still zero.

The test of a loop and the index of a branch are replicated, so that all devices decide alike. The branches of a `cond`
return their results in one spec, the one for which they send least: a result that is replicated in one is sliced there,
rather than gathered in another. Values that they read from outside are moved in front of them.
"""

from __future__ import annotations

from ..code.loops import LOOPS, carried, trip_count
from ..code.operations import Block, Input, Operation, walk
from ..collectives.chains import reshard
from ..collectives.reshard import price, reduced_spec
from ..programs.outline import Repetition
from ..specs.spec import Axes, Spec, replicated, split_count
from .planned import PlannedBlock
from .planner import Planner
from .propagation import carry_may_be_partial, entering, may_stay_partial
from .repetitions import plan_repetition
from .shared_steps import counted_only
from .steps import Cause, Inside, Move, Nested


def run(planner: Planner, scope: PlannedBlock, block: Block):
    """Plans the operations of a block into a scope."""
    planner.state.chain.append(scope)
    for item in planner.outline.get(block, block.operations):
        if isinstance(item, Repetition):
            plan_repetition(planner, item, plan)
        else:
            plan(planner, scope, item)
    planner.state.chain.pop()


def plan(planner: Planner, scope: PlannedBlock, operation: Operation):
    if operation.blocks:
        plan_nested(planner, scope, operation)
    else:
        planner.operation(scope, operation)


def _before(planner: Planner, value: Input, keep_partial: bool = False) -> Spec:
    """Returns the spec in which a block reads a value; a partial sum is reduced first unless it may stay one."""
    spec = planner.spec_or_default(value)
    if spec.partial and isinstance(value, int) and not keep_partial:
        spec = planner.reduce(value)
    return spec


def _start(planner: Planner, operation: Operation, value: Input, inner: int) -> Spec:
    """Returns the spec from which a carry starts: zeros, which can be made in any spec, in its target spec.

    An argument is stored without its axis in time; what is carried on from it is an iteration's block of it.
    """
    spec = _before(planner, value)
    if planner.rules.in_time:
        spec = _in_time(planner, spec, operation, inner)
    target = planner.targets.get(inner)
    if planner.spec_of(value) is not None or not isinstance(value, int) or target is None:
        return spec
    return target.reduced() if split_count(target, planner.sizes) > split_count(spec, planner.sizes) else spec


def _in_time(planner: Planner, spec: Spec, operation: Operation, inner: int) -> Spec:
    """Returns a carry's spec with the axis in time behind those that split its dims, where the loop's rules have it."""
    rules = planner.rules.within(operation.scope)
    free = planner.rules.in_time.keys() - {*spec.axes, *spec.partial}
    splits = []
    for have, name in zip(spec.splits, planner.names[inner], strict=True):
        wanted = rules.get(name or "", ())
        splits.append(wanted if wanted[: len(have)] == have and free.issuperset(wanted[len(have) :]) else have)
    return Spec(tuple(splits), spec.partial)


def _read(planner: Planner, values: tuple[Input, ...], specs: list[Spec], cause: Cause) -> tuple[Spec | None, ...]:
    """Makes values available in the specs in which a block reads or returns them."""
    for value, spec in zip(values, specs, strict=True):
        planner.obtain(value, spec, cause)
    return tuple(s if isinstance(v, int) else None for v, s in zip(values, specs, strict=True))


def plan_nested(planner: Planner, scope: PlannedBlock, operation: Operation):
    waiting = _waiting_outside(planner, operation) if planner.rules.in_time else []
    step = _nested(planner, operation) if not waiting else _nested_of_sums(planner, operation, waiting)
    scope.steps.append(step)
    for value, spec in zip(operation.outputs, step.results, strict=True):
        planner.arrive(scope, value, spec)


def _nested(planner: Planner, operation: Operation) -> Nested:
    if operation.name in LOOPS:
        return _loop(planner, operation)
    return _branches(planner, operation) if operation.name == "cond" else _barrier(planner, operation)


def _waiting_outside(planner: Planner, operation: Operation) -> list[int]:
    """Returns the partial sums over an axis in time that an operation with blocks reads from outside of them."""
    inside = [each for block in operation.blocks for each in walk(block)]
    blocks = (*operation.blocks, *(block for each in inside for block in each.blocks))
    read = [*operation.inputs, *(v for each in inside for v in each.reads), *(v for b in blocks for v in b.outputs)]
    in_time = planner.rules.in_time.keys()
    # What is made inside has no spec yet.
    specs = ((value, planner.spec_of(value)) for value in dict.fromkeys(v for v in read if isinstance(v, int)))
    return [value for value, spec in specs if spec is not None and not in_time.isdisjoint(spec.partial)]


def _nested_of_sums(planner: Planner, operation: Operation, waiting: list[int]) -> Nested:
    """Plans an operation whose blocks read sums over time: if they cannot wait inside, they are made in front.

    `lax.cond(finite, lambda: w - rate * grad, lambda: w)` may skip an update: `rate * grad` could still wait, the
    branch cannot. A block runs in an iteration or after all of them, not half of it in each.
    """
    saved = planner.state.saved()
    step = _nested(planner, operation)
    if not _sums_in_time(planner, step):
        return step
    planner.state.restore(saved)
    # All of them: one that goes in partial makes what it meets inside wait, too.
    for value in waiting:
        planner.reduce_to(value, (), Cause("sum", operation))
    summed = _nested(planner, operation)
    if not _sums_in_time(planner, summed):
        return summed
    planner.state.restore(saved)  # the blocks make such sums themselves, whatever comes in: that is refused
    return _nested(planner, operation)


def _sums_in_time(planner: Planner, step: Nested) -> bool:
    """Says whether blocks need a sum over an axis in time whole."""
    moves = (each for each, _ in counted_only(Move, [step]))
    return any(axis in move.via.axes for move in moves for axis in planner.rules.in_time if axis in move.start.partial)


def _enter(planner: Planner, block: Block, specs: list[Spec]) -> PlannedBlock:
    """Plans a block for inputs in given specs."""
    inside = PlannedBlock(len(planner.state.chain))
    for value, spec in zip(block.inputs, specs, strict=True):
        planner.arrive(inside, value, spec)
    run(planner, inside, block)
    return inside


def _barrier(planner: Planner, operation: Operation) -> Nested:
    """Plans a rematerialised region: it shares nothing with the operations outside, for its purpose is to run again."""
    (body,) = operation.blocks
    keep = [may_stay_partial(planner.uses, i) for i in body.inputs]
    specs = [_before(planner, v, k) for v, k in zip(operation.inputs, keep, strict=True)]
    operands = _read(planner, operation.inputs, specs, Cause("operand", operation))
    inside = _enter(planner, body, specs)
    results = [planner.spec_or_default(v) for v in body.outputs]
    returned = _read(planner, body.outputs, results, Cause("carry", operation))
    return Nested(operation, operands, tuple(results), (Inside(tuple(specs), returned, tuple(inside.steps)),))


def _branches(planner: Planner, operation: Operation) -> Nested:
    """Plans branches: each by itself, returning its results in a spec that all can have."""
    operands = _read(planner, operation.inputs, [replicated(0)], Cause("operand", operation))
    scopes = [_enter(planner, branch, []) for branch in operation.blocks]
    results = [_returned(planner, vs) for vs in zip(*(branch.outputs for branch in operation.blocks), strict=True)]
    blocks = []
    for branch in operation.blocks:
        for value, spec in zip(branch.outputs, results, strict=True):
            spec_made = planner.spec_of(value)
            summed = spec_made is not None and spec_made.partial != spec.partial
            planner.obtain(value, spec, Cause("sum" if summed else "branch", operation))
        blocks.append(tuple(s if isinstance(v, int) else None for v, s in zip(branch.outputs, results, strict=True)))
    insides = tuple(Inside((), returned, tuple(s.steps)) for s, returned in zip(scopes, blocks, strict=True))
    return Nested(operation, operands, tuple(results), insides)


def _returned(planner: Planner, values: tuple[Input, ...]) -> Spec:
    """Returns the spec in which all branches return one result: they send least for it, and then what follows does."""
    pairs = [(v, spec) for v in values if isinstance(v, int) and (spec := planner.spec_of(v)) is not None]
    if not pairs:
        return planner.spec_or_default(values[0]).reduced()
    specs = [spec for _, spec in pairs]
    alike = len(specs) == len(values) and len({spec.partial for spec in specs}) == 1
    partial = specs[0].partial if alike else ()
    resolved = (
        specs if alike else [reduced_spec(spec, planner.targets.get(v), planner.rules.in_time) for v, spec in pairs]
    )
    # A spec that all slice to sends nothing; else some branch has to move, to the spec of another.
    candidates = dict.fromkeys((_most_split(resolved, partial), *resolved))

    target = next((planner.targets[v] for v, _ in pairs if v in planner.targets), None)

    def sent(start: Spec, target: Spec) -> float:
        return price(reshard(start, target, planner.sizes), planner.sizes)

    def cost(spec: Spec) -> tuple[float, float, int]:
        inside = sum(sent(start, spec) for start in specs)
        return inside, sent(spec, target) if target is not None else 0.0, -split_count(spec, planner.sizes)

    return min(candidates, key=cost)


def _most_split(specs: list[Spec], partial: Axes) -> Spec:
    """Returns the spec that all can be sliced to; an axis that some shard otherwise than others is replicated."""
    used, splits = set(partial), []
    for alternatives in zip(*(spec.splits for spec in specs), strict=True):
        longest = max(alternatives, key=len)
        fits = used.isdisjoint(longest) and all(longest[: len(split)] == split for split in alternatives)
        splits.append(longest if fits else ())
        used.update(splits[-1])
    return Spec(tuple(splits), partial)


def _loop(planner: Planner, operation: Operation) -> Nested:
    """Plans a loop: looks for the carry's fixpoint, then plans the body for good."""
    body, count = operation.blocks[0], carried(operation)
    starts = [_start(planner, operation, v, i) for v, i in zip(operation.inputs[:count], body.inputs, strict=False)]
    stacked = [_before(planner, v) for v in operation.inputs[count:]]
    along = _stages(planner, operation)
    stacked = [Spec((along, *s.splits[1:]), s.partial) for s in stacked]
    zero = [carry_may_be_partial(planner.uses, v, i, planner.is_zero) for v, i, _ in entering(operation, body)]
    saved, hoped = planner.state.saved(), planner.state.hoped
    # In the first rounds carries of zeros are hoped to be zeros in every iteration, so that what the body adds to them
    # stays partial. It ends: dims only lose axes (`_join`), and what did not stay as partial is not tried again.
    hoping = any(zero[:count])
    while True:
        inner = [*starts, *(Spec(s.splits[1:], s.partial) for s in stacked)]
        carries = zip(body.inputs, starts, zero, strict=False)
        tried = frozenset(v for v, s, z in carries if hoping and z and not s.partial)
        planner.state.hoped = hoped | tried
        inside, outputs = _plan_body(planner, operation, inner)
        planner.state.hoped = hoped
        joined = [
            _join(start, after, may) for start, after, may in zip(starts, outputs[:count], zero[:count], strict=True)
        ]
        # Under a hope the body was planned for what may not be so: a fixpoint counts only where none was left.
        if joined == starts and not tried:
            break
        hoping = hoping and joined != starts
        # A carry that did not stay as partial as it came in is not tried as a partial sum again.
        zero = [z and (not s.partial or s.partial == j.partial) for z, s, j in zip(zero, starts, joined, strict=False)]
        starts = [j if z else _waiting(planner, s, j) for z, s, j in zip(zero, starts, joined, strict=False)]
        planner.state.restore(saved)
    operands = _read(planner, operation.inputs, [*starts, *stacked], Cause("operand", operation))
    returned = _read(planner, body.outputs, [*starts, *outputs[count:]], Cause("carry", operation))
    blocks = (Inside(tuple(inner), returned, tuple(inside.steps)), *_test(planner, operation, starts))
    results = (*starts, *(Spec((along, *s.splits), s.partial) for s in outputs[count:]))
    return Nested(operation, operands, results, blocks, _times(planner, operation, along))


def _times(planner: Planner, operation: Operation, along: Axes) -> int:
    """Returns how often a loop's body runs at once: on stages for the layers of a chunk, the most that one has."""
    times = trip_count(operation) or 1
    for axis in along:
        stages = planner.rules.stages[axis]
        times = max(stages.uneven) if stages.uneven else times // (stages.size * stages.chunk_count)
    return times


def _stages(planner: Planner, operation: Operation) -> Axes:
    """Returns the axis of stages that a scan's dim is on: each stage runs its own layers; () for any other loop."""
    if not planner.rules.stages or operation.name != "scan":
        return ()
    count = carried(operation)
    stacks = [v for v in (*operation.inputs[count:], *operation.outputs[count:]) if isinstance(v, int)]
    every = (planner.rules.spec((planner.names[value][0],)).splits[0] for value in stacks)
    return next((axes for axes in every if any(axis in planner.rules.stages for axis in axes)), ())


def _test(planner: Planner, operation: Operation, starts: list[Spec]) -> tuple[Inside, ...]:
    """Plans the test of a `while`, for carries in given specs."""
    if operation.name != "while":
        return ()
    test = operation.blocks[1]
    inside = _enter(planner, test, starts)
    returned = _read(planner, test.outputs, [replicated(0)], Cause("operand", operation))
    return (Inside(tuple(starts), returned, tuple(inside.steps)),)


def _plan_body(planner: Planner, operation: Operation, inner: list[Spec]) -> tuple[PlannedBlock, list[Spec]]:
    """Plans a loop's body for carries and slices in given specs; returns its scope and its outputs' specs."""
    body, count = operation.blocks[0], carried(operation)
    inside = _enter(planner, body, inner)
    outputs = []
    for position, value in enumerate(body.outputs):
        spec = planner.spec_or_default(value)
        if position >= count and spec.partial and isinstance(value, int):
            # What is stacked stays partial until after the loop, unless its target is split: then it is reduced and
            # scattered step by step, so that the whole stack is never held.
            target = reduced_spec(spec, planner.targets.get(value), planner.rules.in_time)
            if split_count(target, planner.sizes) > split_count(spec, planner.sizes):
                spec = planner.reduce(value, Cause("sum", operation))
        elif position >= count and isinstance(value, int) and not spec.partial:
            spec = _stacked(planner, inside, value, operation.outputs[position], spec)
        outputs.append(spec)
    return inside, outputs


def _stacked(planner: Planner, inside: PlannedBlock, value: int, stack: int, spec: Spec) -> Spec:
    """Returns the spec in which an iteration returns its part of a stack: one at hand, if later scopes read it so."""
    target = planner.targets.get(stack)
    if not planner.rules.scopes or target is None:
        return spec
    wanted = Spec(target.splits[1:])
    at_hand = inside.available.get(planner.original_of.get(value, value), ())
    return wanted if wanted in at_hand else spec


def _join(start: Spec, after: Spec, may_be_partial: bool) -> Spec:
    """Returns the spec that both sides of a carry can have: each axis as far as both shard it."""
    splits = []
    for a, b in zip(start.splits, after.splits, strict=True):
        shared = next((k for k, (x, y) in enumerate(zip(a, b, strict=False)) if x != y), min(len(a), len(b)))
        splits.append(a[:shared])
    return Spec(
        tuple(splits), after.partial if may_be_partial else tuple(a for a in after.partial if a in start.partial)
    )


def _waiting(planner: Planner, start: Spec, joined: Spec) -> Spec:
    """Returns the spec of a carry that does not start from zero: partial only over an axis in time, as it came in."""
    in_time = planner.rules.in_time
    return Spec(joined.splits, tuple(a for a in joined.partial if a in in_time and a in start.partial))
