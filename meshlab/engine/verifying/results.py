"""Compares a plan's results with those of the unsharded function on one device.

Floats must agree within 2e-4 of each output's root mean square for 32 bits, which the order of additions explains;
integers exactly. An output may be all rounding, such as the gradient of a bias that a softmax takes out again: zero,
but for rounding errors. So where an output is further off it is compared with the rounding of the unsharded function
itself: how far its results go when its arguments are changed by a rounding error each. Where that alone moves an output
by a large part of its own size, a wrong plan could pass, and it is said that nothing was compared.

Without arguments, data is drawn, more than once: each draw counts. What a root or logarithm is taken of is positive
(an optimizer's mean of squares); all else is around zero, and once so small that no softmax has a single winner.
"""

from __future__ import annotations

import contextlib
import io
import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import jax
import numpy as np

from ..devices import quick_options
from ..errors import some
from ..plans.plan_data import Plan
from ..processes import whole
from ..programs.program import Program
from ..programs.random_arguments import drawn_arguments
from ..running.rounding import NUDGES, ROUNDING, VAGUE, as_traced, narrowest, nudged
from ..running.run import compiled, flat_arguments, run
from ..typed_keys import is_key, words

# Greatest error of an output, as a share of its root mean square, by bytes of the narrowest float in the program; for
# 16 bits, where single elements may be far off, the root mean square of the error. Measured: layouts of one program
# differ by at most 1.5e-5 in 32 bits, as float32 from float64 does, and by 9e-5 where the compiler does not optimize
# (as in tests), and adds up thousands of addends one by one. In 16 bits they differ by 2.2e-2.
TOLERANCE = {1: 0.5, 2: 5e-2, 4: 2e-4, 8: 1e-12}
# The size of floats in the second draw: about that of a trained model's weights.
SMALL = 1 / 8
# How many draws are compared whatever they show.
ALWAYS = 2
# For each output its place, its error, and what is allowed.
Errors = tuple[tuple[str, float, float], ...]


class Compared(NamedTuple):
    """An output in one draw of data.

    Attributes:
        error: the greatest error, as a share of the root mean square.
        allowed: the greatest that is allowed.
        finite: the share of its numbers that are neither NaN nor infinite.
        clear: whether a wrong plan would show: there are numbers, and rounding does not hide them.
    """

    error: float
    allowed: float
    finite: float
    clear: bool

    @property
    def wrong(self) -> bool:
        """Whether it is further off than rounding explains."""
        return self.error > self.allowed


def results(
    plan: Plan, args: Sequence[Any], stage: Callable[[str], None], quick: bool = False
) -> tuple[Errors, tuple[str, ...]]:
    """Compares the results of some arguments, or of all data that is drawn where there are none.

    Args:
        plan: to run.
        args: its arguments, or none.
        stage: told what is done, before it is done; what it raises ends the comparison.
        quick: whether both are compiled sooner, and run slower.

    Returns:
        For each output its error and what is allowed, in the draw in which it is wrong, or else off by most. And notes
        on outputs of which nothing was compared.
    """
    draws: list[list[Compared]] = []
    for name, data in [("the arguments", lambda: args)] if args else _draws(plan.program):
        draws.append(_compared(plan, data(), name, stage, quick))
        each = list(zip(*draws, strict=True))
        if len(draws) >= ALWAYS and all(any(c.clear and c.finite == 1 for c in of) for of in each):
            break
    worst = [max(of, key=lambda c: (c.wrong, c.clear, c.error)) for of in zip(*draws, strict=True)]
    errors = tuple((place, c.error, c.allowed) for place, c in zip(plan.program.outputs, worst, strict=True))
    return errors, tuple(_not_compared(plan.program.outputs, worst, "the arguments" if args else "all data drawn"))


def _draws(program: Program) -> Iterator[tuple[str, Callable[[], Any]]]:
    """Yields data by name; the last, all above zero, is for what is no number elsewhere."""
    yield "data", lambda: drawn_arguments(program)
    yield "small data", lambda: drawn_arguments(program, seed=1, size=SMALL)
    yield "data above zero", lambda: drawn_arguments(program, positive=True)


