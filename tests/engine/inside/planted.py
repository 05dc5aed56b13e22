"""Plants faults in a plan while it runs: one step's result is made wrong, as a bug in meshlab or in XLA would.

    program = with_switch(step, shapes)              # the step, with a number in front that says which fault is on
    faults = planted(plan, args)                     # by number: every fault that changes some number
    found = differing(plan, right, (number, *args), Planting)

All faults are in one compiled program, and an argument turns one on, so that a program is compiled once for all.

    scaled     × 1.01 on one device                      lost      one device's addend of a partial sum is zero
    swapped    two devices hold each other's shards      stale     a loop carries on what it was given
    nan        one number on one device is NaN
"""

from __future__ import annotations

import dataclasses
import math
import zlib
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

import meshlab as ml
from meshlab.engine.code.loops import carried
from meshlab.engine.code.operations import walk
from meshlab.engine.inside.names import original
from meshlab.engine.inside.probed import compiled, flat
from meshlab.engine.inside.probing import Probing, Tap
from meshlab.engine.planning.steps import Materialise, Nested
from meshlab.engine.programs.program import Program, analysis
from meshlab.engine.running.lower import Shards
from meshlab.engine.specs.spec import Spec

KINDS = ("scaled", "swapped", "lost", "stale", "nan")
NONE = -1


@dataclasses.dataclass(frozen=True)
class Fault:
    """A fault: of which kind, in which value, on which device."""

    kind: str
    tap: Tap
    device: int


def with_switch(step, shapes):
    """Traces a step with one more argument in front, which it returns: the number of the fault that is on."""

    def switched(fault, *args):
        return fault + 0, step(*args)

    return ml.trace(switched, jax.ShapeDtypeStruct((), jnp.int32), *shapes)


class Planting(Probing):
    """Runs steps, and makes wrong what one of them makes: that of the fault whose number is the first argument."""

    def meet(self, tap: Tap, shards: Shards):
        switch = shards.get((self.program.arguments[0].value, Spec(())))
        if tap.step is not None and switch is not None:
            right = jnp.asarray(shards[tap.key])
            for kind in KINDS:
                wrong = self.wrong(kind, tap, shards, right)
                if wrong is not None:
                    on = switch == self.number(kind, tap)
                    shards[tap.key] = jnp.where(on, wrong, shards[tap.key]).astype(right.dtype)
        super().meet(tap, shards)

    def number(self, kind: str, tap: Tap) -> int:
        """The same for a fault, whatever is looked at."""
        return zlib.crc32(repr((kind, tap.number, tap.spec, tap.position)).encode()) % 2**30

    def chosen(self, kind: str, tap: Tap) -> int:
        """The device that has it wrong."""
        return self.number(kind, tap) // 7 % math.prod(self.sizes[axis] for axis in self.axes)

    @property
    def axes(self) -> tuple[str, ...]:
        return tuple(axis for axis in self.sizes if axis not in self.sizes.in_time)

    def wrong(self, kind: str, tap: Tap, shards: Shards, right: Any) -> Any:
        """What a fault makes of a value; None where it can do nothing."""
        if isinstance(tap.step, Materialise | Nested) or not jnp.issubdtype(right.dtype, jnp.floating):
            return None
        here = self.device.index(self.axes) == self.chosen(kind, tap)
        split = [axis for axis in tap.spec.axes if axis in self.axes]
        if kind == "scaled":
            return jnp.where(here, right * 1.01, right)
        if kind == "nan":
            return jnp.where(here, right.ravel().at[0].set(jnp.nan).reshape(right.shape), right)
        if kind == "swapped" and split:
            others = [(i, i) for i in range(2, self.sizes[split[0]])]
            return lax.ppermute(right, split[0], [(0, 1), (1, 0), *others])
        if kind == "lost" and set(tap.spec.partial).intersection(self.axes):
            return jnp.where(here, 0.0, right)
        if kind == "stale" and (given := _given(self.program).get(tap.number)) is not None:
            before = shards.get((given, tap.spec))
            return before if before is not None and jnp.shape(before) == right.shape else None
        return None


class _Listing(Planting):
    """Runs steps with no fault, and takes for each whether it would change a number."""

    def meet(self, tap: Tap, shards: Shards):
        right = jnp.asarray(shards[tap.key])
        for kind in KINDS if tap.step is not None else ():
            wrong = self.wrong(kind, tap, shards, right)
            if wrong is not None:
                changes = jnp.any((wrong.astype(right.dtype) != right) & jnp.isfinite(right))
                fault = jnp.where(changes, KINDS.index(kind), -1)
                self.taken.append((tap, fault))


def planted(plan, args) -> dict[int, Fault]:
    """Every fault that changes some number, by its number."""
    probed = compiled(plan, lambda *_: None, "planted", _Listing)
    _, taken = probed(flat(plan, (np.int32(NONE), *args), "planted()"))
    runs, faults = Planting(plan.program, plan.grid, lambda *_: None), {}
    for tap, kinds in zip(probed.taps, taken, strict=True):
        for kind in {int(each) for each in np.unique(kinds)} - {-1}:
            number = runs.number(KINDS[kind], tap)
            faults[number] = Fault(KINDS[kind], tap, runs.chosen(KINDS[kind], tap))
    return faults


@analysis
def _given(program: Program) -> dict[int, int]:
    """For each value that a loop carries on the value that it was given."""
    pairs = {}
    for operation in walk(program.code.block):
        if operation.name == "scan":
            count, block = carried(operation), operation.blocks[0]
            pairs |= dict(zip(block.outputs[:count], block.inputs[:count], strict=True))
    return {original(program, out): given for out, given in pairs.items() if isinstance(out, int)}
