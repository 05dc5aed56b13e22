"""Watches values of a step: what they are as a whole, on each device, as addends, and in each iteration of a loop.

    seen = plan.watch(params, images, labels, values=["hidden", "params/w1"])
    seen["hidden"].whole            # [batch, hidden], as the unsharded function would have it
    seen["hidden"].shards[3]        # what device 3 holds
    seen["hidden"].addends          # of a partial sum: one array for each device that adds, else None
    seen.result                     # what plan.run returns
    seen.exact                      # whether the program that was watched has returned the same bits

A value is on the devices as it is made, and perhaps moved: `forms` has one for each.

Two programs run: the plan's own, whose results are returned, and one that returns the values too. A compiler fuses
operations otherwise where a value is returned, and may round otherwise, in the last bits. So the results of both are
compared, bit by bit, and it is said whether they are equal.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ..code.operations import walk
from ..errors import RunError, closest, listed, some
from ..planning.step import Step
from ..plans.plan_data import Plan
from ..processes import whole
from ..programs.values import Value
from ..running.lower import Shards
from ..running.run import run
from ..specs.spec import Spec
from ..typed_keys import words
from .assembled import addends
from .names import named, original
from .own_order import split_dims
from .probed import compiled, flat
from .probing import Probing, Tap, is_closed
from .where import made_by


@dataclasses.dataclass(frozen=True, eq=False)
class Form:
    """A value on the devices after one step.

    Attributes:
        spec: how it is sharded.
        loops: how often each loop around it runs, outermost first; the arrays have these axes in front.
        by: the operation or the collective that made it, as text; "" for an argument.
        own_order: the dims along which each device has an order of its own; it has no whole value then.
    """

    spec: Spec
    loops: tuple[int, ...]
    by: str
    own_order: tuple[str, ...]
    plan: Plan = dataclasses.field(repr=False)
    tap: Tap = dataclasses.field(repr=False)
    taken: np.ndarray = dataclasses.field(repr=False)

    @property
    def shards(self) -> tuple[np.ndarray, ...]:
        """What each device holds, in the order of the mesh: `[*iterations, *local shape]`."""
        return tuple(self.taken)

    @functools.cached_property
    def _addends(self) -> np.ndarray:
        if self.own_order:
            raise RunError(
                f"This value has no whole: each device has {listed(self.own_order)} in an order of its own. Read"
                " `shards`, or watch what ml.combine returns."
            )
        return addends(self.taken, self.plan, self.tap)

    @property
    def addends(self) -> np.ndarray | None:
        """The addends of a partial sum, each as large as the value: `[parts, *iterations, *shape]`; else None."""
        return self._addends if self.spec.partial else None

    @functools.cached_property
    def whole(self) -> np.ndarray:
        """All of the value: `[*iterations, *shape]`."""
        parts = self._addends
        return parts[0] if len(parts) == 1 else parts.sum(0, dtype=parts.dtype)


@dataclasses.dataclass(frozen=True, eq=False)
class Watched:
    """A value that was watched.

    Attributes:
        value: its label, dims, shape and line.
        forms: the value on the devices: as it is made, and after each move.
    """

    value: Value
    forms: tuple[Form, ...]

    @property
    def whole(self) -> np.ndarray:
        """All of the value: `[*iterations, *shape]`."""
        return self.forms[0].whole

    @property
    def shards(self) -> tuple[np.ndarray, ...]:
        """What each device holds as the value is made, in the order of the mesh."""
        return self.forms[0].shards

    @property
    def addends(self) -> np.ndarray | None:
        """The addends, where the value is made as a partial sum: `[parts, *iterations, *shape]`; else None."""
        return self.forms[0].addends

    @property
    def loops(self) -> tuple[int, ...]:
        """How often each loop around it runs, outermost first."""
        return self.forms[0].loops

    def __repr__(self) -> str:
        value, loops = self.value, "".join(f"{times} × " for times in self.loops)
        dims = " ".join(dim or "_" for dim in value.dims)
        line = f" at {value.source}" if value.source else ""
        return f"`{value.label}`{line}: {loops}[{dims}] {value.dtype}, {', then '.join(map(_described, self.forms))}"


def _described(form: Form) -> str:
    order = f", {listed(form.own_order)} in each device's own order" if form.own_order else ""
    return (f"{form.spec} by {form.by}" if form.by else f"{form.spec} as passed") + order


class Seen(Mapping[str, Watched]):
    """What was watched, by name; prints as a list.

    Attributes:
        result: what `plan.run` returns.
        exact: whether the program that returns the values too has returned the same bits: with more results, a
            compiler may round differently.
    """

    def __init__(self, result: Any, exact: bool, values: Mapping[str, tuple[Watched, ...]]):
        self.result, self.exact, self._values = result, exact, dict(values)

    def __getitem__(self, name: str) -> Watched:
        return self.all(name)[0]

    def all(self, name: str) -> tuple[Watched, ...]:
        """Returns all values of a name: those of a line that runs several times, in order."""
        if name not in self._values:
            raise RunError(f"`{name}` was not watched.{closest(name, self._values)} {_watched(self._values)}")
        return self._values[name]

    def __contains__(self, name: object) -> bool:
        return name in self._values

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def __repr__(self) -> str:
        rows = [f"{name}: {value!r}" for name, values in self._values.items() for value in values]
        rows += (
            []
            if self.exact
            else ["The watched program rounds differently: its results are not equal to the plan's bit by bit."]
        )
        return "\n".join(rows)


def _watched(values: Mapping[str, Any]) -> str:
    return f"The watched values are {some(tuple(values))}."


def watch(plan: Plan, args: Sequence[Any], values: Sequence[str | Value], most: int | None = None) -> Seen:
    """Runs a plan and returns values of its step; see `Plan.watch`.

    Args:
        plan: the plan.
        args: its arguments.
        values: the values, by name.
        most: how many bytes they may be on all devices together; of more nothing is run.
    """
    names = named(plan.program, values, "watch()")
    arrays = flat(plan, args, "watch()")
    wanted = frozenset(number for numbers in names.values() for number in numbers)
    taps, result, taken = take(plan, arrays, wanted, most=most)
    forms: dict[int, list[Form]] = {number: [] for number in wanted}
    for tap, array in zip(taps, taken, strict=True):
        forms[tap.number].append(_form(plan, tap, array))
    if unseen := [name for name, numbers in names.items() if not any(forms[number] for number in numbers)]:
        numbers = [number for name in unseen for number in names[name]]
        raise RunError(f"watch() cannot look at {some(unseen)}: {'; '.join(_reasons(plan, numbers))}.")
    seen = {
        name: tuple(Watched(plan.program.value(n), tuple(forms[n])) for n in numbers if forms[n])
        for name, numbers in names.items()
    }
    own = run(plan, args, donate=False)
    return Seen(own, _equal(own, result), seen)


def _equal(one: Any, other: Any) -> bool:
    """Says whether two results are equal bit by bit."""
    results = ([np.asarray(whole(words(leaf))) for leaf in jax.tree.leaves(each)] for each in (one, other))
    return all(a.tobytes() == b.tobytes() for a, b in zip(*results, strict=True))


def take(
    plan: Plan,
    arrays: Sequence[Any],
    wanted: frozenset[int],
    runs: Callable[..., Probing] = Probing,
    most: int | None = None,
) -> tuple[tuple[Tap, ...], Any, list[np.ndarray]]:
    """Runs a plan; returns where values of some numbers were met, the function's results, and what devices held."""

    def probe(_runs: Probing, tap: Tap, shards: Shards) -> Any:
        if tap.number not in wanted:
            return None
        return words(jnp.asarray(shards[tap.key]))

    probed = compiled(plan, probe, ("watch", wanted), runs)
    if most is not None and probed.nbytes > most:
        labels = [plan.program.value(number).label for number in sorted(wanted)]
        raise RunError(
            f"{some(labels)} would be {probed.nbytes:,} bytes on all devices, in all iterations: more than {most:,}."
            " plan.watch() has no such limit."
        )
    result, taken = probed(arrays)
    return probed.taps, result, taken