def _compared(plan: Plan, args: Sequence[Any], name: str, stage: Callable[[str], None], quick: bool) -> list[Compared]:
    """Compares each output; what is further off than the order of additions explains, with what rounding does."""
    stage(f"running the plan on {name}")
    found = list(map(whole, jax.tree.leaves(run(plan, args, donate=False, quick=quick))))
    stage(f"running the unsharded function on {name}")
    expected = unsharded(plan, args, quick)
    compared = compare(plan.program, expected, found)
    bounds = [most for *_, most in compared]
    if any(error > most for _, error, most in compared):
        for seed in range(NUDGES):
            stage(f"running the unsharded function on {name}, rounded ({seed + 1} of {NUDGES})")
            rounded = compare(plan.program, expected, unsharded(plan, nudged(plan, args, seed), quick))
            pairs = zip(bounds, rounded, strict=True)
            bounds = [max(most, ROUNDING * error) if most else most for most, (_, error, _) in pairs]
    rows = zip(compared, bounds, map(_finite, expected), strict=True)
    return [
        Compared(error, bound, finite, finite > 0 and bound <= max(VAGUE, most))
        for (_, error, most), bound, finite in rows
    ]


def _finite(result: Any) -> float:
    """Returns the share of a result that is neither NaN nor infinite; of keys and integers all of it is."""
    if is_key(result) or not result.size or not jax.numpy.issubdtype(result.dtype, jax.numpy.inexact):
        return 1.0
    return float(np.isfinite(np.asarray(result)).mean())  # JAX would compile it, for each shape


def _not_compared(places: Sequence[str], worst: Sequence[Compared], data: str) -> Iterator[str]:
    """Notes the outputs of which no draw could tell whether they are right."""
    empty = [place for place, c in zip(places, worst, strict=True) if not c.finite]
    if empty:
        yield (
            f"Not compared: of {data} {some(empty, 6)} {'are' if len(empty) > 1 else 'is'} NaN or infinite everywhere."
            " Give plan.check arguments for which the function is defined."
        )
    vague = [(c.allowed / ROUNDING, place) for place, c in zip(places, worst, strict=True) if c.finite and not c.clear]
    if vague:
        yield (
            f"Not compared: {some([place for _, place in vague], 6)}. Rounding {data} moves"
            f" {'them' if len(vague) > 1 else 'it'} by up to {max(vague)[0]:.0%} of the root mean square: a wrong plan"
            " could pass. Give plan.check arguments of typical magnitude."
        )


def unsharded(plan: Plan, args: Sequence[Any], quick: bool = False) -> list[Any]:
    """Returns the flat results of the unsharded function on one device."""
    arrays = flat_arguments(plan, args)
    program = plan.program
    tree = jax.tree.unflatten(program.structure, as_traced(program, arrays))
    mesh = compiled(plan, quick=quick).input_shardings[0][0].mesh if program.arguments else None
    device = mesh.local_devices[0] if mesh is not None else None
    options = quick_options(device.platform) if quick and device is not None else None
    with jax.default_device(device), _silent(program):
        return jax.tree.leaves(jax.jit(program.fn, compiler_options=options)(*on_host(tree)))


@contextlib.contextmanager
def _silent(program: Program) -> Iterator[None]:
    """Drops what the function prints: a check runs it several times."""
    if program.printing is None:
        yield
        return
    with contextlib.redirect_stdout(io.StringIO()):
        yield
        jax.effects_barrier()


def on_host(args: Any) -> Any:
    """Returns arguments as NumPy arrays: JAX compiles a program to cut one of its own into shards, for each shape."""
    return jax.tree.map(lambda leaf: whole(leaf) if is_key(leaf) else np.asarray(whole(leaf)), args)


def _root_mean_square(sizes: np.ndarray) -> float:
    return math.sqrt(np.mean(sizes**2)) if sizes.size else 0.0


def compare(program: Program, expected: Sequence[Any], result: Sequence[Any]) -> tuple[tuple[str, float, float], ...]:
    """Returns the greatest error of each output, as a share of its root mean square, with its tolerance."""
    errors = []
    width = narrowest(program)
    for place, a, b in zip(program.outputs, expected, result, strict=True):
        x, y = (np.asarray(words(r)) for r in (a, b))
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
