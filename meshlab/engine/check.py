"""Checking a plan: what was predicted is held against what is compiled, and against the unsharded function.

Three things must be equal:

1. the bytes of every kind of collective over every set of mesh axes, predicted and read from the compiled program;
2. the bytes of arguments and outputs on a device;
3. the results, and those of the plain function on one device (floats within 5e-5 of each output's root mean square for
   32 bits, which is what the order of additions makes of them; integers exactly).

Without arguments, data is drawn: floats around zero, and integers within what they index.
"""

from __future__ import annotations

import dataclasses
import math
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import jax
import numpy as np

from .code import Operation, walk
from .hlo import read_collectives, totals
from .run import compiled, flat_arguments, run

if TYPE_CHECKING:
    from .plan import Plan
    from .program import Program

# Greatest error of an output, as a share of its root mean square, by bytes of an element. The figure for 32 bits is
# measured: layouts of one program differ by at most 1.5e-5, as float32 from float64 does.
TOLERANCE = {2: 0.5, 4: 5e-5, 8: 1e-12}
Totals = dict[tuple[str, tuple[str, ...]], int]


@dataclasses.dataclass(frozen=True)
class Report:
    """What a check found.

    Attributes:
        predicted: payload bytes by kind and axes, as planned (in the dtype that this platform executes).
        compiled: the same, read from the compiled program.
        errors: for each output its place, its greatest error as a share of the root mean square, and the tolerance.
        memory: bytes of arguments and outputs on a device: planned, and as compiled.
        notes: what is worth saying beside.
    """

    predicted: Totals
    compiled: Totals
    errors: tuple[tuple[str, float, float], ...]
    memory: tuple[tuple[int, int], tuple[int, int]]
    notes: tuple[str, ...] = ()

    @property
    def bytes_equal(self) -> bool:
        """Whether the compiled collectives are those predicted."""
        return self.predicted == self.compiled

    @property
    def results_equal(self) -> bool:
        """Whether the results are those of the unsharded function."""
        return all(error <= tolerance for _, error, tolerance in self.errors)

    @property
    def ok(self) -> bool:
        """Whether everything is equal."""
        return self.bytes_equal and self.results_equal and self.memory[0] == self.memory[1]

    def __str__(self):
        lines = [f"{_mark(self.ok)} checked against the compiled program and the unsharded function"]
        for key in sorted({*self.predicted, *self.compiled}, key=str):
            kind, axes = key
            p, c = self.predicted.get(key, 0), self.compiled.get(key, 0)
            lines.append(
                f"  {_mark(p == c)} {kind} over {'+'.join(axes or ('?',))}: predicted {p:,} B, compiled {c:,} B"
            )
        if not self.predicted and not self.compiled:
            lines.append(f"  {_mark(True)} no collectives, predicted and compiled")
        worst = max(self.errors, key=lambda e: (e[1] > e[2], e[1]), default=None)
        if worst is not None:
            place, error, tolerance = worst
            text = f"results: greatest error {error:.1e} of the root mean square, at {place} (allowed {tolerance:.0e})"
            lines.append(f"  {_mark(self.results_equal)} {text}")
        planned, made = self.memory
        text = f"arguments {planned[0]:,} B and outputs {planned[1]:,} B a device; compiled {made[0]:,} and {made[1]:,}"
        lines.append(f"  {_mark(planned == made)} {text}")
        return "\n".join([*lines, *(f"  · {note}" for note in self.notes)])

    __repr__ = __str__


def _mark(good: bool) -> str:
    return "✓" if good else "✗"


def check(plan: Plan, args: Sequence[Any]) -> Report:
    """Checks a plan; see `Plan.check`."""
    executable = compiled(plan)
    platform = executable.input_shardings[0][0].mesh.devices.flat[0].platform if plan.program.arguments else "cpu"
    predicted, notes = predicted_totals(plan, platform)
    found = {
        (k, a or ("?",)): n for (k, a), n in totals(read_collectives(executable.as_text(), plan.mesh.axes)).items() if n
    }
    errors = _errors(plan, args)
    analysis = executable.memory_analysis()
    planned = (plan.memory.argument_bytes, plan.memory.output_bytes)
    made = (int(analysis.argument_size_in_bytes), _outputs(plan, analysis))
    return Report(predicted, found, errors, (planned, made), notes)


