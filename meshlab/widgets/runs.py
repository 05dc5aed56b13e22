"""Training under a plan, in the background, so that neither the notebook nor the board waits for it.

A `Training` says what the plan cannot know: the values to start from and the batches. Say the program is
`step(params, images, labels) -> (loss, params)`, whose output 1 is the next step's `params`:

    >>> training = Training({"params": params}, batches=lambda: ({"images": x, "labels": y} for x, y in data), steps=50)
    >>> run = ml.explore(program, mesh, run=training).run()
    >>> run.wait().losses[-1]

Each step calls `plan.run`, hands carried outputs to the next step, and notes the first scalar output as the loss. A
run can be cancelled between two steps (XLA cannot be interrupted within one). It starts from the same values every
time, so that two layouts can be compared: the losses agree.
"""

from __future__ import annotations

import dataclasses
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from ..engine.errors import closest, listed
from .document import Document, ExplorerError

REPORT_SECONDS = 0.1  # Jupyter drops messages beyond 1000 a second; the eye needs ten


@dataclasses.dataclass(frozen=True)
class Training:
    """What a run repeats.

    Args:
        start: values of the program's arguments at the first step, by argument name; those that the program carries
            are replaced by its own outputs afterwards.
        batches: makes a fresh iterable of the arguments that change with each step, by argument name; it is called
            again whenever it is used up.
        steps: how many steps a run takes, unless it is told otherwise.

    Raises:
        ExplorerError: `steps` is below 1, or `batches` cannot be called.

    Example:
        >>> Training({"params": params, "images": images, "labels": labels}, steps=20)  # every step on the same data
    """

    start: Mapping[str, Any]
    batches: Callable[[], Iterable[Mapping[str, Any]]] | None = None
    steps: int = 100

    def __post_init__(self):
        if self.steps < 1:
            raise ExplorerError(f"Training was given steps={self.steps}; it takes at least 1.")
        if self.batches is not None and not callable(self.batches):
            raise ExplorerError(
                f"Training was given batches of type {type(self.batches).__name__}, which is used up by one run; "
                "hand in a function that makes them: batches=lambda: iter(...)."
            )

    def feeds(self) -> Iterator[Mapping[str, Any]]:
        """Yields the changing arguments of each step, without end."""
        if self.batches is None:
            while True:
                yield {}
        while True:
            before = None
            for before in self.batches():
                yield before
            if before is None:
                raise ExplorerError("Training's batches() gave no batch at all; it must give at least one.")


def parameters_of(program: Any) -> tuple[str, ...]:
    """Returns the names of the program's parameters, in order."""
    return tuple(dict.fromkeys(argument.parameter for argument in program.arguments))


def check_training(training: Training, program: Any) -> None:
    """Refuses a training whose values do not belong to the program's arguments.

    Args:
        training: the training.
        program: the program.

    Raises:
        ExplorerError: a name is not an argument of the program, or a carried argument has no value to start from.
    """
    arguments = parameters_of(program)
    for name in training.start:
        if name not in arguments:
            raise ExplorerError(
                f"Training starts from `{name}`, which is no argument of this program (it has {listed(arguments)})."
                f"{closest(name, arguments)}"
            )
    needed = set(program.carry) if training.batches else set(arguments)
    missing = [name for name in arguments if name in needed and name not in training.start]
    if missing:
        raise ExplorerError(f"Training lacks a value to start from for {listed(missing)}; add it to `start`.")


def _loss(outputs: tuple) -> float | None:
    """Returns the first output without axes, which by custom is the loss."""
    for output in outputs:
        if getattr(output, "shape", None) == ():
            return float(output)
    return None


