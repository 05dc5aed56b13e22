"""Finds the first NaN, or infinity, of a step: its value, its line, its iteration and the devices that have it.

    found = plan.find_nan(params, images, labels)
    print(found)         # The first NaN is in `scale` (log) at model.py:16, in iteration 2 of 4, on devices 0, 1.

Each device says of its own shards, without padding, whether there is one: one bit a value and device comes out.
Infinities are looked for where there is no NaN, and only if one is in the results: a mask is full of them. Of those
that lead there the first is meant that an operation makes of finite numbers.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

import jax.numpy as jnp
import numpy as np

from ..code.operations import Literal
from ..plans.plan_data import Plan
from ..programs.program import Program
from ..running.lower import Shards
from ..specs.spec import Spec
from .names import original
from .probed import compiled, flat
from .probing import Probing, Tap, is_closed
from .search import Hit, first, leading, outputs
from .where import Finding, place


@dataclasses.dataclass(frozen=True)
class NotFinite(Finding):
    """The first NaN, or infinity, of a step; prints as a sentence.

    Attributes:
        kind: "NaN" or "infinity".
    """

    kind: str

    def __str__(self) -> str:
        return f"The first {self.kind} is in {self.place}."

    __repr__ = __str__


def find_nan(plan: Plan, args: Sequence[Any], runs: Callable[..., Probing] = Probing) -> NotFinite | None:
    """Finds the first NaN, or infinity, of a step; see `Plan.find_nan`.

    Args:
        plan: the plan.
        args: its arguments.
        runs: the class that runs its steps.
    """
    arrays, program = flat(plan, args, "find_nan()"), plan.program
    values = _floats(program)
    hit = first(program, values, lambda numbers: _found(plan, arrays, ("NaN", numbers), _has_nan, runs))
    if hit is not None:
        return NotFinite(place(plan, hit), "NaN")
    results = values.intersection(outputs(program))
    infinite = _found(plan, arrays, ("infinite", results), _is_infinite, runs)
    if not infinite:
        return None
    inside = frozenset().union(*(leading(program, hit.tap.number, ()) for hit in infinite))
    wanted = (inside | {hit.tap.number for hit in infinite}) & values
    hits = _found(plan, arrays, ("made infinite", wanted), _becomes_infinite, runs) or infinite
    return NotFinite(place(plan, min(hits, key=lambda hit: hit.when)), "infinity")


def _floats(program: Program) -> frozenset[int]:
    """Returns the values that can be NaN."""
    dtypes = enumerate(program.code.dtypes)
    return frozenset(original(program, number) for number, dtype in dtypes if jnp.issubdtype(dtype, jnp.inexact))


def _has_nan(runs: Probing, tap: Tap, shards: Shards) -> Any:
    return _any(runs, jnp.isnan, tap.key, shards[tap.key])


def _is_infinite(runs: Probing, tap: Tap, shards: Shards) -> Any:
    return _any(runs, jnp.isinf, tap.key, shards[tap.key])


def _any(runs: Probing, says: Callable[[Any], Any], key: tuple[int, Spec], shard: Any) -> Any:
    """Says whether something is so of a number of a shard; padding may be anything."""
    found, counts = says(shard), runs.counts(*key, jnp.shape(shard))
    return jnp.any(found if counts is None else found & counts)


def _becomes_infinite(runs: Probing, tap: Tap, shards: Shards) -> Any:
    """Says whether a value is infinite that is made of finite ones."""
    step, infinite = tap.step, _is_infinite(runs, tap, shards)
    if step is None:
        return infinite
    if (step.runs and not (step.computes or step.parts)) or (step.parts and not is_closed(step)):
        return None  # a constant, or a loop, of which what is inside says so itself
    if step.runs is not None and any(_is_infinite_literal(each) for each in step.runs.inputs):
        return None
    for key in step.reads(runs.original_of):
        operand = shards.get(key)
        if operand is not None and jnp.issubdtype(jnp.result_type(operand), jnp.inexact):
            infinite &= ~_any(runs, jnp.isinf, key, operand)
    return infinite


def _is_infinite_literal(value: Any) -> bool:
    return isinstance(value, Literal) and bool(np.any(np.isinf(np.asarray(value.value, np.float64))))


def _found(
    plan: Plan,
    arrays: Sequence[Any],
    key: tuple[str, frozenset[int]],
    says: Callable[[Probing, Tap, Shards], Any],
    runs: Callable[..., Probing],
) -> list[Hit]:
    """Returns the values of which some device says so, each where it comes first."""
    wanted = key[1]

    def probe(probing: Probing, tap: Tap, shards: Shards) -> Any:
        return says(probing, tap, shards) if tap.number in wanted else None

    probed = compiled(plan, probe, key, runs)
    _, taken = probed(arrays)
    hits = (_earliest(tap, array) for tap, array in zip(probed.taps, taken, strict=True))
    return [hit for hit in hits if hit is not None]


def _earliest(tap: Tap, says: np.ndarray) -> Hit | None:
    """Returns where a value comes first of which devices say so: `[devices, *loops]`."""
    when = [tuple(map(int, each)) for each in np.argwhere(says.any(0))]
    if not when:
        return None
    iterations = min(when, key=tap.when)
    return Hit(tap, iterations, tuple(map(int, np.flatnonzero(says[(slice(None), *iterations)]))))
