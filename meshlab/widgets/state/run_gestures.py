"""What a script says of the board's runs: when they start and stop, what is looked at afterwards, what a step took.

explorer.run().wait()
explorer.look("hidden")["hidden"].shards[3]         what device 3 had of it in the run's last step
explorer.profile().collectives                      measured, and shown below the predicted step
"""

from __future__ import annotations

from ...api.profile import Profile
from ...engine.inside.watch import Seen
from ..documents.document import ExplorerError
from ..documents.intents import Cancel, CancelLook, CancelMeasure, Look, Outcome, Refused, Start
from .gestures import Gestures
from .handlers import refused_to_measure
from .profiles import RUNS
from .runs import Run


class RunGestures(Gestures):
    """The methods of an Explorer that concern its runs."""

    def run(self, steps: int | None = None) -> Run:
        """Trains under the present layout, in the background.

        Args:
            steps: how many steps; by default what the training says.

        Returns:
            The run: `.wait()`, `.cancel()`, `.losses`, `.result`.

        Raises:
            ExplorerError: there is nothing to train on, or a run is going on already.
        """
        with self.lock:
            answer = self.apply(Start(steps))
            if isinstance(answer, Refused):
                raise ExplorerError(f"{answer.reason} {answer.fix}".strip())
            return self.runs[-1]

    def cancel(self) -> Outcome:
        """Stops the present run after its present step."""
        return self.apply(Cancel())

    def look(self, value: str) -> Seen:
        """Looks at a value of the latest run's last step, shows it in Devices, and waits for it.

        The step runs again, with the arguments that it had in the run, as `plan.watch` does it.

        Args:
            value: a name that `plan.watch` takes: a place, a tag, a name that a line assigns, a line.

        Returns:
            What `plan.watch` returns: `explorer.look("hidden")["hidden"].whole`.

        Raises:
            ExplorerError: there is no run that has ended, or no such value.
            MeshlabError: the value cannot be looked at, or this was cancelled.
        """
        with self.lock:
            answer = self.apply(Look(value))
            if isinstance(answer, Refused):
                raise ExplorerError(f"{answer.reason} {answer.fix}".strip())
            job = self.looks.last
        assert job is not None
        return job.wait().seen

    def cancel_look(self) -> Outcome:
        """Stops looking at a value of a step; it is not shown."""
        return self.apply(CancelLook())

    def profile(self, *args: object, runs: int = RUNS) -> Profile:
        """Measures the step of the present layout, shows it below the predicted step, and waits for it.

        Args:
            *args: as for `plan.run`; without any, on random data.
            runs: how often it runs; the run of median length is reported.

        Returns:
            What `plan.profile` returns, which prints as a table.

        Raises:
            ExplorerError: a run is going on.
            MeshlabError: the step cannot be measured, as `plan.profile` says, or this was cancelled.
        """
        with self.lock:
            refusal = refused_to_measure(self)
            if refusal is not None:
                raise ExplorerError(f"{refusal.reason} {refusal.fix}")
            job = self.profiles.measure(self.document, self.plan, args, runs)
        return job.wait()

    def cancel_profile(self) -> Outcome:
        """Stops measuring the step; it is not shown."""
        return self.apply(CancelMeasure())
