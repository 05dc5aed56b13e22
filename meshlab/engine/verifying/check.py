"""Checks a plan: compares its prediction with the compiled program, and its results with the unsharded function's.

Three things must be equal:

1. the bytes of every kind of collective over every set of mesh axes, predicted and read from the compiled program;
2. the bytes of arguments and outputs on a device;
3. the results, and those of the unsharded function on one device (floats within 2e-4 of each output's root mean square
   for 32 bits, which the order of additions explains; integers exactly).

A compiler may run one collective where two were planned, because it sees that both send the same. The report names it
(`merged_collectives.py`), and it is no error: the plan is an upper bound then.

An output may be all rounding, such as the gradient of a bias that a softmax takes out again: zero, but for rounding
errors. So where an output is further off it is compared with the rounding of the unsharded function itself: how far its
results go when its arguments are changed by a rounding error each.

Without arguments, data is drawn, unless the program is too large to run: then bytes are checked, numbers are not.
"""

from __future__ import annotations

import dataclasses
import math
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

import jax
import numpy as np

from ..errors import some
from ..plans.data import Plan
from ..programs.data import Program
from ..programs.random_arguments import drawn_arguments, is_key
from ..running.run import compiled, flat_arguments, run
from ..tables import Totals, collective_rows, comparison, mark, note_lines
from .hlo import read_collectives, totals
from .merged_collectives import Merged, merged

# Greatest error of an output, as a share of its root mean square, by bytes of the narrowest float in the program; for
# 16 bits, where single elements may be far off, the root mean square of the error. Measured: layouts of one program
# differ by at most 1.5e-5 in 32 bits, as float32 from float64 does, and by 9e-5 where the compiler does not optimize
# (as in tests), and adds up thousands of addends one by one. In 16 bits they differ by 2.2e-2.
TOLERANCE = {1: 0.5, 2: 5e-2, 4: 2e-4, 8: 1e-12}
# How many times further than the unsharded function goes by rounding its arguments a plan's results may be off.
ROUNDING = 8
# Above this many bytes of arguments, numbers are not checked unless data is given.
MOST_DRAWN = 2**30
# For each output its place, its error, and what is allowed.
Errors = tuple[tuple[str, float, float], ...]


@dataclasses.dataclass(frozen=True)
class Report:
    """The result of a check; prints as a table.

    Attributes:
        predicted: payload bytes by kind and axes, as planned (in the dtype that this platform executes).
        compiled: the same, read from the compiled program.
        errors: for each output its place, its greatest error as a share of the root mean square, and the tolerance.
        memory: bytes of arguments and outputs on a device: planned, and as compiled.
        notes: remarks on the comparison.
        merged: predicted collectives of which the compiler made one; empty where the bytes are equal.
    """

    predicted: Totals
    compiled: Totals
    errors: tuple[tuple[str, float, float], ...]
    memory: tuple[tuple[int, int], tuple[int, int]]
    notes: tuple[str, ...] = ()
    merged: tuple[Merged, ...] = ()

    @property
    def bytes_equal(self) -> bool:
        """Whether the compiled collectives are those predicted, but for those that the compiler merged."""
        return self.predicted == self.compiled or bool(self.merged)

    @property
    def results_equal(self) -> bool:
        """Whether the results are those of the unsharded function."""
        return all(error <= tolerance for _, error, tolerance in self.errors)

    @property
    def ok(self) -> bool:
        """Whether everything is equal."""
        return self.bytes_equal and self.results_equal and self.memory[0] == self.memory[1]

    def __str__(self):
        rows = collective_rows(self.predicted, self.compiled, self._mark) or [(f"{mark(True)} no collectives",)]
        for name, planned, compiled_bytes in zip(("arguments", "outputs"), *self.memory, strict=True):
            rows.append((f"{mark(planned == compiled_bytes)} {name}", planned, compiled_bytes))
        head = f"{mark(self.ok)} checked against the compiled program and the unsharded function"
        lines = [head, *comparison(("bytes of a device", "predicted", "compiled"), rows)]
        worst = max(self.errors, key=lambda e: (e[1] > e[2], e[1]), default=None)
        if worst is not None:
            place, error, tolerance = worst
            text = f"results: greatest error {error:.1e} of the root mean square, at {place} (allowed {tolerance:.0e})"
            lines.append(f"  {mark(self.results_equal)} {text}")
        return "\n".join([*lines, *note_lines((*map(str, self.merged), *self.notes))])

    __repr__ = __str__

    def _mark(self, key: tuple[str, tuple[str, ...]]) -> str:
        equal = self.predicted.get(key, 0) == self.compiled.get(key, 0)
        return "≈" if not equal and key in {(m.kind, m.axes) for m in self.merged} else mark(equal)


