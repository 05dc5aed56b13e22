"""Looks at values of the step that a run took last: its arguments, its outputs, and whatever is computed in between.

    looks.look(run, "hidden")           in the background
    looks.last.result.seen["hidden"]    what the devices held of it

A run keeps no value from inside of its steps. So its last step runs again, with the arguments that it had, by a program
that returns the value too (`engine/inside/watch.py`): nothing is predicted, and where the run met a NaN it is there.
"""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import jax

from ...engine.errors import RunError, listed
from ...engine.inside.names import named
from ...engine.inside.watch import Seen, watch
from ..background.latest import Latest
from ..documents.intents import Refused
from .run_values import RunValues
from .runs import Run

# A value is not read that has more bytes, on all devices and in all iterations together.
MOST_BYTES = 2**30


@dataclasses.dataclass(frozen=True, eq=False)
class Looked:
    """What was looked at.

    Attributes:
        run: whose last step it is of.
        values: those of the step, with the plan that was run.
        seen: what the devices held.
    """

    run: Run
    values: RunValues
    seen: Seen


class Looks(Latest):
    """The looks of one Explorer, one at a time; the result of each is a `Looked`."""

    def look(self, run: Run | None, name: Any) -> Refused | None:
        """Begins to look at a value of a run's last step, or says why that cannot be."""
        values = None if run is None else run.values
        if run is None or values is None:
            return Refused("No step was run that could be looked into.", "Run one first.", "nothing")
        if run.active:
            return Refused(f"Run {run.number} is still running.", "Wait for it, or cancel it.", "running")
        if values.began is None:
            why = f"Run {run.number} failed after step {values.step:,}, and does not have what that step began with."
            return Refused(why, "Run again with as many steps.", "nothing")
        program, began = values.plan.program, values.began
        try:
            names = named(program, [name], "look()")
        except RunError as error:
            return Refused(str(error), code="unknown")
        found = [program.value(number) for numbers in names.values() for number in numbers]
        keys = [each.label for each in found if jax.numpy.issubdtype(each.dtype, jax.dtypes.extended)]
        if keys:
            return Refused(f"{listed(keys)} cannot be shown as numbers: these are random keys.", code="keys")
        if empty := [each.label for each in found if not math.prod(each.shape)]:
            return Refused(f"{listed(empty)} cannot be shown: no number is in it.", code="empty")
        arguments = tuple(began[parameter] for parameter in program.parameters)

        def work() -> Looked:
            return Looked(run, values, watch(values.plan, arguments, [name], MOST_BYTES))

        self.begin(name, work)
        return None
