"""Exchanges: the collectives that a local form asks for, counted without running it.

A local form is a function of shards that asks a device for what it needs of others. Here it is traced on shapes alone,
for a device that marks every request; the marks are what the plan counts and shows.

A compiler computes equal things once, collectives too: a convolution and the gradient of its filter ask for the same
edges of the same value, which are sent once. So each exchange also says how what it sends is made, and of which shards
(`made`), and of those that send the same the first one counts.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.extend.core import Literal as JaxLiteral
from jax.extend.core import Primitive

from ..code.loops import LOOPS
from ..code.operations import Code, Literal, Operation, nbytes
from ..jax_compat import needed, opened, with_shape
from ..passes.common_subexpressions import form_key
from ..planning.shared_steps import counted
from ..planning.steps import Compute, Move, Nested, Part, Step
from ..programs.data import Program, analysis
from ..programs.outline import Copy
from ..rules.local_forms import LOCAL_FORMS, Local
from ..rules.traits import TRAITS
from ..specs.spec import Axes, Grid, Spec, local_shape


class Exchange(NamedTuple):
    """One collective of a local form.

    Attributes:
        kind: all-reduce, all-gather or collective-permute.
        axes: the mesh axes, major first.
        shape: of its operand on one device.
        dtype: of its operand.
        made: how its operand is made, of shards told by their order in `reads`.
        reads: the positions of those among the operation's operands.
    """

    kind: str
    axes: Axes
    shape: tuple[int, ...]
    dtype: Any
    made: str
    reads: tuple[int, ...]

    @property
    def payload_bytes(self) -> int:
        """The bytes of its operand on one device."""
        return nbytes(math.prod(self.shape), self.dtype)


_asked = Primitive("asked")
_asked.def_abstract_eval(lambda x, *, answer, **told: with_shape(x, answer))


class _Recorder:
    """A device that marks what it is asked for; what it answers has the right shape."""

    def __init__(self, sizes: Mapping[str, int]):
        self.sizes = sizes

    def index(self, axes: Axes) -> Any:
        return _asked.bind(jnp.zeros((), jnp.int32), kind="index", axes=axes, answer=())

    def all_reduce(self, x: Any, axes: Axes, operation: str) -> Any:
        return _asked.bind(x, kind="all-reduce", axes=axes, operation=operation, answer=x.shape)

    def all_gather(self, x: Any, axes: Axes, axis: int) -> Any:
        count = math.prod(self.sizes[a] for a in axes)
        answer = (*x.shape[:axis], x.shape[axis] * count, *x.shape[axis + 1 :])
        return _asked.bind(x, kind="all-gather", axes=axes, axis=axis, answer=answer)

    def permute(self, x: Any, axes: Axes, distance: int, wrap: bool = False) -> Any:
        crossed = crossed_axes(axes, distance, wrap, self.sizes)
        if not crossed:
            whole_turn = wrap and distance % math.prod(self.sizes[a] for a in axes) == 0
            return x if not distance or whole_turn else jnp.zeros_like(x)
        around = math.prod(self.sizes[a] for a in axes)
        told = {"axes": crossed, "along": axes, "distance": distance % around if wrap else distance, "wrap": wrap}
        return _asked.bind(x, kind="collective-permute", **told, answer=x.shape)

    def mirrored(self, x: Any, axes: Axes) -> Any:
        crossed = tuple(sorted(a for a in axes if self.sizes[a] > 1))
        if math.prod(self.sizes[a] for a in crossed) == 2:
            return self.permute(x, crossed, 1, wrap=True)
        return _asked.bind(x, kind="collective-permute", axes=crossed, mirrored=True, answer=x.shape) if crossed else x


def crossed_axes(axes: Axes, distance: int, wrap: bool, sizes: Mapping[str, int]) -> Axes:
    """The mesh axes that a permute of so many parts crosses; none where nothing is sent.

    A distance that is a multiple of a minor axis leaves the place on that axis as it is.
    """
    count = math.prod(sizes[a] for a in axes)
    left = abs(distance % count if wrap else distance)
    if not left or left >= count:
        return ()
    crossed = list(axes)
    while crossed and left % sizes[crossed[-1]] == 0:
        left //= sizes[crossed.pop()]
    return tuple(crossed)


def local_of(step: Compute, code: Code) -> Local:
    """The operation of a step as its local form sees it."""
    operation = step.operation
    return Local(
        operation,
        tuple(code.shape_of(i) for i in operation.inputs),
        tuple(code.shapes[o] for o in operation.outputs),
        tuple(spec or Spec(()) for spec in step.operands),
        step.results,
    )


class _Walk:
    """One walk over the steps of a plan, which finds what each step sends, and what was sent before.

    Attributes:
        found: by operation, its exchanges and how often each is sent; of copies alike under those of the first.
    """

    def __init__(self, program: Program, sizes: Grid):
        self.program, self.sizes = program, sizes
        self.found: dict[Operation, dict[Exchange, int]] = {}
        # The copy that is walked, and the first one with the same steps.
        self.copy: Copy | None = None
        self.first: Copy | None = None
        self.firsts: dict[int, Copy] = {}
        # Whether anything is sent in steps that parts share.
        self.sending: dict[int, bool] = {}
        self.seen: set[tuple] = set()
        # The loop in which a value was made, counted from outside, and how often each turns.
        self.depth: dict[int, int] = {}
        self.times = [1]

    def steps(self, steps: Iterable[Step]):
        for step in steps:
            if isinstance(step, Compute):
                self.compute(step)
            if isinstance(step, Nested):
                self.nested(step)
            elif isinstance(step, Part):
                self.part(step)
            elif not isinstance(step, Move):
                self.made(step.operation.outputs)

    def part(self, part: Part):
        key = id(part.steps)
        if key not in self.sending:
            self.sending[key] = any(isinstance(step, Compute) and step.exchanged for step, _ in counted(part.steps))
        if self.sending[key]:
            self.copy, self.first = part.copy, self.firsts.setdefault(key, part.copy)
            self.steps(part.steps)
            self.copy = self.first = None
        else:
            self.made(part.copy.made)

    def own(self, value: int) -> int:
        """A value in the numbers of the copy that is walked."""
        return value if self.copy is None else self.copy.values[value]

    def made(self, values: Iterable[int]):
        if len(self.times) > 1:
            self.depth.update(dict.fromkeys(map(self.own, values), len(self.times) - 1))

    def nested(self, step: Nested):
        turning = step.operation.name in LOOPS
        for position, (block, inside) in enumerate(zip(step.operation.blocks, step.blocks, strict=True)):
            if turning:
                # A loop is tested once more than it turns.
                self.times.append(self.times[-1] * (step.times + (position == 1)))
            self.made(block.inputs)
            self.steps(inside.steps)
            if turning:
                self.times.pop()
        self.made(step.operation.outputs)

    def compute(self, step: Compute):
        if not step.exchanged:
            return
        operation, roots = step.operation, self.program.roots
        found = self.found.setdefault(operation if self.first is None else self.first.renamed[operation], {})
        for exchange in self.exchanges(step):
            sent = []
            for position in exchange.reads:
                value, spec = operation.inputs[position], step.operands[position]
                sent.append((self.own(roots.get(value, value)) if isinstance(value, int) else None, spec))
            key = (exchange.made, tuple(sent))
            if key not in self.seen:
                self.seen.add(key)
                # What is sent of a value from outside a loop is sent once, in front of it.
                deepest = max((self.depth.get(v, 0) for v, _ in sent if v is not None), default=0)
                found[exchange] = found.get(exchange, 0) + self.times[min(deepest, len(self.times) - 1)]

    def exchanges(self, step: Compute) -> tuple[Exchange, ...]:
        memo, key = _counted_before(self.program), (step.operation, step.operands, step.results, self.sizes.key)
        if key not in memo:
            memo[key] = _recorded(step, self.program, self.sizes)
        return memo[key]


def exchanges_of(steps: Iterable[Step], program: Program, sizes: Grid) -> dict[Operation, dict[Exchange, int]]:
    """Returns what the steps of a plan send in their local forms.

    Args:
        steps: of a plan.
        program: its program.
        sizes: the mesh axes' sizes.

    Returns:
        By operation, its exchanges, in the order in which they are asked for, and how often each is sent. What copies
        alike send stands under the operations of the first of them.
    """
    walk = _Walk(program, sizes)
    walk.steps(steps)
    return walk.found


def traced(step: Compute, program: Program, sizes: Grid) -> Any:
    """Returns the jaxpr of a step's local form, of the shards of those operands that are values.

    What it asks of other devices are equations of the primitive `asked`, whose parameter `kind` says what: a
    collective, or "index", the number of the part that the device holds. Operations alike have one form.
    """
    operation, code = step.operation, program.code
    used = tuple([program.uses[output] > 0 for output in operation.outputs])
    shapes = tuple([code.shape_of(value) for value in operation.inputs])
    dtypes = tuple([code.dtypes[value] for value in operation.inputs if not isinstance(value, Literal)])
    key = (form_key(operation), shapes, dtypes, used, step.operands, step.results, sizes.key)
    forms = local_forms(program)
    if key not in forms:
        forms[key] = _traced(step, program, sizes, used)
    return forms[key]


@analysis
def local_forms(_program: Program) -> dict[Hashable, Any]:
    """Returns the memo of local forms that were traced before."""
    return {}


@analysis
def _counted_before(_program: Program) -> dict[tuple, tuple[Exchange, ...]]:
    """Returns the memo of what local forms exchange, by operation, specs and mesh."""
    return {}


def _traced(step: Compute, program: Program, sizes: Mapping[str, int], used: Sequence[bool]) -> Any:
    code, inputs = program.code, step.operation.inputs
    recorder, local = _Recorder(sizes), local_of(step, code)
    given = [i for i, value in enumerate(inputs) if not isinstance(value, Literal)]
    shapes = [local_shape(local.operand_shapes[i], local.operands[i], sizes) for i in given]
    dtypes = [code.dtypes[value] for value in inputs if not isinstance(value, Literal)]

    def run(*arrays: Any) -> Sequence[Any]:
        waiting = iter(arrays)
        operands = [value.value if isinstance(value, Literal) else next(waiting) for value in inputs]
        return list(LOCAL_FORMS[step.operation.name].run(recorder, local, operands))

    # No compiler sends what only unused results need.
    return needed(jax.make_jaxpr(run)(*map(jax.ShapeDtypeStruct, shapes, dtypes)), used)


def _recorded(step: Compute, program: Program, sizes: Grid) -> tuple[Exchange, ...]:
    roots, inputs = program.roots, step.operation.inputs
    closed = traced(step, program, sizes)
    # Whichever operand of its operation a shard is, it is the same shard.
    shards = {i: (roots.get(v, v), step.operands[i]) for i, v in enumerate(inputs) if not isinstance(v, Literal)}
    first = {shard: position for position, shard in reversed(shards.items())}
    alike = [first[shard] for shard in shards.values()]
    return tuple(_Trace(closed, alike).exchanges())


class _Trace:
    """The jaxpr of a local form: what it marks, and how what is sent is made.

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

    def exchanges(self) -> Iterator[Exchange]:
        """What is marked, in order."""
        for equation in self.equations:
            kind = equation.params.get("kind")
            if equation.primitive is _asked and kind != "index":
                slots: dict[int, int] = {}
                made, sent = self.made(equation.outvars[0], slots, {}), equation.invars[0].aval
                yield Exchange(kind, equation.params["axes"], tuple(sent.shape), sent.dtype, made, tuple(slots))

    def made(self, atom: Any, slots: dict[int, int], known: dict[Any, str]) -> str:
        """How a value is made: its shards are told by the order in which they are met, which is kept in `slots`."""
        if isinstance(atom, JaxLiteral):
            return f"{atom.aval} {np.asarray(atom.val).tobytes()}"
        if atom in self.operands:
            return f"shard {slots.setdefault(self.operands[atom], len(slots))}"
        if atom in self.constants:
            return self.constants[atom]
        if atom not in known:
            equation, position = self.makers[atom]
            if _unchanged(equation):
                return self.made(equation.invars[0], slots, known)
            operands = [self.made(a, slots, known) for a in equation.invars]
            known[atom] = _digest(f"{equation.primitive} {equation.params} {position} {operands}".encode())
        return known[atom]


def _unchanged(equation: Any) -> bool:
    """Whether an equation takes all of its operand, as compilers know."""
    traits = TRAITS.get(equation.primitive.name)
    if traits is None or not (traits.kind == "concatenate" or (traits.kind == "move" and traits.reads_part)):
        return False
    return equation.invars[0].aval.shape == equation.outvars[0].aval.shape


def _digest(data: bytes) -> str:
    return hashlib.sha1(data, usedforsecurity=False).hexdigest()
