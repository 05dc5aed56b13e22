"""Finds the first value, in time, that differs between two plans of one program.

    found = plan.first_difference(step, params, images, labels)        # from the plain function, on one device
    found = plan.first_difference(other, params, images, labels)       # from another plan of the same program
    print(found)

Values are compared by sketches (`sketches.py`), which say nothing of the layout: first at places and at what lines
make, then inside of what leads to the first that differs (`search.py`). That one is then read from the devices, and
compared number by number.

What rounding explains is no difference. How far it goes follows from each value itself: the other plan is run again on
arguments that are changed by a rounding error each, a few times, and a value may be off by some times of what that
moves it. What it moves by a large part of its size is not compared.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import jax.numpy as jnp
import numpy as np

from ..errors import RunError, shown
from ..plans.plan_data import Plan
from ..programs.random_arguments import drawn_arguments
from ..running.lower import Shards
from ..running.rounding import NUDGES, ROUNDING, VAGUE, narrowest, nudged
from ..running.run import mesh_axes
from .apart import apart
from .assembled import blocks_of
from .matching import matching
from .own_order import own_order
from .probed import compiled, flat
from .probing import Probing, Tap
from .search import Hit, first, of_floats
from .sketches import added, sketch
from .where import Finding, place

# The greatest difference of sketches that the order of additions explains, as a share of the value, by bytes of the
# narrowest float in the program.
_FLOOR = {1: 0.5, 2: 3e-2, 4: 4e-6, 8: 1e-14}
# The same of whole numbers and truth values that follow from floats, a few of which flip.
_FLIPPED = 0.05
# Sketches by the value's number, of its first form: `[*loops, sketches]`.
Known = Mapping[int, np.ndarray]


@dataclasses.dataclass(frozen=True)
class Difference(Finding):
    """The first value that differs between two plans; prints as a sentence.

    Attributes:
        moved: whether it was right on the devices before a move made these copies of it.
        error: its error, as a share of its root mean square.
        allowed: the error that rounding explains.
        most: the greatest error of one element; None if its elements were not read.
    """

    moved: bool
    error: float
    allowed: float
    most: float | None

    def __str__(self) -> str:
        most = "" if self.most is None else f", at most {self.most:.3g} in one element"
        move = " It was right before this move." if self.moved else ""
        return (
            f"The first difference is in {self.place}: off by {self.error:.2g} of its root mean square{most}"
            f" (rounding explains {self.allowed:.1g}).{move}"
        )

    __repr__ = __str__


def between(plan: Plan, other: Any, args: Sequence[Any]) -> Difference | None:
    """Finds the first value in which a plan differs from another one; see `Plan.first_difference`."""
    if not isinstance(other, Plan):
        name = getattr(plan.program.fn, "__name__", "the function that was traced")
        raise RunError(
            f"first_difference() was given {shown(other)} to compare with; it takes another plan of the same program,"
            f" or the function that was traced, {name}."
        )
    return first_difference(plan, other, args or drawn_arguments(plan.program))


def first_difference(
    plan: Plan, other: Plan, args: Sequence[Any], runs: Callable[..., Probing] = Probing
) -> Difference | None:
    """Finds the first value that differs between two plans, and compares it number by number.

    Args:
        plan: the plan.
        other: another one of the same program, which counts as right.
        args: the arguments of both.
        runs: the class that runs the first one's steps.
    """
    found = differing(plan, other, args, runs)
    if found is None:
        return None
    hit, error, allowed = found
    seen = apart(plan, other, flat(plan, args, "first_difference()"), hit, runs)
    hit = dataclasses.replace(hit, devices=seen.devices)
    return Difference(place(plan, hit), hit.moved, error, allowed, seen.most)


def differing(
    plan: Plan, other: Plan, args: Sequence[Any], runs: Callable[..., Probing] = Probing
) -> tuple[Hit, float, float] | None:
    """Finds the first value that differs, by sketches; returns how far it is off too, and how far rounding moves it."""
    same, arrays = matching(plan.program, other.program), flat(plan, args, "first_difference()")
    rounded = [flat(other, nudged(other, args, seed), "first_difference()") for seed in range(NUDGES)]
    sizes: dict[tuple[Any, ...], tuple[float, float]] = {}

    def look(numbers: frozenset[int]) -> list[Hit]:
        expected = _first_forms(other, arrays, numbers)
        moved = [_first_forms(other, each, numbers) for each in rounded]
        hits = []
        for tap, sketches in _sketches(plan, arrays, numbers, runs):
            if tap.number in expected and sketches.shape[:-2] == expected[tap.number].shape[:-1]:
                right = expected[tap.number]
                noise = [_off(each[tap.number][..., None, :], right) for each in moved]
                off, most = _off(sketches, right), _allowed(plan, tap.number, noise)
                if (found := _earliest(tap, off > most)) is not None:
                    hits.append(found)
                    where = _among(tap, found.iterations)
                    sizes[tap.where] = float(off[where]), float(most[where])
        return hits

    hit = first(plan.program, same, look)
    return None if hit is None else (hit, *sizes[hit.tap.where])


def _sketches(
    plan: Plan, arrays: Sequence[Any], numbers: frozenset[int], runs: Callable[..., Probing] = Probing
) -> list[tuple[Tap, np.ndarray]]:
    """Returns the sketches of values of some numbers, in each of their forms: `[*loops, replicas, sketches]`."""
    inexact, orders = of_floats(plan.program), own_order(plan.program)

    def probe(probing: Probing, tap: Tap, shards: Shards) -> Any:
        order = orders.get(tap.number)
        if tap.number not in numbers or (order and not order.alike):
            return None
        return sketch(probing, tap, shards, tap.number not in inexact, blocks_of(plan, tap))

    probed = compiled(plan, probe, ("sketch", numbers), runs)
    _, taken = probed(arrays)
    axes = mesh_axes(plan.mesh)
    return [(tap, added(array, tap, axes)) for tap, array in zip(probed.taps, taken, strict=True)]


def _first_forms(plan: Plan, arrays: Sequence[Any], numbers: frozenset[int]) -> Known:
    forms: dict[int, np.ndarray] = {}
    for tap, sketches in _sketches(plan, arrays, numbers):
        forms.setdefault(tap.number, sketches[..., 0, :])
    return forms


def _off(sketches: np.ndarray, right: np.ndarray) -> np.ndarray:
    """Returns how far a value is off in each iteration, as a share of its size; the worst of its replicas."""
    if sketches.dtype == np.uint32:
        return np.any(sketches != right[..., None, :], axis=(-1, -2)).astype(np.float64)
    with np.errstate(all="ignore"):
        apart = np.sqrt(np.mean((sketches - right[..., None, :]) ** 2, -1)).max(-1)
        size = np.sqrt(np.mean(right**2, -1))
        # A value that is next to nothing in one iteration is measured by what it is in the others.
        size = np.maximum(size, 1e-3 * size.max(initial=0.0))
        share = np.where(apart == 0, 0.0, apart / size)
    return np.where(np.isnan(share), np.inf, share)


def _allowed(plan: Plan, number: int, noise: Sequence[np.ndarray]) -> np.ndarray:
    """Returns how far a value may be off in each iteration, from how far rounding the arguments moves it."""
    most = np.maximum.reduce(noise)
    program = plan.program
    if number not in of_floats(program):
        floor = 0.0
    elif jnp.issubdtype(program.code.dtypes[number], jnp.inexact):
        floor = _FLOOR[narrowest(program)]
    else:
        floor = _FLIPPED
    allowed = np.maximum(floor, ROUNDING * most)
    return np.where(allowed > max(VAGUE, floor), np.inf, allowed)


def _among(tap: Tap, iterations: Sequence[int]) -> tuple[int, ...]:
    """Returns which sketches of a value are those of one iteration: those over an axis in time are added up."""
    return tuple(each for each, loop in zip(iterations, tap.loops, strict=True) if not loop.in_time)


def _earliest(tap: Tap, wrong: np.ndarray) -> Hit | None:
    """Returns where a value is wrong first: `[*loops]`."""

    def all_of(index: Iterable[Any]) -> tuple[int, ...]:
        counts = iter(index)
        return tuple(0 if loop.in_time else int(next(counts)) for loop in tap.loops)

    when = [all_of(index) for index in np.argwhere(wrong)]
    return Hit(tap, min(when, key=tap.when)) if when else None