def _errors(plan: Plan, args: Sequence[Any]) -> tuple[tuple[str, float, float], ...]:
    """The results' errors for the arguments; without any, for the first of two kinds of data that suits the function.

    A softmax wants data around zero, what an optimizer keeps (a mean of squares) is above it. For the other kind
    results may be no numbers, or differences of large ones, of which every order of additions makes something else. A
    plan that is wrong is wrong for both.
    """
    if args:
        return compare(plan.program, unsharded(plan, args), run(plan, args, donate=False))
    errors: tuple[tuple[str, float, float], ...] = ()
    for positive in (False, True):
        drawn = drawn_arguments(plan.program, positive=positive)
        expected = unsharded(plan, drawn)
        errors = compare(plan.program, expected, run(plan, drawn, donate=False))
        floats = (e for e in expected if jax.numpy.issubdtype(e.dtype, jax.numpy.inexact))
        if all(error <= most for _, error, most in errors) and all(jax.numpy.isfinite(e).all() for e in floats):
            break
    return errors


def _outputs(plan: Plan, analysis: Any) -> int:
    """The compiled program's output bytes; XLA adds one pointer for each output of a tuple on CPU."""
    count = len(plan.program.outputs)
    table = 8 * count if count > 1 else 0
    size = int(analysis.output_size_in_bytes)
    return size - table if size != plan.memory.output_bytes else size


def predicted_totals(plan: Plan, platform: str = "cpu") -> tuple[Totals, tuple[str, ...]]:
    """Payload bytes by kind and axes as a platform executes them, and notes about what it does otherwise."""
    order = list(plan.mesh.axes)
    found: Counter = Counter()
    widened = False
    for c in plan.collectives:
        count = c.payload_bytes
        if platform == "cpu" and c.dtype == "bfloat16":
            count, widened = 2 * count, True
        found[c.kind, tuple(sorted(c.axes, key=order.index))] += count * c.times
    notes = ("XLA for CPU widens bfloat16 to float32: its bytes are counted double here.",) if widened else ()
    return {k: n for k, n in found.items() if n}, notes


def unsharded(plan: Plan, args: Sequence[Any]) -> list[Any]:
    """The flat results of the plain function on one device."""
    arrays = flat_arguments(plan, args)
    program = plan.program
    tree = jax.tree.unflatten(program.structure, _as_traced(program, args, arrays))
    device = compiled(plan).input_shardings[0][0].mesh.devices.flat[0] if program.arguments else None
    with jax.default_device(device):
        local = jax.tree.map(np.asarray, tree)
        return jax.tree.leaves(jax.jit(program.fn)(*local))


def _as_traced(program: Program, args: Sequence[Any], arrays: Sequence[Any]) -> list[Any]:
    """The arguments' leaves as they were traced: tensors around the arrays where the function takes tensors."""
    return [
        jax.tree.unflatten(jax.tree.structure(template), [array])
        for template, array in zip(program.templates, arrays, strict=True)
    ]


def compare(program: Program, expected: Sequence[Any], result: Any) -> tuple[tuple[str, float, float], ...]:
    """The greatest error of each output, as a share of its root mean square, with what is allowed."""
    errors = []
    for place, a, b in zip(program.outputs, expected, jax.tree.leaves(result), strict=True):
        x, y = (np.asarray(jax.random.key_data(r) if _is_key(r) else r) for r in (a, b))
        if not jax.numpy.issubdtype(x.dtype, jax.numpy.inexact):
            errors.append((place, 0.0 if np.array_equal(x, y) else math.inf, 0.0))
            continue
        tolerance = TOLERANCE[min(x.dtype.itemsize, 8)]
        wide = np.complex128 if np.iscomplexobj(x) else np.float64
        x, y = x.astype(wide), y.astype(wide)
        good = np.isfinite(x) & np.isfinite(y)
        if not np.array_equal(x[~good], y[~good], equal_nan=True):
            errors.append((place, math.inf, tolerance))
            continue
        scale = math.sqrt(np.mean(np.abs(x[good]) ** 2)) if good.any() else 0.0
        worst = float(np.max(np.abs(x[good] - y[good]), initial=0.0))
        errors.append((place, worst / scale if scale else worst, tolerance))
    return tuple(errors)


