"""Training under a plan, in the background, so that neither the notebook nor the board waits for it.

    >>> run = ml.explore(program, mesh, run=training).run()
    >>> run.wait().losses[-1]

The steps are those of `plan.fit` (`training/stepping.py`); none donates its arrays, since the board shows those of the
last one. A run can be cancelled between two steps (XLA cannot be interrupted within one). There is one at a time; the
record of an earlier one has all but its arrays, since the table of runs shows the same loss under another layout. The
`Run` that was started has its arrays as long as somebody refers to it.
"""

from __future__ import annotations

import copy
import dataclasses
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import jax

from ...engine.argument_checks import is_whole
from ...engine.code.source import raised_at
from ...engine.errors import shown
from ...training.feeding import Training
from ...training.signature import Signature
from ...training.stepping import taken
from ..documents.document import Document, ExplorerError
from ..documents.intents import Refused
from .run_values import RunValues

REPORT_SECONDS = 0.1  # Jupyter drops messages beyond 1000 a second; the eye needs ten


def platform_of(outputs: Any) -> str:
    """Returns the platform of the devices that hold some arrays, as JAX calls it; "" where there is no array."""
    arrays = [leaf for leaf in jax.tree.leaves(outputs) if isinstance(leaf, jax.Array)]
    return next((device.platform for array in arrays for device in array.devices()), "")


class Run:
    """One run of a training, in progress or ended.

    Attributes:
        number: 1 for the Explorer's first run.
        revision: the Explorer's revision when it started.
        document: the document that it runs; the run is stale once the Explorer shows another layout.
        steps: how many steps it takes.
        phase: "compiling", "running", "done", "cancelled" or "failed".
        losses: one per step taken, where the program has a scalar output.
        seconds: of each step taken, from its call until its outputs are there; the first compiles too.
        platform: what it ran on, as JAX calls it; "" before the first step.
        error: why it failed.
    """

    def __init__(self, number: int, revision: int, document: Document, steps: int):
        self.number, self.revision, self.document, self.steps = number, revision, document, steps
        self.phase = "compiling"
        self.losses: list[float] = []
        self.seconds: list[float] = []
        self.platform = ""
        self.taken = 0
        self.error = ""
        self._result: dict[str, Any] | None = {}
        self._values: RunValues | None = None
        self._stop = threading.Event()
        self._ended = threading.Event()

    def __repr__(self) -> str:
        loss = f", loss {self.losses[-1]:.6g}" if self.losses else ""
        why = f": {self.error}" if self.error else ""
        layout = str(self.document.layout) or "nothing sharded"
        return f"Run {self.number} ({layout}): {self.phase}, step {self.taken}/{self.steps}{loss}{why}"

    @property
    def result(self) -> dict[str, Any]:
        """Values of the carried arguments after the last step.

        Raises:
            ExplorerError: another run has started since, and this is the Explorer's record of it.
        """
        if self._result is None:
            raise ExplorerError(
                f"Run {self.number} has lost its arrays, since another run has started; keep the return "
                "value of explorer.run()."
            )
        return self._result

    @property
    def values(self) -> RunValues | None:
        """The arguments and outputs of the last step; None before the first, and of a record without arrays."""
        return self._values

    def record(self) -> Run:
        """Returns a copy without arrays."""
        record = copy.copy(self)
        record._result = record._values = None
        return record

    @property
    def active(self) -> bool:
        """Whether the run is in progress."""
        return self.phase in ("compiling", "running")

    def cancel(self) -> None:
        """Stops the run after its present step."""
        self._stop.set()

    def wait(self, timeout: float | None = None) -> Run:
        """Waits until the run has ended (or `timeout` seconds), and returns it."""
        self._ended.wait(timeout)
        return self

    def start(self, plan: Any, training: Training, report: Callable[[], Any]) -> Run:
        """Starts the run in a thread of its own; `report` is called there, at most ten times a second."""
        work = threading.Thread(target=self._work, args=(plan, training, report), name=f"meshlab-run-{self.number}")
        work.daemon = True
        work.start()
        return self

    def _work(self, plan: Any, training: Training, report: Callable[[], Any]) -> None:
        try:
            self._steps(plan, training, report)
            self.phase = "cancelled" if self._stop.is_set() and self.taken < self.steps else "done"
        except Exception as error:  # whatever the user's data or the machine does is shown on the board
            line = raised_at(error)
            self.phase, self.error = "failed", f"{type(error).__name__}: {error}" + (f" ({line})" if line else "")
        finally:
            try:
                report()
            finally:
                self._ended.set()

    def _steps(self, plan: Any, training: Training, report: Callable[[], Any]) -> None:
        walk = taken(plan, training.start, training.feeds(), Signature.of(plan.program, training.loss))
        values, reported = training.start, 0.0
        while self.taken < self.steps and not self._stop.is_set():
            if self._values is not None:
                self._values = dataclasses.replace(self._values, began=None)
            step = next(walk)
            began = {**step.values, **{name: values[name] for name in plan.program.carry}}
            values = step.values
            self.seconds.append(step.seconds)
            self._result = {name: step.values[name] for name in plan.program.carry}
            self._values = RunValues(plan, self.taken + 1, step.values, step.outputs, step.batch, began)
            self.platform = self.platform or platform_of(step.outputs)
            if step.loss is not None:
                self.losses.append(step.loss)
            self.taken, self.phase = self.taken + 1, "running"
            now = time.monotonic()
            if now - reported >= REPORT_SECONDS:
                reported = now
                report()


class Runs:
    """The runs of one Explorer, oldest first, one at a time; only the last one has its arrays.

    Args:
        training: the training that they run; None where there is none.
    """

    def __init__(self, training: Training | None):
        self.training = training
        self._all: tuple[Run, ...] = ()

    def __iter__(self) -> Iterator[Run]:
        return iter(self._all)

    def __len__(self) -> int:
        return len(self._all)

    def __getitem__(self, number: int) -> Run:
        return self._all[number]

    def start(
        self, steps: int | None, plan: Any, document: Document, revision: int, report: Callable[[], Any]
    ) -> Refused | None:
        """Starts a run.

        Args:
            steps: how many steps; None for as many as the training says.
            plan: the plan to run.
            document: the plan's document.
            revision: the Explorer's revision.
            report: called as the run proceeds, from its own thread.

        Returns:
            Why the run is refused; None where it has started.
        """
        if self.training is None:
            fix = "Open it with ml.explore(program, mesh, run=ml.Training(start, batches))."
            return Refused("This Explorer has no data to train on.", fix, "no_training")
        if self._all and self._all[-1].active:
            reason = f"Run {self._all[-1].number} is still running; only one run at a time is possible."
            return Refused(reason, "Wait for it, or cancel it.", "running")
        if steps is not None and (not is_whole(steps) or steps < 1):
            return Refused(
                f"A run of {shown(steps)} steps is invalid.",
                "The number must be an integer of at least 1.",
                "bad_steps",
            )
        run = Run(len(self._all) + 1, revision, document, steps or self.training.steps)
        self._all = (*self._all[:-1], *(last.record() for last in self._all[-1:]), run)
        run.start(plan, self.training, report)
        return None

    def cancel(self) -> Refused | None:
        """Cancels the present run; returns a refusal where there is none."""
        if not self._all or not self._all[-1].active:
            return Refused("There is no run to cancel.", code="nothing")
        self._all[-1].cancel()
        return None