def check(plan: Plan, args: Sequence[Any]) -> Report:
    """Checks a plan; see `Plan.check`."""
    args = _on_host(args)
    executable = compiled(plan)
    platform = executable.input_shardings[0][0].mesh.devices.flat[0].platform if plan.program.arguments else "cpu"
    predicted, notes = predicted_totals(plan, platform)
    axes = plan.mesh.devices.axes
    read = read_collectives(executable.as_text(), axes, unknown_trips=1)
    read_totals = {(k, a or ("?",)): n for (k, a), n in totals(read).items() if n}
    together = () if predicted == read_totals else merged(plan.collectives, read, axes, _executed(platform))
    size = sum(plan.program.value(a.value).nbytes for a in plan.program.arguments)
    if args or size <= MOST_DRAWN:
        errors, said = _errors(plan, args)
    else:
        errors, said = (), (f"Bytes checked, numbers not: the arguments are {size / 2**30:,.1f} GiB.",)
    analysis = executable.memory_analysis()
    planned = (plan.stored.argument_bytes, plan.stored.output_bytes)
    compiled_bytes = (int(analysis.argument_size_in_bytes), _outputs(plan, analysis))
    return Report(predicted, read_totals, errors, (planned, compiled_bytes), (*notes, *said), together or ())


def _errors(plan: Plan, args: Sequence[Any]) -> tuple[Errors, tuple[str, ...]]:
    """Returns the results' errors for the arguments; without any, for the first of two kinds of data that suits.

    A softmax wants data around zero, an optimizer's state (a mean of squares) is above it. For the other kind results
    may be no numbers, or differences of large ones, which depend on the order of additions. A wrong plan is wrong for
    both.

    Returns:
        The errors, and a note on results that are no numbers: where they are none nothing was compared.
    """
    if args:
        expected = unsharded(plan, args)
        return _bounded_errors(plan, args, expected), _vacuous(plan, expected, "the arguments")
    errors, notes = (), ()
    for positive in (False, True):
        drawn = drawn_arguments(plan.program, positive=positive)
        expected = unsharded(plan, drawn)
        errors, notes = _bounded_errors(plan, drawn, expected), _vacuous(plan, expected, "all data that was drawn")
        if all(error <= most for _, error, most in errors) and all(map(_all_finite, expected)):
            break
    return errors, notes


def _all_finite(result: Any) -> bool:
    return not jax.numpy.issubdtype(result.dtype, jax.numpy.inexact) or bool(jax.numpy.isfinite(result).all())


def _vacuous(plan: Plan, expected: Sequence[Any], data: str) -> tuple[str, ...]:
    """Notes the outputs without a single finite number, for which nothing else could be compared."""
    empty = [
        place
        for place, result in zip(plan.program.outputs, expected, strict=True)
        if jax.numpy.issubdtype(result.dtype, jax.numpy.inexact) and result.size
        if not jax.numpy.isfinite(result).any()
    ]
    if not empty:
        return ()
    be = "are" if len(empty) > 1 else "is"
    return (
        f"Of {data} {some(empty, 6)} {be} NaN or infinite everywhere: no number was compared there. Give plan.check"
        " arguments for which the function is defined.",
    )


def _bounded_errors(plan: Plan, args: Sequence[Any], expected: Sequence[Any]) -> Errors:
    """Returns the results' errors, and their bounds: where they exceed these, by the unsharded function's rounding."""
    program = plan.program
    errors = compare(program, expected, jax.tree.leaves(run(plan, args, donate=False)))
    if all(error <= most for _, error, most in errors):
        return errors
    rounded = [compare(program, expected, unsharded(plan, _nudged(plan, args, seed))) for seed in range(3)]
    return tuple(
        (place, error, max(most, ROUNDING * max(nudged[i][1] for nudged in rounded)) if most else most)
        for i, (place, error, most) in enumerate(errors)
    )


def _nudged(plan: Plan, args: Sequence[Any], seed: int) -> Any:
    """Changes each float or complex argument by up to one rounding error of the program's narrowest float."""
    step = 2.0 ** -{1: 3, 2: 8, 4: 23, 8: 52}[narrowest(plan.program)]
    random = np.random.default_rng(seed)

    def nudged(array: Any) -> Any:
        if is_key(array) or not jax.numpy.issubdtype(array.dtype, jax.numpy.inexact):
            return array
        change = 1 + step * random.uniform(-1, 1, array.shape)
        wide = np.complex128 if np.iscomplexobj(array) else np.float64
        return (np.asarray(array).astype(wide) * change).astype(array.dtype)

    return jax.tree.unflatten(
        plan.program.structure, _as_traced(plan.program, list(map(nudged, flat_arguments(plan, args))))
    )