class Run:
    """A training that is going on, or has ended.

    Attributes:
        number: 1 for the Explorer's first run.
        revision: the Explorer's revision when it started.
        document: the document that it runs; it is stale once the Explorer shows another.
        steps: how many steps it is to take.
        phase: "compiling", "running", "done", "cancelled" or "failed".
        losses: one per step taken, where the program has a scalar output.
        error: what went wrong, where it failed.
        result: values of the carried arguments after the last step.
    """

    def __init__(self, number: int, revision: int, document: Document, steps: int):
        self.number, self.revision, self.document, self.steps = number, revision, document, steps
        self.phase = "compiling"
        self.losses: list[float] = []
        self.taken = 0
        self.error = ""
        self.result: dict[str, Any] = {}
        self.step_seconds: float | None = None
        self._stop = threading.Event()
        self._ended = threading.Event()

    def __repr__(self) -> str:
        loss = f", loss {self.losses[-1]:.6g}" if self.losses else ""
        why = f": {self.error}" if self.error else ""
        layout = str(self.document.layout) or "no layout"
        return f"Run {self.number} ({layout}): {self.phase}, step {self.taken}/{self.steps}{loss}{why}"

    @property
    def active(self) -> bool:
        """Whether it has not ended yet."""
        return self.phase in ("compiling", "running")

    def cancel(self) -> None:
        """Asks it to stop after its present step."""
        self._stop.set()

    def wait(self, timeout: float | None = None) -> Run:
        """Waits until it has ended (or `timeout` seconds), and returns it."""
        self._ended.wait(timeout)
        return self

    def start(self, plan: Any, training: Training, report: Callable[[], None]) -> Run:
        """Starts it in a thread of its own; `report` is called there, at most ten times a second."""
        work = threading.Thread(target=self._work, args=(plan, training, report), name=f"meshlab-run-{self.number}")
        work.daemon = True
        work.start()
        return self

    def _work(self, plan: Any, training: Training, report: Callable[[], None]) -> None:
        try:
            self._steps(plan, training, report)
            self.phase = "cancelled" if self._stop.is_set() and self.taken < self.steps else "done"
        except Exception as error:  # whatever the user's data or the machine does is shown on the board
            self.phase, self.error = "failed", f"{type(error).__name__}: {error}"
        finally:
            try:
                report()
            finally:
                self._ended.set()

    def _steps(self, plan: Any, training: Training, report: Callable[[], None]) -> None:
        arguments, carry = parameters_of(plan.program), plan.program.carry
        values = dict(training.start)
        feeds = training.feeds()
        reported, first_ended = 0.0, 0.0
        while self.taken < self.steps and not self._stop.is_set():
            values.update(next(feeds))
            missing = [name for name in arguments if name not in values]
            if missing:
                raise ExplorerError(f"A batch came without {listed(missing)}; each gives what `start` does not.")
            outputs = plan.run(*(values[name] for name in arguments))
            outputs = tuple(outputs) if isinstance(outputs, (tuple, list)) else (outputs,)
            values.update({name: outputs[index] for name, index in carry.items()})
            self.result = {name: values[name] for name in carry}
            loss = _loss(outputs)
            if loss is not None:
                self.losses.append(loss)
            self.taken, self.phase = self.taken + 1, "running"
            now = time.monotonic()
            first_ended = first_ended or now  # the first step compiles: it is left out of the mean
            if self.taken > 1:
                self.step_seconds = (now - first_ended) / (self.taken - 1)
            if now - reported >= REPORT_SECONDS:
                reported = now
                report()


def run_view(run: Run | None, current: Document) -> dict | None:
    """Returns what a page shows of a run.

    Args:
        run: the run.
        current: the document that is shown now; a run of another one is stale.

    Returns:
        Plain data; at most 120 points of the loss curve.
    """
    if run is None:
        return None
    losses = list(run.losses)
    stride = max(1, -(-len(losses) // 120))
    return {
        "number": run.number,
        "revision": run.revision,
        "layout": str(run.document.layout),
        "stale": run.document != current,
        "phase": run.phase,
        "taken": run.taken,
        "steps": run.steps,
        "first_loss": losses[0] if losses else None,
        "loss": losses[-1] if losses else None,
        "losses": losses[::stride],
        "stride": stride,
        "step_seconds": run.step_seconds,
        "error": run.error,
    }
