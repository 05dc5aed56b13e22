"""Counts the collectives inside per-shard implementations, without running them.

A per-shard implementation (`rules/per_shard.py`) is a function of shards that asks its device for data of the others.
Here it is traced on shapes alone, for a device that marks every request; the plan counts and shows the marks.

A compiler computes equal things once, collectives too: a convolution and the gradient of its filter ask for the same
edges of the same value, which are sent once. So each collective also says how its operand is derived, and from which
shards (`derivation`), and of those that send the same the first one counts.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.extend.core import Literal as JaxLiteral
from jax.extend.core import Primitive

from ..code.operations import Code, Literal, Operation, nbytes
from ..collectives.device import Device
from ..collectives.kinds import Kind, Sending
from ..collectives.routes import Shifted
from ..jax_compat import call, needed, nested, opened, scan_options, with_shape
from ..passes.common_subexpressions import per_shard_key
from ..planning.shared_steps import counted
from ..planning.step import Inner, Step
from ..planning.steps import Compute, Move, Repeated
from ..programs.outline import Repetition
from ..programs.program import Program, analysis
from ..rules import Factors
from ..rules.per_shard import PER_SHARD, ShardedOperation
from ..rules.traits import TRAITS
from ..specs.spec import Axes, Grid, Spec, local_shape


class PerShardCollective(NamedTuple):
    """One collective of a per-shard implementation.

    Attributes:
        kind: which.
        asked: what a device asks of the others.
        shape: of its operand on one device.
        dtype: of its operand.
        derivation: of its operand, from shards named by their order in `reads`.
        reads: the positions of those among the operation's operands.
        times: how often the implementation sends it.
    """

    kind: Kind
    asked: Sending
    shape: tuple[int, ...]
    dtype: Any
    derivation: str
    reads: tuple[int, ...]
    times: int = 1

    @property
    def axes(self) -> Axes:
        """The mesh axes, major first."""
        return self.asked.axes

    @property
    def turns(self) -> int:
        """How often it goes around in a row: of what is sent on in a loop, from each device to the next."""
        around = isinstance(self.asked.route, Shifted) and self.asked.route.wrap
        return self.times if around else 1

    @property
    def payload_bytes(self) -> int:
        """The bytes of its operand on one device."""
        return nbytes(math.prod(self.shape), self.dtype)


_asked = Primitive("asked")
_asked.def_abstract_eval(lambda x, *, answer, **_: with_shape(x, answer))


class _Recorder(Device):
    """A device that marks each request; its answers have the right shape."""

    def index(self, axes: Axes) -> Any:
        return _asked.bind(jnp.zeros((), jnp.int32), kind=None, asked=Sending(axes), answer=())

    def send(self, kind: Kind, x: Any, asked: Sending) -> Any:
        count = math.prod(self.sizes[axis] for axis in asked.axes)
        return _asked.bind(x, kind=kind, asked=asked, answer=kind.answer(x.shape, asked, count))


def sharded_operation(step: Compute, code: Code) -> ShardedOperation:
    """Returns the operation of a step as its per-shard implementation sees it."""
    operation = step.operation
    return ShardedOperation(
        operation,
        tuple(code.shape_of(i) for i in operation.inputs),
        tuple(code.shapes[o] for o in operation.outputs),
        tuple(spec or Spec(()) for spec in step.operands),
        step.results,
    )


def neutral_axes(sharded: ShardedOperation, factors: Factors, grid: Grid) -> list[tuple[int, ...]]:
    """Returns, for each operand, the axes along which its padding is made neutral before the operation runs."""
    mixing = factors.summed | factors.per_shard
    return [
        tuple(
            axis
            for axis, (factor, size, split) in enumerate(zip(axes, shape, spec.splits, strict=True))
            if grid.padded_size(size, split) != size and (factor in mixing or factors.sends(position, factor))
        )
        for position, (shape, spec, axes) in enumerate(
            zip(sharded.operand_shapes, sharded.operands, factors.operands, strict=True)
        )
    ]


class _Walk:
    """One walk over the steps of a plan, which finds the collectives of its operations that were not sent before.

    Attributes:
        counts: by operation, its collectives and how often each is sent; of repetitions alike under those of the first.
    """

    def __init__(self, program: Program, sizes: Grid):
        self.program, self.sizes = program, sizes
        self.counts: dict[Operation, dict[PerShardCollective, int]] = {}
        # The repetition that is walked, and the first one with the same steps.
        self.repetition: Repetition | None = None
        self.first: Repetition | None = None
        self.firsts: dict[int, Repetition] = {}
        # Whether anything is sent in steps that repetitions share.
        self.sending: dict[int, bool] = {}
        self.seen: set[tuple] = set()
        # The loop in which a value was made, counted from outside, and the trip count of each.
        self.depth: dict[int, int] = {}
        self.times = [1]
        # The loop in which a value from outside is gathered again in each iteration, by the spec that it has then.
        self.moved: dict[tuple[int, Spec], int] = {}
        # The loop over an axis in time that is walked.
        self.iterated_over: Step | None = None

    def steps(self, steps: Iterable[Step]):
        for step in steps:
            if step.per_shard or step.shared or (self.iterated_over and step.named is not None):
                _WALK[type(step)](self, step)
            for part in step.parts:
                self.part(step, part)
            if step.runs:
                self.note_depth(step.runs.outputs)

    def repeated(self, repeated: Repeated):
        key = id(repeated.steps)
        if key not in self.sending:
            self.sending[key] = any(step.per_shard for step, _ in counted(repeated.steps))
        if self.sending[key]:
            self.repetition, self.first = repeated.repetition, self.firsts.setdefault(key, repeated.repetition)
            self.steps(repeated.steps)
            self.repetition = self.first = None
        else:
            self.note_depth(repeated.repetition.produced)

    def walked(self, value: int) -> int:
        """Returns a value in the numbers of the repetition that is walked."""
        return value if self.repetition is None else self.repetition.from_representative[value]

    def note_depth(self, values: Iterable[int]):
        if len(self.times) > 1:
            self.depth.update(dict.fromkeys(map(self.walked, values), len(self.times) - 1))

    def depth_of(self, value: int, spec: Spec | None) -> int:
        """Returns the loop in which a value is known in a spec: a block of an axis in time in an iteration alone."""
        axis = self.iterated_over.in_time if self.iterated_over else None
        in_time = axis is not None and spec is not None and (axis in spec.axes or axis in spec.partial)
        moved = self.moved.get((value, spec), 0) if spec is not None else 0
        return max(self.depth.get(value, 0), moved, int(in_time))

    def move(self, step: Move):
        """Notes that a value is in another spec in this loop alone: what is sent in it is not known in front of it."""
        value = self.walked(self.program.original_of.get(step.value, step.value))
        depth = len(self.times) - 1 if step.collective else self.depth_of(value, step.start)
        self.moved[value, step.via.result] = depth

    def part(self, step: Step, part: Inner):
        if step.loops:
            self.times.append(self.times[-1] * part.times)
        if step.in_time:
            self.iterated_over = step
        self.note_depth(value for value in part.given[0] if isinstance(value, int))
        self.steps(part.steps)
        if step.in_time:
            self.iterated_over = None
        if step.loops:
            self.times.pop()

    def compute(self, step: Compute):
        operation, original_of = step.operation, self.program.original_of
        neutral = self.neutral(step) if self.sizes.padded else {}
        counts = self.counts.setdefault(operation if self.first is None else self.first.counterparts[operation], {})
        for collective in self.collectives(step):
            sent = []
            for position in collective.reads:
                value, spec = operation.inputs[position], step.operands[position]
                number = self.walked(original_of.get(value, value)) if isinstance(value, int) else None
                sent.append((number, spec, neutral.get(position)))
            # A value from outside a loop is sent once, in front of it; nothing of two loops is sent together.
            deepest = max((self.depth_of(v, spec) for v, spec, _ in sent if v is not None), default=0)
            key = (collective.derivation, tuple(sent), id(self.iterated_over) if deepest else None)
            if key not in self.seen:
                self.seen.add(key)
                times = collective.times * self.times[min(deepest, len(self.times) - 1)]
                counts[collective] = counts.get(collective, 0) + times

    def neutral(self, step: Compute) -> dict[int, tuple]:
        """Returns, by operand, along which axes its padding is made neutral, and for what: it is another array then."""
        operation = step.operation
        axes = neutral_axes(sharded_operation(step, self.program.code), self.program.factors[operation], self.sizes)
        return {position: (each, TRAITS[operation.name].joins) for position, each in enumerate(axes) if each}

    def collectives(self, step: Compute) -> tuple[PerShardCollective, ...]:
        memo, key = _counted_before(self.program), (step.operation, step.operands, step.results, self.sizes.key)
        if key not in memo:
            memo[key] = _recorded(step, self.program, self.sizes)
        return memo[key]


# By the kind of step, what finds its collectives, or notes what it moves.
_WALK: dict[type[Step], Callable[[_Walk, Any], None]] = {
    Compute: _Walk.compute,
    Move: _Walk.move,
    Repeated: _Walk.repeated,
}


def per_shard_collectives_of(
    steps: Iterable[Step], program: Program, sizes: Grid
) -> dict[Operation, dict[PerShardCollective, int]]:
    """Returns the collectives inside the operations of a plan's steps.

    Returns:
        By operation, its collectives, in the order in which they are asked for, and how often each is sent. Those of
        repetitions alike stand under the operations of the first of them.
    """
    walk = _Walk(program, sizes)
    walk.steps(steps)
    return walk.counts


def traced(step: Compute, program: Program, sizes: Grid) -> Any:
    """Returns the jaxpr of a step's per-shard implementation, of the shards of those operands that are values.

    What it asks of other devices are equations of the primitive `asked`, whose parameter `kind` says what: a
    collective, or None, for the number of the part that the device holds. Operations alike have one jaxpr.
    """
    operation, code = step.operation, program.code
    used = tuple([program.uses[output] > 0 for output in operation.outputs])
    shapes = tuple([code.shape_of(value) for value in operation.inputs])
    dtypes = tuple([code.dtypes[value] for value in operation.inputs if not isinstance(value, Literal)])
    key = (per_shard_key(operation), shapes, dtypes, used, step.operands, step.results, sizes.key)
    memo = traced_implementations(program)
    if key not in memo:
        memo[key] = _traced(step, program, sizes, used)
    return memo[key]


@analysis
def traced_implementations(_program: Program) -> dict[Hashable, Any]:
    """Returns the memo of per-shard implementations that were traced before."""
    return {}


@analysis
def _counted_before(_program: Program) -> dict[tuple, tuple[PerShardCollective, ...]]:
    """Returns the memo of the collectives of per-shard implementations, by operation, specs and mesh."""
    return {}


def _traced(step: Compute, program: Program, sizes: Mapping[str, int], used: Sequence[bool]) -> Any:
    code, inputs = program.code, step.operation.inputs
    recorder, sharded = _Recorder(sizes), sharded_operation(step, code)
    given = [i for i, value in enumerate(inputs) if not isinstance(value, Literal)]
    shapes = [local_shape(sharded.operand_shapes[i], sharded.operands[i], sizes) for i in given]
    dtypes = [code.dtypes[value] for value in inputs if not isinstance(value, Literal)]

    def run(*arrays: Any) -> Sequence[Any]:
        waiting = iter(arrays)
        operands = [value.value if isinstance(value, Literal) else next(waiting) for value in inputs]
        return list(PER_SHARD[step.operation.name].run(recorder, sharded, operands))

    # No compiler sends what only unused results need.
    return needed(jax.make_jaxpr(run)(*map(jax.ShapeDtypeStruct, shapes, dtypes)), used)


def _recorded(step: Compute, program: Program, sizes: Grid) -> tuple[PerShardCollective, ...]:
    original_of, inputs = program.original_of, step.operation.inputs
    closed = traced(step, program, sizes)
    # Whichever operand of its operation a shard is, it is the same shard.
    shards = {i: (original_of.get(v, v), step.operands[i]) for i, v in enumerate(inputs) if not isinstance(v, Literal)}
    first = {shard: position for position, shard in reversed(shards.items())}
    alike = [first[shard] for shard in shards.values()]
    return tuple(_Trace(closed, alike).collectives())


class _Trace:
    """The jaxpr of a per-shard implementation: its marks, and the derivations of their operands.

    Args:
        closed: the jaxpr.
        operands: for each of its variables, which operand of the operation it is.
    """

    def __init__(self, closed: Any, operands: Sequence[int]):
        jaxpr = opened(closed)
        self.equations = jaxpr.equations
        self.operands = dict(zip(jaxpr.invars, operands, strict=True))
        self.constants = {v: _digest(np.asarray(c).tobytes()) for v, c in jaxpr.constants}
        self.makers = {out: (e, i) for e in self.equations for i, out in enumerate(e.outvars)}

    def collectives(self) -> Iterator[PerShardCollective]:
        """Yields the marked collectives, in order; of a loop those of an iteration, with how often it runs."""
        for equation in self.equations:
            found = list(_asked_by(equation))
            if found:
                slots: dict[int, int] = {}
                derivation, reads = self.derivation(equation.outvars[0], slots, {}), tuple(slots)
                for position, (each, times) in enumerate(found):
                    sent, asked = each.invars[0].aval, each.params["asked"]
                    own = derivation if each is equation else f"{derivation} {position}"
                    yield PerShardCollective(
                        each.params["kind"], asked, tuple(sent.shape), sent.dtype, own, reads, times
                    )

    def derivation(self, atom: Any, slots: dict[int, int], known: dict[Any, str]) -> str:
        """Writes how a value is derived; shards are named by the order in which they are met, stored in `slots`."""
        if isinstance(atom, JaxLiteral):
            return f"{atom.aval} {np.asarray(atom.val).tobytes()}"
        if atom in self.operands:
            return f"shard {slots.setdefault(self.operands[atom], len(slots))}"
        if atom in self.constants:
            return self.constants[atom]
        if atom not in known:
            equation, position = self.makers[atom]
            if _unchanged(equation):
                return self.derivation(equation.invars[0], slots, known)
            operands = [self.derivation(a, slots, known) for a in equation.invars]
            known[atom] = _digest(f"{equation.primitive} {equation.params} {position} {operands}".encode())
        return known[atom]


def _asked_by(equation: Any, times: int = 1) -> Iterator[tuple[Any, int]]:
    """Yields the equations that ask for a collective, this one or some inside it, with how often each runs.

    None may stand in a loop or a branch of which only running it tells how often it runs.
    """
    if equation.primitive is _asked:
        if equation.params["kind"] is not None:
            yield equation, times
        return
    inside, inner = nested(equation), call(equation)
    bodies = [body.jaxpr for body in inside.bodies] if inside else [] if inner is None else [inner]
    more = scan_options(equation)["length"] if equation.primitive.name == "scan" else 1
    for body in bodies:
        for within in opened(body).equations:
            for found in _asked_by(within, times * more):
                name = equation.primitive.name
                assert name not in ("while", "cond"), f"collectives inside `{name}` cannot be counted: use jax.lax.scan"
                yield found


def _unchanged(equation: Any) -> bool:
    """Whether an equation takes all of its operand, as compilers know."""
    traits = TRAITS.get(equation.primitive.name)
    if traits is None or not (traits.kind == "concatenate" or (traits.kind == "move" and traits.reads_part)):
        return False
    return equation.invars[0].aval.shape == equation.outvars[0].aval.shape


def _digest(data: bytes) -> str:
    return hashlib.sha1(data, usedforsecurity=False).hexdigest()