def _outputs(plan: Plan, analysis: Any) -> int:
    """Returns the compiled program's output bytes; XLA adds one pointer for each output of a tuple on CPU."""
    count = len(plan.program.outputs)
    table = 8 * count if count > 1 else 0
    size = int(analysis.output_size_in_bytes)
    return size - table if size != plan.stored.output_bytes else size


def predicted_totals(plan: Plan, platform: str = "cpu") -> tuple[Totals, tuple[str, ...]]:
    """Returns payload bytes by kind and axes as a platform executes them, and notes on its deviations."""
    order = list(plan.mesh.axes)
    sums: Counter = Counter()
    widened = False
    for c in plan.collectives:
        count = c.payload_bytes
        if _executed(platform)(c.dtype) != c.dtype:
            count, widened = 2 * count, True
        sums[c.kind, tuple(sorted(c.axes, key=order.index))] += count * c.times
    notes = ("XLA for CPU widens bfloat16 and float8: their bytes are counted double here.",) if widened else ()
    return {k: n for k, n in sums.items() if n}, notes


def _executed(platform: str) -> Callable[[str], str]:
    """Returns a function from a dtype to the one in which a platform executes its collectives."""

    def executed(dtype: str) -> str:
        if platform != "cpu":
            return dtype
        return "float32" if dtype == "bfloat16" else "float16" if dtype.startswith("float8") else dtype

    return executed


def unsharded(plan: Plan, args: Sequence[Any]) -> list[Any]:
    """Returns the flat results of the unsharded function on one device."""
    arrays = flat_arguments(plan, args)
    program = plan.program
    tree = jax.tree.unflatten(program.structure, _as_traced(program, arrays))
    device = compiled(plan).input_shardings[0][0].mesh.devices.flat[0] if program.arguments else None
    with jax.default_device(device):
        return jax.tree.leaves(jax.jit(program.fn)(*_on_host(tree)))


def _on_host(args: Any) -> Any:
    """Returns arguments as NumPy arrays: JAX compiles a program to cut one of its own into shards, for each shape."""
    return jax.tree.map(lambda leaf: leaf if is_key(leaf) else np.asarray(leaf), args)


def _as_traced(program: Program, arrays: Sequence[Any]) -> list[Any]:
    """Returns the arguments' leaves as they were traced: tensors around arrays where the function takes tensors."""
    return [
        jax.tree.unflatten(jax.tree.structure(template), [array])
        for template, array in zip(program.templates, arrays, strict=True)
    ]


def _root_mean_square(sizes: np.ndarray) -> float:
    return math.sqrt(np.mean(sizes**2)) if sizes.size else 0.0


def narrowest(program: Program) -> int:
    """Returns the bytes of a program's narrowest float; of complex numbers, of their parts."""
    floats = [d for d in program.code.dtypes if jax.numpy.issubdtype(d, jax.numpy.inexact)]
    return min((max(1, jax.numpy.finfo(d).bits // 8) for d in floats), default=4)


def compare(program: Program, expected: Sequence[Any], result: Sequence[Any]) -> tuple[tuple[str, float, float], ...]:
    """Returns the greatest error of each output, as a share of its root mean square, with its tolerance."""
    errors = []
    width = narrowest(program)
    for place, a, b in zip(program.outputs, expected, result, strict=True):
        x, y = (np.asarray(jax.random.key_data(r) if is_key(r) else r) for r in (a, b))
        if not jax.numpy.issubdtype(x.dtype, jax.numpy.inexact):
            errors.append((place, 0.0 if np.array_equal(x, y) else math.inf, 0.0))
            continue
        tolerance = TOLERANCE[width]
        wide = np.complex128 if np.iscomplexobj(x) else np.float64
        x, y = x.astype(wide), y.astype(wide)
        good = np.isfinite(x) & np.isfinite(y)
        if not np.array_equal(x[~good], y[~good], equal_nan=True):
            errors.append((place, math.inf, tolerance))
            continue
        scale = _root_mean_square(np.abs(x[good]))
        apart = np.abs(x[good] - y[good])
        worst = float(np.max(apart, initial=0.0)) if width > 2 else _root_mean_square(apart)
        errors.append((place, worst / scale if scale else worst, tolerance))
    return tuple(errors)
