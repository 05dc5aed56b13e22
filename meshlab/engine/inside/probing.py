"""Runs a plan's steps, and returns arrays of the values that it meets beside the outputs.

    probing = Probing(program, grid, probe)
    device_function(plan, probing)(*shards)          # the outputs, by the same steps as always
    probing.taken                                    # [(Tap, array), …]: what the probe made of the values

No callbacks: what a probe returns is one more output of the program. Out of a loop it comes stacked, iteration by
iteration; out of a rematerialised region as it is. Nothing comes out of a `while`, of branches or of a pipeline, which
return no more than what they compute: they are run as ever.

A value may be on a device in several specs (a partial sum, and the same reduced), so a probe is asked for each.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Self

import jax.numpy as jnp
from jax import lax

from ..code.loops import is_reversed
from ..planning.staged import Staged
from ..planning.step import Step
from ..planning.steps import Iterated, Nested
from ..programs.program import Program
from ..running.interpret import run_blocks
from ..running.lower import Lowering, Shards
from ..specs.spec import Grid, Spec

# What is made of a value that was just met, from this device's shards; None where nobody asks for it.
Probe = Callable[["Probing", "Tap", Shards], Any]
# The operations whose blocks return nothing beside their results.
_CLOSED = ("while", "cond")


@dataclasses.dataclass(frozen=True)
class Around:
    """A loop or a region around a value.

    Attributes:
        step: it.
        position: where it is among the steps around it.
        times: the number of its iterations; None of a region, which runs once.
    """

    step: Step
    position: int
    times: int | None

    @property
    def in_time(self) -> str | None:
        """The axis in time that it goes over."""
        return self.step.in_time

    @property
    def is_reversed(self) -> bool:
        """Whether its last iteration runs first."""
        return isinstance(self.step, Nested) and self.times is not None and is_reversed(self.step.operation)


@dataclasses.dataclass(frozen=True)
class Tap:
    """A value in a spec, where it was met.

    Attributes:
        number: of the value.
        spec: how it lies there.
        step: that made it so; None of an argument.
        position: of that step among those around it.
        around: the loops and regions around it, outermost first.
    """

    number: int
    spec: Spec
    step: Step | None = None
    position: int = -1
    around: tuple[Around, ...] = ()

    @property
    def loops(self) -> tuple[Around, ...]:
        """The loops around it, outermost first: what a probe returns has an axis for each."""
        return tuple(each for each in self.around if each.times is not None)

    @property
    def apart(self) -> tuple[Around, ...]:
        """Those of the loops that make several values; an axis in time in the spec makes blocks or addends of one."""
        return tuple(loop for loop in self.loops if loop.in_time not in self.meeting)

    @property
    def meeting(self) -> frozenset[str]:
        """The mesh axes whose blocks or addends are those of one value."""
        return frozenset((*self.spec.axes, *self.spec.partial))

    @property
    def key(self) -> tuple[int, Spec]:
        """The value and its spec, by which its shards are known."""
        return self.number, self.spec

    @property
    def where(self) -> tuple[Any, ...]:
        """What tells it from every other one of its plan."""
        return (*self.key, self.position, *(each.position for each in self.around))

    def when(self, iterations: Sequence[int]) -> tuple[tuple[int, float], ...]:
        """Returns what sorts values by the time at which they are computed, in one iteration of each loop."""
        counts = iter(iterations)
        order = list[tuple[int, float]]()
        for each in self.around:
            count = 0 if each.times is None else next(counts)
            order.append((each.position, -count if each.is_reversed else count))
        # What a loop makes of its values comes after all of its iterations.
        return (*order, (self.position, math.inf if self.step is not None and self.step.parts else 0))


def is_closed(step: Step) -> bool:
    """Says whether nothing comes out of a step but its results."""
    return isinstance(step, Staged) or (isinstance(step, Nested) and step.operation.name in _CLOSED)


class Probing(Lowering):
    """Runs steps on one device's shards, and a probe on what they make.

    Attributes:
        taken: what the probe returned, and of which value.
    """

    def __init__(self, program: Program, sizes: Grid, probe: Probe):
        super().__init__(program, sizes)
        self.probe = probe
        self.taken: list[tuple[Tap, Any]] = []
        self._position = 0
        self._inside: list[Tap] = []

    def within(self, iteration: Mapping[str, Any]) -> Self:
        inner = super().within(iteration)
        inner.taken = []
        return inner

    def run(self, steps: Sequence[Step], shards: Shards):
        for position, step in enumerate(steps):
            self._position = position
            if is_closed(step):
                Lowering(self.program, self.sizes, self.device).run((step,), shards)
            elif isinstance(step, Nested):
                self.nested(step, shards)
            else:
                super().run((step,), shards)
            for number, spec in zip(*step.made(), strict=True):
                self.meet(Tap(number, spec, step, position), shards)

    def counts(self, number: int, spec: Spec, local: Sequence[int]) -> Any:
        """Returns which numbers of this device's shard of a value are no padding, in its shape; None where all are."""
        counts = None
        for axis, split in enumerate(spec.splits if self.sizes.pads else ()):
            parts = self.sizes.part_sizes(self.code.shapes[number][axis], split)
            if split and set(parts) != {local[axis]}:
                here = lax.broadcasted_iota(jnp.int32, tuple(local), axis)
                here = here < jnp.asarray(parts, jnp.int32)[self.device.index(split)]
                counts = here if counts is None else counts & here
        return counts

    def meet(self, tap: Tap, shards: Shards):
        """Asks the probe about a value that was just made."""
        array = self.probe(self, tap, shards)
        if array is not None:
            self.taken.append((tap, jnp.asarray(array)))

    def nested(self, step: Nested, shards: Shards):
        operation, position, inside = step.operation, self._position, list[Tap]()

        def evaluate(number: int, arrays: Sequence[Any]) -> list[Any]:
            before, self.taken = self.taken, []
            results = self.inside(step, shards, number, arrays)
            taken, self.taken = self.taken, before
            inside[:] = [tap for tap, _ in taken]
            return [*results, *(array for _, array in taken)]

        results = run_blocks(operation, self.read(shards, operation.inputs, step.operands), evaluate)
        count = len(operation.outputs)
        shards.update(((v, s), r) for v, s, r in zip(operation.outputs, step.results, results[:count], strict=True))
        self._add(Around(step, position, step.times if step.loops else None), inside, results[count:])

    def beside(self, runs: Lowering) -> Sequence[Any]:
        assert isinstance(runs, Probing)
        self._inside = [tap for tap, _ in runs.taken]
        return [array for _, array in runs.taken]

    def passed(self, step: Iterated, beside: Sequence[Any]):
        self._add(Around(step, self._position, step.times), self._inside, beside)

    def _add(self, around: Around, inside: Sequence[Tap], arrays: Sequence[Any]):
        """Adds what was taken inside a loop or a region."""
        for tap, array in zip(inside, arrays, strict=True):
            self.taken.append((dataclasses.replace(tap, around=(around, *tap.around)), array))