def _form(plan: Plan, tap: Tap, array: np.ndarray) -> Form:
    loops = tuple(loop.times or 0 for loop in tap.apart)
    return Form(tap.spec, loops, made_by(tap), split_dims(plan.program, tap.number, tap.spec), plan, tap, array)


def _reasons(plan: Plan, numbers: Sequence[int]) -> Iterator[str]:
    """Says why nothing was met of values: they are inside of what returns its results alone, or the plan has none."""
    inside: dict[int, str] = {}
    for step in _closed(plan.steps):
        what = f"{step.title or 'the pipeline'}" + (f" at {step.runs.source}" if step.runs else "")
        blocks = step.runs.blocks if step.runs else ()
        for number in (n for block in blocks for op in walk(block) for n in op.outputs):
            inside.setdefault(original(plan.program, number), what)
    pipeline = plan.schedule is not None
    for number in dict.fromkeys(numbers):
        label = plan.program.value(number).label
        if number in inside:
            yield f"`{label}` is computed inside {inside[number]}, which returns only its results"
        elif pipeline:
            yield f"`{label}` is computed inside the pipeline, whose stages return only their results"
        else:
            yield f"no device computes `{label}` by itself under this layout"


def _closed(steps: Sequence[Step]) -> Iterator[Step]:
    for step in steps:
        if is_closed(step):
            yield step
        else:
            for part in step.parts:
                yield from _closed(part.steps)