def drawn_arguments(program: Program, seed: int = 0, positive: bool = False) -> tuple[Any, ...]:
    """Draws data for a program's arguments: integers within what they index, floats around zero, or above it.

    Floats around zero, from [-0.5, 0.5), keep a softmax away from its corners, where all layouts would seem to differ.
    """
    random = np.random.default_rng(seed)
    bounds = index_bounds(program)
    leaves = []
    for template, argument in zip(program.templates, program.arguments, strict=True):
        shape, dtype = program.code.shapes[argument.value], program.code.dtypes[argument.value]
        drawn = _draw(random, shape, dtype, bounds.get(argument.value), 0.05 if positive else -0.5)
        leaves.append(jax.tree.unflatten(jax.tree.structure(template), [drawn]))
    return jax.tree.unflatten(program.structure, leaves)


def _is_key(array: Any) -> bool:
    return jax.numpy.issubdtype(getattr(array, "dtype", np.float32), jax.dtypes.prng_key)


def _draw(random: np.random.Generator, shape: tuple[int, ...], dtype: Any, bound: int | None, least: float) -> Any:
    if jax.numpy.issubdtype(dtype, jax.dtypes.prng_key):
        return jax.random.key(int(random.integers(2**31)))
    if jax.numpy.issubdtype(dtype, jax.numpy.integer):
        return random.integers(0, bound or 2, shape).astype(dtype)
    if dtype == np.bool_:
        return random.random(shape) < 0.5
    return (random.random(shape) + least).astype(dtype)


def index_bounds(program: Program) -> dict[int, int]:
    """For integer arguments, the size of what they index: a gather's table, or an iota that they are compared with."""
    bounds: dict[int, int] = {}
    makers = {o: op for op in walk(program.code.block) for o in op.outputs}
    for operation in walk(program.code.block):
        for value, size in _indexed(program, operation, makers):
            for root in _roots(program, value, makers):
                bounds[root] = min(size, bounds.get(root, size))
    return bounds


def _indexed(program: Program, operation: Operation, makers: dict[int, Operation]) -> Iterator[tuple[int, int]]:
    """The values that an operation indexes by, with the size of what they index."""
    shapes = program.code.shapes
    if operation.name in ("gather", "scatter-add") and isinstance(operation.inputs[1], int):
        numbers = operation.params["dimension_numbers"]
        mapped = getattr(numbers, "start_index_map", None) or numbers.scatter_dims_to_operand_dims
        yield operation.inputs[1], min(program.code.shape_of(operation.inputs[0])[d] for d in mapped)
    if operation.name == "eq":
        left, right = operation.inputs
        for a, b in ((left, right), (right, left)):
            for root in _roots(program, b, makers, through_iota=True) if isinstance(b, int) else ():
                maker = makers.get(root)
                if maker is not None and maker.name == "iota" and isinstance(a, int):
                    yield a, shapes[root][maker.params["dimension"]]


def _roots(program: Program, value: int, makers: dict[int, Operation], through_iota: bool = False) -> list[int]:
    """The arguments (or iotas) that a value of integers comes from."""
    found, todo, seen = [], [value], set()
    while todo:
        v = todo.pop()
        if v in seen or not jax.numpy.issubdtype(program.code.dtypes[v], jax.numpy.integer):
            continue
        seen.add(v)
        maker = makers.get(v)
        if maker is None or (through_iota and maker.name == "iota"):
            found.append(v)
        elif maker.body is None:
            todo += maker.reads
    return found
